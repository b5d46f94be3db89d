#include "kernels/muon.h"

#include <array>
#include <cstring>
#include <utility>

namespace maestro::kernels {
namespace {

/// y = a · b of f32 matrices, either of them transposed.
class Product {
public:
  Product(TensorType a, TensorType b, TensorType y, bool transposeA, bool transposeB)
      : in{a, b}, out{y}, attributes{Attribute{"transpose_a", Attribute::Kind::Ints, {transposeA}, {}, {}},
                                     Attribute{"transpose_b", Attribute::Kind::Ints, {transposeB}, {}, {}}} {}

  Status prepare(const Library &library, int threads) {
    MAESTRO_ASSIGN(kernel, library.prepare({"matmul", Attributes(attributes), in, out, threads}));
    return kernel ? Status() : Status::internal("muon: no library multiplies matrices of f32");
  }
  size_t scratchBytes() const { return kernel->scratchBytes(); }
  Status run(const float *a, const float *b, float *y, void *scratch) const {
    const void *inputs[] = {a, b};
    void *outputs[] = {y};
    return kernel->run(inputs, outputs, scratch);
  }

private:
  std::array<TensorType, 2> in;
  std::array<TensorType, 1> out;
  std::array<Attribute, 2> attributes;
  std::unique_ptr<Kernel> kernel;
};

size_t padded(size_t bytes) { return (bytes + 63) & ~size_t{63}; }

class Muon : public Kernel {
public:
  explicit Muon(const CallSpec &spec)
      : step(spec), matrix{DType::F32, spec.inputs[0].shape()}, gram{DType::F32,
                                                                     std::array<int64_t, 2>{step.side(), step.side()}},
        grams(matrix, matrix, gram, !step.fromLeft(), step.fromLeft()), squares(gram, gram, gram, false, false),
        powers(step.fromLeft() ? gram : matrix, step.fromLeft() ? matrix : gram, matrix, false, false),
        clears(spec.outputs.size() > 2 && spec.outputs[2].present),
        copies(spec.outputs.size() > 3 && spec.outputs[3].present) {}

  Status prepare(const Library &library, int threads) {
    for (Product *product : {&grams, &squares, &powers}) {
      MAESTRO_TRY(product->prepare(library, threads));
      productScratch = std::max(productScratch, product->scratchBytes());
    }
    return {};
  }

  size_t scratchBytes() const override {
    return 2 * padded(matrix.bytes()) + 2 * padded(gram.bytes()) + productScratch;
  }

  Status run(std::span<const void *const> inputs, std::span<void *const> outputs, void *scratch) override {
    MuonStep now = step;
    now.setScalars(static_cast<const float *>(inputs[3]));
    auto *free = static_cast<std::byte *>(scratch);
    auto take = [&free](const TensorType &type) {
      return reinterpret_cast<float *>(std::exchange(free, free + padded(type.bytes())));
    };
    float *x = take(matrix), *next = take(matrix), *g = take(gram), *gg = take(gram);
    const auto *grad = static_cast<const float *>(inputs[1]);
    auto *buffer = static_cast<float *>(outputs[1]);
    int64_t count = matrix.elements(), gramCount = gram.elements();
    double squaresSum = 0;
    for (int64_t i = 0; i < count; ++i) {
      x[i] = now.direction(grad[i], buffer[i]);
      squaresSum += static_cast<double>(x[i]) * x[i];
    }
    float norm = std::max(static_cast<float>(std::sqrt(squaresSum)), now.eps);
    for (int64_t i = 0; i < count; ++i)
      x[i] /= norm;
    for (int iteration = 0; iteration < now.iterations; ++iteration) {
      MAESTRO_TRY(grams.run(x, x, g, free));
      MAESTRO_TRY(squares.run(g, g, gg, free));
      for (int64_t i = 0; i < gramCount; ++i)
        g[i] = MuonStep::kB * g[i] + MuonStep::kC * gg[i];
      MAESTRO_TRY(now.fromLeft() ? powers.run(g, x, next, free) : powers.run(x, g, next, free));
      for (int64_t i = 0; i < count; ++i)
        x[i] = MuonStep::kA * x[i] + next[i];
    }
    auto *param = static_cast<float *>(outputs[0]);
    for (int64_t i = 0; i < count; ++i)
      param[i] = now.apply(param[i], x[i]);
    if (clears)
      std::memset(outputs[2], 0, matrix.bytes());
    if (copies)
      for (int64_t i = 0; i < count; ++i)
        static_cast<BFloat16 *>(outputs[3])[i] = BFloat16(param[i]);
    return {};
  }

private:
  MuonStep step;
  TensorType matrix, gram;        ///< [rows, columns], [side, side]
  Product grams, squares, powers; ///< X·Xᵀ (or Xᵀ·X), its square, and a polynomial of it times X.
  size_t productScratch = 0;
  bool clears, copies;
};

} // namespace

PreparedKernel prepareMuon(const CallSpec &spec, const Library &products) {
  auto kernel = std::make_unique<Muon>(spec);
  MAESTRO_TRY(kernel->prepare(products, spec.threads));
  return PreparedKernel(std::move(kernel));
}

} // namespace maestro::kernels
