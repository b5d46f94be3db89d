// Preparing what reads at indices, and the gradients, which add at them in order.
#include "kernels/cuda/gather.h"

#include "kernels/accumulate.h"
#include "kernels/cuda/move.h"
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/scatter_rows.h"

namespace maestro::kernels::cuda {
namespace {

bool areIndices(const TensorType &type) { return !isFloat(type.dtype); }

} // namespace

TupleDims tupleDims(const TensorType &data, const TensorType &indices, int64_t batchDims) {
  TupleDims dims{};
  dims.depth = static_cast<int32_t>(indices.dims[indices.rank - 1]);
  dims.batches = product(data.shape().first(static_cast<size_t>(batchDims)));
  auto rest = data.shape().subspan(static_cast<size_t>(batchDims));
  dims.rowsPerBatch = 1;
  for (int k = 0; k < dims.depth; ++k) {
    dims.addressed[k] = rest[static_cast<size_t>(k)];
    dims.rowsPerBatch *= dims.addressed[k];
  }
  dims.inner = product(rest.subspan(static_cast<size_t>(dims.depth)));
  dims.tuples = product(
      indices.shape().subspan(static_cast<size_t>(batchDims), static_cast<size_t>(indices.rank - 1 - batchDims)));
  return dims;
}

PreparedKernel prepareGather(const Call &call) {
  DType type = call.out(0).dtype;
  if (call.in(0).dtype != type || !areIndices(call.in(1)))
    return unsupported();
  AxisView view(call.in(0).shape(), call.attributes().getInt("axis", 0));
  int64_t width = 16 / static_cast<int64_t>(byteSize(type));
  GatherParams params{};
  params.indices = anyTensor(call.in(1));
  params.dims = {view.outer, view.axis, view.inner};
  params.indexCount = call.in(1).elements();
  params.perThread = view.inner % width == 0 && view.inner > 0 ? static_cast<int32_t>(width) : 1;
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(bySize("gather", type), blocksFor(call.out(0).elements() / params.perThread), params,
                            [](GatherParams &p, const Operands &o) {
                              p.data = o.in(0);
                              p.indices.data = address(o.in(1));
                              p.y = o.out(0);
                              p.packed = p.perThread > 1 && aligned(p.data) && aligned(p.y);
                              p.report = o.report();
                            }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareGatherElements(const Call &call) {
  DType type = call.out(0).dtype;
  if (call.in(0).dtype != type || !areIndices(call.in(1)))
    return unsupported();
  int64_t axis = call.attributes().getInt("axis", 0);
  Dims strides = denseStrides(call.in(0).shape());
  GatherElementsParams params{};
  params.indices = anyTensor(call.in(1));
  params.count = call.out(0).elements();
  params.limit = call.in(0).dims[axis];
  params.along = strides[axis];
  strides[axis] = 0;
  params.map = joinDims<1>(call.in(1).shape(), {strides});
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(bySize("gather_elements", type), blocksFor(params.count), params,
                            [](GatherElementsParams &p, const Operands &o) {
                              p.data = o.in(0);
                              p.indices.data = address(o.in(1));
                              p.y = o.out(0);
                              p.report = o.report();
                            }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareGatherNd(const Call &call) {
  DType type = call.out(0).dtype;
  if (call.in(0).dtype != type || !areIndices(call.in(1)))
    return unsupported();
  GatherNdParams params{};
  params.indices = anyTensor(call.in(1));
  params.dims = tupleDims(call.in(0), call.in(1), call.attributes().getInt("batch_dims", 0));
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(bySize("gather_nd", type), blocksFor(call.out(0).elements()), params,
                            [](GatherNdParams &p, const Operands &o) {
                              p.data = o.in(0);
                              p.indices.data = address(o.in(1));
                              p.y = o.out(0);
                              p.report = o.report();
                            }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareGatherGrad(const Call &call) {
  AxisView view(call.out(0).shape(), call.attributes().getInt("axis", 0));
  TupleDims tuples{};
  tuples.depth = 1;
  tuples.addressed[0] = tuples.rowsPerBatch = view.axis;
  tuples.batches = 1;
  tuples.tuples = call.in(0).elements();
  ScatterRowsParams rows{};
  rows.updates = anyTensor(call.in(1));
  rows.result = anyTensor(call.out(0));
  rows.count = tuples.tuples;
  rows.dims = {view.outer, view.axis, view.inner};
  rows.op = ScatterOp::Add;
  return prepareGatheredGrad(call, tuples, rows);
}

PreparedKernel prepareGatherNdGrad(const Call &call) {
  TupleDims tuples = tupleDims(call.out(0), call.in(0), call.attributes().getInt("batch_dims", 0));
  ScatterRowsParams rows{};
  rows.updates = anyTensor(call.in(1));
  rows.result = anyTensor(call.out(0));
  rows.count = tuples.batches * tuples.tuples;
  rows.dims = {1, tuples.batches * tuples.rowsPerBatch, tuples.inner};
  rows.op = ScatterOp::Add;
  return prepareGatheredGrad(call, tuples, rows);
}

PreparedKernel prepareGatheredGrad(const Call &call, const TupleDims &tuples, const ScatterRowsParams &rows) {
  if (!areIndices(call.in(0)) || !fitsKeys(rows))
    return unsupported();
  auto sequence = call.sequence();
  auto result = [](const Operands &o) { return o.out(0); };
  if ((accumulateMask(call.spec) & 1) == 0)
    MAESTRO_TRY(addFill(*sequence, call.out(0).dtype, call.out(0).elements(), 0, result));
  MAESTRO_TRY(addScatterRows(*sequence, anyTensor(call.in(0)), tuples, rows, 0, 1));
  return prepared(std::move(sequence));
}

} // namespace maestro::kernels::cuda
