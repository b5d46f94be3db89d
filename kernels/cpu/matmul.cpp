// Matrix products: transposition is a matter of strides, leading dims that b lacks fold into m, and adding to the
// result is the product's own last step.
//
// A oneDNN primitive takes 200 to 450 µs to prepare for its dims, which products of micro-batches of ever new sizes
// would pay again and again. Those in f32 that take less than that to run are loops of our own, which need no
// preparation. oneDNN's way for dims known at run time packs more: 0.5 to 0.9 of the prepared one's speed at these
// sizes.
#include "kernels/cpu/loops/product_call.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/prepare.h"
#include "kernels/cpu/widened.h"

#include <cstring>
#include <vector>

namespace maestro::kernels::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Shape = dnnl::memory::dims;

std::span<const int64_t> leading(const TensorType &type) {
  return type.shape().first(static_cast<size_t>(type.rank - 2));
}

/// The product as oneDNN sees it: batch dims (possibly none), then matrices.
struct Problem {
  Shape batchA, batchB, batchC;
  int64_t m, n, k;
  bool transposeA, transposeB;

  explicit Problem(const CallSpec &spec)
      : transposeA(spec.attributes.getFlag("transpose_a")), transposeB(spec.attributes.getFlag("transpose_b")) {
    const TensorType &a = spec.inputs[0], &b = spec.inputs[1], &c = spec.outputs[0];
    m = c.dims[c.rank - 2];
    n = c.dims[c.rank - 1];
    k = a.dims[a.rank - (transposeA ? 2 : 1)];
    if (product(leading(b)) == 1 && !transposeA) {
      m *= product(leading(c));
      return;
    }
    for (int i = 0; i < c.rank - 2; ++i)
      appendBatch(dimOf(a, c, i), dimOf(b, c, i), c.dims[i]);
  }

  bool empty() const { return m == 0 || n == 0 || k == 0 || product(batchC) == 0; }

  Desc descA(DType dtype) const { return matrices(batchA, dtype, m, k, transposeA); }
  Desc descB(DType dtype) const { return matrices(batchB, dtype, k, n, transposeB); }
  Desc descC(DType dtype) const { return matrices(batchC, dtype, m, n, false); }
  Desc descBias(DType dtype) const {
    Shape dims(batchC.size() + 2, 1), strides(batchC.size() + 2, n);
    dims.back() = n;
    strides.back() = 1;
    return Desc(dims, onednnType(dtype), strides);
  }

private:
  /// Dim i (counted in the result) of an operand of possibly lower rank.
  static int64_t dimOf(const TensorType &operand, const TensorType &result, int i) {
    int at = i - (result.rank - operand.rank);
    return at < 0 ? 1 : operand.dims[at];
  }

  /// Neighbouring batch dims that broadcast alike become one.
  void appendBatch(int64_t a, int64_t b, int64_t c) {
    if (c == 1)
      return;
    bool alike = !batchC.empty() && (a == 1) == (batchA.back() == 1) && (b == 1) == (batchB.back() == 1);
    if (!alike) {
      batchA.push_back(a);
      batchB.push_back(b);
      batchC.push_back(c);
      return;
    }
    batchA.back() *= a;
    batchB.back() *= b;
    batchC.back() *= c;
  }

  static Desc matrices(Shape batch, DType dtype, int64_t rows, int64_t columns, bool transposed) {
    batch.push_back(rows);
    batch.push_back(columns);
    Shape strides(batch.size());
    size_t last = batch.size() - 1;
    strides[last] = transposed ? rows : 1;
    strides[last - 1] = transposed ? 1 : columns;
    int64_t stride = rows * columns;
    for (size_t i = last - 1; i-- > 0; stride *= batch[i])
      strides[i] = stride;
    return Desc(batch, onednnType(dtype), strides);
  }
};

