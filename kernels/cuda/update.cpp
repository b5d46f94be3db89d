// Preparing optimizer steps and the sum of squares.
#include "kernels/cuda/update.h"

#include "kernels/accumulate.h"
#include "kernels/cuda/prepare.h"
#include "kernels/optimizer.h"

namespace maestro::kernels::cuda {
namespace {

Grid updateBlocks(int64_t count) { return blocksFor((count + kUpdatesPerThread - 1) / kUpdatesPerThread); }

AnyTensor copyType(const Call &call, size_t result) {
  return call.hasOut(result) ? anyTensor(call.out(result)) : AnyTensor{};
}

} // namespace

PreparedKernel prepareAdam(const Call &call) {
  AdamStep step(call.attributes(), call.spec.kernel == "adamw");
  AdamParams params{};
  params.copy = copyType(call, 4);
  params.count = call.in(0).elements();
  params.weightDecay = step.weightDecay;
  params.beta2 = step.beta2;
  params.oneMinusBeta1 = step.oneMinusBeta1;
  params.oneMinusBeta2 = step.oneMinusBeta2;
  params.addedDecay = step.addedDecay;
  params.eps = step.eps;
  params.decoupled = step.decoupled;
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add("adam_step", updateBlocks(params.count), params, [](AdamParams &p, const Operands &o) {
    p.param = o.out<float>(0);
    p.m = o.out<float>(1);
    p.v = o.out<float>(2);
    p.grad = o.in<float>(1);
    p.scalars = o.in<float>(4);
    p.cleared = o.out<float>(3);
    p.copy.data = o.out(4);
    p.packed = aligned(p.param) && aligned(p.m) && aligned(p.v) && aligned(p.grad) && aligned(p.cleared) &&
               aligned(p.copy.data);
  }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareSgd(const Call &call) {
  SgdStep step(call.attributes());
  SgdParams params{};
  params.copy = copyType(call, 3);
  params.count = call.in(0).elements();
  params.momentum = step.momentum;
  params.weightDecay = step.weightDecay;
  params.nesterov = step.nesterov;
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add("sgd_step", updateBlocks(params.count), params, [](SgdParams &p, const Operands &o) {
    p.param = o.out<float>(0);
    p.momentumBuffer = o.out<float>(1);
    p.grad = o.in<float>(1);
    p.scalars = o.in<float>(3);
    p.cleared = o.out<float>(2);
    p.copy.data = o.out(3);
    p.packed =
        aligned(p.param) && aligned(p.momentumBuffer) && aligned(p.grad) && aligned(p.cleared) && aligned(p.copy.data);
  }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareAverage(const Call &call) {
  AverageParams params{};
  params.count = call.in(0).elements();
  params.oneMinusDecay = AverageStep(call.attributes()).oneMinusDecay;
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add("average_step", blocksFor(params.count), params, [](AverageParams &p, const Operands &o) {
    p.param = o.in<float>(0);
    p.average = o.out<float>(0);
    p.scalars = o.in<float>(2);
  }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareSumSquares(const Call &call) {
  if (!isFloat(call.in(0).dtype) || call.out(0).dtype != DType::F64)
    return unsupported();
  int64_t count = call.in(0).elements(), blocks = (count + kSquaresPerBlock - 1) / kSquaresPerBlock;
  auto sequence = call.sequence();
  size_t partial = sequence->reserve(static_cast<size_t>(blocks) * sizeof(double));
  MAESTRO_TRY(sequence->add("sum_squares_partial", {static_cast<unsigned>(blocks)},
                            SumSquaresParams{anyTensor(call.in(0)), nullptr, count, false},
                            [partial](SumSquaresParams &p, const Operands &o) {
                              p.x.data = address(o.in(0));
                              p.packed = p.x.dtype == DType::F32 && aligned(p.x.data);
                              p.partial = o.scratchAt<double>(partial);
                            }));
  MAESTRO_TRY(sequence->add("sum_partial", {1},
                            SumPartialParams{nullptr, nullptr, blocks, (accumulateMask(call.spec) & 1) != 0},
                            [partial](SumPartialParams &p, const Operands &o) {
                              p.partial = o.scratchAt<const double>(partial);
                              p.result = o.out<double>(0);
                            }));
  return prepared(std::move(sequence));
}

} // namespace maestro::kernels::cuda
