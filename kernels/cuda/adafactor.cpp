// Preparing Adafactor.
#include "kernels/cuda/adafactor.h"

#include "kernels/adafactor.h"
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/update.h"

namespace maestro::kernels::cuda {

PreparedKernel prepareAdafactor(const Call &call) {
  AdafactorStep step(call.spec);
  AdafactorParams params{};
  params.copy = call.hasOut(4) ? anyTensor(call.out(4)) : AnyTensor{};
  params.matrices = step.matrices;
  params.rows = step.rows;
  params.columns = step.columns;
  params.count = step.count;
  params.chunks = (step.rows + kRowsPerChunk - 1) / kRowsPerChunk;
  params.beta2Decay = step.beta2Decay;
  params.weightDecay = step.weightDecay;
  params.eps1 = step.eps1;
  params.eps2 = step.eps2;
  params.clip = step.clip;
  params.factored = step.isFactored;
  auto sequence = call.sequence();
  if (step.count == 0)
    return prepared(std::move(sequence));
  auto reserve = [&](int64_t count, size_t bytes) { return sequence->reserve(static_cast<size_t>(count) * bytes); };
  size_t paramSquares = reserve(step.allRows(), sizeof(double)),
         updateSquares = reserve(step.allRows(), sizeof(double));
  size_t sums = reserve(2, sizeof(double)), meanOfRows = reserve(step.matrices, sizeof(float));
  size_t columnSums = reserve(step.isFactored ? step.matrices * params.chunks * step.columns : 0, sizeof(double));
  auto bind = [=](AdafactorParams &p, const Operands &o) {
    p.param = o.out<float>(0);
    p.grad = o.in<float>(1);
    p.rowMeans = o.out<float>(1);
    p.second = o.out<float>(2);
    p.cleared = o.out<float>(3);
    p.copy.data = o.out(4);
    p.scalars = o.in<float>(4);
    p.paramSquares = o.scratchAt<double>(paramSquares);
    p.updateSquares = o.scratchAt<double>(updateSquares);
    p.paramSquaresSum = o.scratchAt<const double>(sums);
    p.updateSquaresSum = p.paramSquaresSum + 1;
    p.columnSums = o.scratchAt<double>(columnSums);
    p.meanOfRows = o.scratchAt<float>(meanOfRows);
  };
  auto add = [&](const char *kernel, int64_t blocks) {
    return sequence->add(kernel, {static_cast<unsigned>(std::min<int64_t>(blocks, UINT32_MAX))}, params, bind);
  };
  auto addSum = [&](size_t partial, size_t result) {
    return sequence->add("sum_partial", {1}, SumPartialParams{nullptr, nullptr, step.allRows(), false},
                         [partial, result](SumPartialParams &p, const Operands &o) {
                           p.partial = o.scratchAt<const double>(partial);
                           p.result = o.scratchAt<double>(result);
                         });
  };
  MAESTRO_TRY(add("adafactor_rows", step.allRows()));
  if (step.isFactored) {
    int64_t strips = (step.columns + kBlock - 1) / kBlock;
    MAESTRO_TRY(add("adafactor_columns", strips * step.matrices * params.chunks));
    MAESTRO_TRY(add("adafactor_column_means", (step.matrices * step.columns + kBlock - 1) / kBlock));
    MAESTRO_TRY(add("adafactor_mean_of_rows", step.matrices));
  }
  MAESTRO_TRY(add("adafactor_updates", step.allRows()));
  MAESTRO_TRY(addSum(paramSquares, sums));
  MAESTRO_TRY(addSum(updateSquares, sums + sizeof(double)));
  MAESTRO_TRY(add("adafactor_apply", step.allRows()));
  return prepared(std::move(sequence));
}

} // namespace maestro::kernels::cuda