std::unique_ptr<Kernel> build(const CallSpec &spec, const Problem &problem, bool add) {
  ThreadScope scope(spec.threads);
  bool biased = spec.inputs.size() > 2 && spec.inputs[2].present;
  DType in = spec.inputs[0].dtype, out = spec.outputs[0].dtype;
  Desc a = problem.descA(in), b = problem.descB(in), c = problem.descC(out);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  auto kernel = std::make_unique<OnednnKernel>(spec.threads);
  auto slotA = kernel->input(0, a), slotB = kernel->input(1, b), slotC = kernel->output(0, c);
  if (!biased) {
    dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(a, b, c), attributes, onednnEngine());
    kernel->add(dnnl::matmul(pd), pd.scratchpad_desc(),
                {{DNNL_ARG_SRC, slotA}, {DNNL_ARG_WEIGHTS, slotB}, {DNNL_ARG_DST, slotC}});
    return kernel;
  }
  Desc bias = problem.descBias(spec.inputs[2].dtype);
  auto slotBias = kernel->input(2, bias);
  dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(a, b, bias, c), attributes, onednnEngine());
  kernel->add(dnnl::matmul(pd), pd.scratchpad_desc(),
              {{DNNL_ARG_SRC, slotA}, {DNNL_ARG_WEIGHTS, slotB}, {DNNL_ARG_BIAS, slotBias}, {DNNL_ARG_DST, slotC}});
  return kernel;
}

/// Multiplications up to which loops of our own take a product: preparing it would take as long as running it once, and
/// they reach 0.97 of what the prepared one does (the median; 0.82 to 1.5). Sums differ in their order: this may depend
/// on a product's dims alone.
constexpr int64_t kMostOwn = int64_t{1} << 25;
/// Multiplications that another thread is worth.
constexpr int64_t kGrain = int64_t{1} << 18;

/// Products of f32 matrices, one behind the other.
class FloatProducts {
public:
  FloatProducts(const CallSpec &spec, const Problem &problem, ProductLoop loop)
      : m(problem.m), n(problem.n), k(problem.k), transposeA(problem.transposeA), transposeB(problem.transposeB),
        adds(accumulateMask(spec) & 1), threads(spec.threads), loop(loop) {
    int64_t unitA = 1, unitB = 1;
    for (size_t i = problem.batchC.size(); i-- > 0;) {
      batch[batchRank++] = {problem.batchC[i], problem.batchA[i] == 1 ? 0 : unitA, problem.batchB[i] == 1 ? 0 : unitB};
      unitA *= problem.batchA[i];
      unitB *= problem.batchB[i];
      count *= problem.batchC[i];
    }
  }

  size_t scratchBytes() const { return static_cast<size_t>(threads) * ProductCall::kScratchFloats * sizeof(float); }

  void run(const float *a, const float *b, const float *bias, float *c, float *scratch) const {
    for (int64_t i = 0; bias && adds && i < count * m * n; ++i)
      c[i] += bias[i % n];
    ProductCall call{k,    a,   transposeA ? 1 : k, transposeA ? m : 1, b, transposeB ? 1 : n, transposeB ? k : 1, c, n,
                     adds, bias};
    if (count == 1)
      return runOne(call, scratch);
    parallelItems(count * m * n * k < 2 * kGrain ? 1 : threads, count, [&](int64_t item, int worker) {
      loop(at(item, call), {0, m, 0, n}, scratch + worker * ProductCall::kScratchFloats);
    });
  }

private:
  struct BatchDim {
    int64_t size, stepA, stepB; ///< Steps in matrices; 0: the same one.
  };

  ProductCall at(int64_t item, ProductCall call) const {
    call.c += item * m * n;
    for (size_t i = 0; i < batchRank; item /= batch[i++].size) {
      call.a += item % batch[i].size * batch[i].stepA * m * k;
      call.b += item % batch[i].size * batch[i].stepB * k * n;
    }
    return call;
  }

