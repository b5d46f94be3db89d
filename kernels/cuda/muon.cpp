// Preparing Muon: a momentum step, products by whatever multiplies matrices here, an update.
#include "kernels/cuda/muon.h"

#include "kernels/cuda/prepare.h"
#include "kernels/cuda/update.h"
#include "kernels/muon.h"

namespace maestro::kernels::cuda {
namespace {

/// One of the matrices in scratch memory, bf16.
struct Matrix {
  TensorType type;
  size_t at;
};

Status addProduct(Sequence &sequence, const Call &call, const Matrix &a, const Matrix &b, const Matrix &y,
                  bool transposeA, bool transposeB) {
  TensorType in[] = {a.type, b.type}, out[] = {y.type};
  Attribute attributes[] = {{"transpose_a", Attribute::Kind::Ints, {transposeA}, {}, {}},
                            {"transpose_b", Attribute::Kind::Ints, {transposeB}, {}, {}}};
  MAESTRO_ASSIGN(std::unique_ptr<Kernel> kernel, call.library.prepare({"matmul", Attributes(attributes), in, out, 1}));
  if (!kernel)
    return Status::internal("muon: no library multiplies matrices of bf16");
  sequence.add(std::move(kernel), {a.at, b.at}, y.at);
  return {};
}

Status addCombine(Sequence &sequence, const Matrix &x, const Matrix &y, float a, float b) {
  int64_t count = x.type.elements();
  return sequence.add("muon_combine", blocksFor(count), MuonCombineParams{nullptr, nullptr, count, a, b},
                      [x = x.at, y = y.at](MuonCombineParams &p, const Operands &o) {
                        p.x = o.scratchAt<uint16_t>(x);
                        p.y = o.scratchAt<uint16_t>(y);
                      });
}

} // namespace

PreparedKernel prepareMuon(const Call &call) {
  MuonStep step(call.spec);
  int64_t count = call.in(0).elements(), blocks = (count + kSquaresPerBlock - 1) / kSquaresPerBlock;
  auto sequence = call.sequence();
  auto matrix = [&](int64_t rows, int64_t columns) {
    TensorType type(DType::BF16, std::array<int64_t, 2>{rows, columns});
    return Matrix{type, sequence->reserve(type.bytes())};
  };
  Matrix x = matrix(step.rows, step.columns), next = matrix(step.rows, step.columns);
  Matrix gram = matrix(step.side(), step.side()), square = matrix(step.side(), step.side());
  size_t partial = sequence->reserve(static_cast<size_t>(blocks) * sizeof(double));
  size_t squares = sequence->reserve(sizeof(double));

  MuonMomentumParams momentum{};
  momentum.count = count;
  momentum.momentum = step.momentum;
  momentum.nesterov = step.nesterov;
  MAESTRO_TRY(sequence->add("muon_momentum", {static_cast<unsigned>(blocks)}, momentum,
                            [x, partial](MuonMomentumParams &p, const Operands &o) {
                              p.grad = o.in<float>(1);
                              p.buffer = o.out<float>(1);
                              p.cleared = o.out<float>(2);
                              p.x = o.scratchAt<uint16_t>(x.at);
                              p.partial = o.scratchAt<double>(partial);
                              p.scalars = o.in<float>(3);
                            }));
  MAESTRO_TRY(sequence->add("sum_partial", {1}, SumPartialParams{nullptr, nullptr, blocks, false},
                            [partial, squares](SumPartialParams &p, const Operands &o) {
                              p.partial = o.scratchAt<const double>(partial);
                              p.result = o.scratchAt<double>(squares);
                            }));
  MAESTRO_TRY(sequence->add("muon_scale", blocksFor(count), MuonScaleParams{nullptr, nullptr, count, step.eps},
                            [x, squares](MuonScaleParams &p, const Operands &o) {
                              p.x = o.scratchAt<uint16_t>(x.at);
                              p.squares = o.scratchAt<const double>(squares);
                            }));
  for (int iteration = 0; count > 0 && iteration < step.iterations; ++iteration) {
    MAESTRO_TRY(addProduct(*sequence, call, x, x, gram, !step.fromLeft(), step.fromLeft()));
    MAESTRO_TRY(addProduct(*sequence, call, gram, gram, square, false, false));
    MAESTRO_TRY(addCombine(*sequence, gram, square, MuonStep::kB, MuonStep::kC));
    MAESTRO_TRY(
        addProduct(*sequence, call, step.fromLeft() ? gram : x, step.fromLeft() ? x : gram, next, false, false));
    MAESTRO_TRY(addCombine(*sequence, x, next, MuonStep::kA, 1));
  }
  MuonApplyParams apply{};
  apply.copy = call.hasOut(3) ? anyTensor(call.out(3)) : AnyTensor{};
  apply.count = count;
  apply.weightDecay = step.weightDecay;
  apply.ratio = step.ratio;
  MAESTRO_TRY(sequence->add("muon_apply", blocksFor(count), apply, [x](MuonApplyParams &p, const Operands &o) {
    p.param = o.out<float>(0);
    p.x = o.scratchAt<const uint16_t>(x.at);
    p.copy.data = o.out(3);
    p.scalars = o.in<float>(3);
  }));
  return prepared(std::move(sequence));
}

} // namespace maestro::kernels::cuda