  /// Threads share the longer side; where that is the columns, each panel is packed once.
  void runOne(const ProductCall &call, float *scratch) const {
    constexpr int64_t kUnit = ProductCall::kPanelColumns;
    bool byColumns = n > m;
    int64_t side = byColumns ? (n + kUnit - 1) / kUnit : m, work = byColumns ? m * kUnit * k : n * k;
    parallelFor(threads, side, (kGrain + work - 1) / work, [&](int64_t begin, int64_t end) {
      ProductPart part =
          byColumns ? ProductPart{0, m, begin * kUnit, std::min(end * kUnit, n)} : ProductPart{begin, end, 0, n};
      loop(call, part, scratch + omp_get_thread_num() * ProductCall::kScratchFloats);
    });
  }

  int64_t m, n, k, count = 1;
  bool transposeA, transposeB, adds;
  int threads;
  ProductLoop loop;
  std::array<BatchDim, TensorType::kMaxRank> batch{}; ///< The last dim first.
  size_t batchRank = 0;
};

PreparedKernel prepareFloat(const CallSpec &spec, const Problem &problem, const Loops &loops) {
  FloatProducts products(spec, problem, loops.product);
  return makeKernel(
      spec,
      [products](const Operands &call) {
        products.run(call.input<float>(0), call.input<float>(1), call.hasInput(2) ? call.input<float>(2) : nullptr,
                     call.output<float>(0), static_cast<float *>(call.scratch));
      },
      products.scratchBytes());
}

/// A product that adds to its result, which is the addend first.
class ToAddend : public Kernel {
public:
  ToAddend(const CallSpec &spec, std::unique_ptr<Kernel> product)
      : product(std::move(product)), bytes(static_cast<int64_t>(spec.outputs[0].bytes())), threads(spec.threads) {}

  Status run(std::span<const void *const> inputs, std::span<void *const> outputs, void *scratch) override {
    if (outputs[0] != inputs[3])
      parallelFor(threads, bytes, 4 * kElementGrain, [&](int64_t begin, int64_t end) {
        std::memcpy(at(outputs[0], begin, 1), at(inputs[3], begin, 1), static_cast<size_t>(end - begin));
      });
    return product->run(inputs.first(3), outputs, scratch);
  }
  size_t scratchBytes() const override { return product->scratchBytes(); }
  size_t ownBytes() const override { return product->ownBytes() + Kernel::ownBytes(); }

private:
  std::unique_ptr<Kernel> product;
  int64_t bytes;
  int threads;
};

PreparedKernel prepareToAddend(const CallSpec &spec, const Loops &loops) {
  std::vector<Attribute> attributes(spec.attributes.all().begin(), spec.attributes.all().end());
  attributes.push_back({.name = "accumulate", .kind = Attribute::Kind::Ints, .ints = {1}, .floats = {}, .text = {}});
  MAESTRO_ASSIGN(
      std::unique_ptr<Kernel> product,
      prepareMatmul({spec.kernel, Attributes(attributes), spec.inputs.first(3), spec.outputs, spec.threads}, loops));
  if (!product)
    return unsupported();
  return PreparedKernel(std::make_unique<ToAddend>(spec, std::move(product)));
}

} // namespace

PreparedKernel prepareMatmul(const CallSpec &spec, const Loops &loops) {
  if (spec.inputs.size() > 3 && spec.inputs[3].present)
    return prepareToAddend(spec, loops);
  if (mustWiden(spec))
    return prepareWidened(spec, loops, prepareMatmul);
  DType in = spec.inputs[0].dtype, out = spec.outputs[0].dtype;
  bool typed = onednnCovers(in) && spec.inputs[1].dtype == in && (out == in || out == DType::F32);
  bool biased = spec.inputs.size() > 2 && spec.inputs[2].present;
  if (biased && floatIndex(spec.inputs[2].dtype) < 0)
    return unsupported();
  Problem problem(spec);
  if (!typed || problem.empty())
    return unsupported();
  bool plain = in == DType::F32 && (!biased || spec.inputs[2].dtype == DType::F32);
  if (plain && problem.m * problem.n * problem.k <= kMostOwn)
    return prepareFloat(spec, problem, loops);
  try {
    return PreparedKernel(build(spec, problem, accumulateMask(spec) & 1));
  } catch (const dnnl::error &) {
    return unsupported(); // A combination that this build or processor lacks.
  }
}

} // namespace maestro::kernels::cpu
