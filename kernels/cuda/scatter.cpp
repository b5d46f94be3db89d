// Preparing what writes at indices or where a mask says so.
#include "kernels/cuda/cast.h"
#include "kernels/cuda/gather.h"
#include "kernels/cuda/move.h"
#include "kernels/cuda/prepare.h"
#include "kernels/cuda/scatter_rows.h"

#include <optional>

namespace maestro::kernels::cuda {
namespace {

Result<ScatterOp> readReduction(const Call &call) {
  std::string_view text = call.attributes().getText("reduction", "none");
  constexpr std::pair<std::string_view, ScatterOp> kKnown[] = {{"none", ScatterOp::None},
                                                               {"add", ScatterOp::Add},
                                                               {"mul", ScatterOp::Multiply},
                                                               {"min", ScatterOp::Smallest},
                                                               {"max", ScatterOp::Largest}};
  for (auto [name, op] : kKnown)
    if (text == name)
      return op;
  return Status::invalidInput(std::string(call.spec.kernel) + ": unknown reduction '" + std::string(text) +
                              "'; known are none, add, mul, min, max");
}

/// Operand 0 becomes the result, which is then written into.
Status addCopy(Sequence &sequence, const Call &call) {
  return addCast(
      sequence, call.in(0).dtype, call.out(0).dtype, call.out(0).elements(), false,
      [](const Operands &o) { return o.in(0); }, [](const Operands &o) { return o.out(0); });
}

} // namespace

bool fitsKeys(const ScatterRowsParams &rows) { return rows.dims.axis < kNoRow && rows.count < INT32_MAX; }

Status addScatterRows(Sequence &sequence, AnyTensor indices, const TupleDims &tuples, const ScatterRowsParams &rows,
                      size_t indexAt, size_t updateAt) {
  size_t bytes = static_cast<size_t>(rows.count) * sizeof(uint32_t);
  size_t keys = sequence.reserve(bytes), order = sequence.reserve(bytes);
  MAESTRO_TRY(sequence.add("row_keys", blocksFor(rows.count), RowKeysParams{indices, nullptr, rows.count, tuples, {}},
                           [=](RowKeysParams &p, const Operands &o) {
                             p.indices.data = address(o.in(indexAt));
                             p.keys = o.scratchAt<uint32_t>(keys);
                             p.report = o.report();
                           }));
  MAESTRO_TRY(sequence.add("rank_keys", blocksFor(rows.count), RankKeysParams{nullptr, nullptr, rows.count},
                           [=](RankKeysParams &p, const Operands &o) {
                             p.keys = o.scratchAt<const uint32_t>(keys);
                             p.order = o.scratchAt<uint32_t>(order);
                           }));
  Grid grid{static_cast<unsigned>(rows.count), blocksFor(rows.dims.outer * rows.dims.inner).x};
  return sequence.add(std::string("scatter_rows_") + computedAs(rows.result.dtype), grid, rows,
                      [=](ScatterRowsParams &p, const Operands &o) {
                        p.updates.data = address(o.in(updateAt));
                        p.result.data = o.out(0);
                        p.keys = o.scratchAt<const uint32_t>(keys);
                        p.order = o.scratchAt<const uint32_t>(order);
                      });
}

PreparedKernel prepareScatterNd(const Call &call) {
  MAESTRO_ASSIGN(ScatterOp op, readReduction(call));
  TupleDims tuples = tupleDims(call.out(0), call.in(1), 0);
  ScatterRowsParams rows{};
  rows.updates = anyTensor(call.in(2));
  rows.result = anyTensor(call.out(0));
  rows.count = tuples.tuples;
  rows.dims = {1, tuples.rowsPerBatch, tuples.inner};
  rows.op = op;
  if (isFloat(call.in(1).dtype) || !fitsKeys(rows))
    return unsupported();
  auto sequence = call.sequence();
  MAESTRO_TRY(addCopy(*sequence, call));
  MAESTRO_TRY(addScatterRows(*sequence, anyTensor(call.in(1)), tuples, rows, 1, 2));
  return prepared(std::move(sequence));
}

PreparedKernel prepareScatterElements(const Call &call) {
  MAESTRO_ASSIGN(ScatterOp op, readReduction(call));
  if (isFloat(call.in(1).dtype))
    return unsupported();
  int64_t axis = call.attributes().getInt("axis", 0);
  AxisView view(call.in(1).shape(), axis);
  Dims strides = denseStrides(call.in(0).shape());
  ScatterElementsParams params{};
  params.indices = anyTensor(call.in(1));
  params.updates = anyTensor(call.in(2));
  params.result = anyTensor(call.out(0));
  params.dims = {view.outer, view.axis, view.inner};
  params.limit = call.in(0).dims[axis];
  params.along = strides[axis];
  strides[axis] = 0;
  params.map = joinDims<1>(call.in(1).shape(), {strides});
  params.op = op;
  auto sequence = call.sequence();
  MAESTRO_TRY(addCopy(*sequence, call));
  MAESTRO_TRY(sequence->add(std::string("scatter_elements_") + computedAs(call.out(0).dtype),
                            blocksFor(view.outer * view.inner), params,
                            [](ScatterElementsParams &p, const Operands &o) {
                              p.indices.data = address(o.in(1));
                              p.updates.data = address(o.in(2));
                              p.result.data = o.out(0);
                              p.report = o.report();
                            }));
  return prepared(std::move(sequence));
}

namespace {

/// Counts of set elements before each chunk of the mask, which is operand `maskAt`; returns where they lie.
Result<size_t> addMaskCounts(Sequence &sequence, const TensorType &mask, size_t maskAt, int64_t available,
                             bool checks) {
  int64_t count = mask.elements(), chunks = (count + kMaskChunk - 1) / kMaskChunk;
  size_t counts = sequence.reserve(static_cast<size_t>(chunks) * sizeof(int64_t));
  MaskCountParams params{anyTensor(mask), nullptr, count, chunks, available, checks, {}};
  auto bind = [=](MaskCountParams &p, const Operands &o) {
    p.mask.data = address(o.in(maskAt));
    p.counts = o.scratchAt<int64_t>(counts);
    p.report = o.report();
  };
  MAESTRO_TRY(sequence.add("mask_count", {static_cast<unsigned>(chunks)}, params, bind));
  MAESTRO_TRY(sequence.add("mask_scan", {1}, params, bind));
  return counts;
}

} // namespace

PreparedKernel prepareMaskedScatter(const Call &call) {
  DType type = call.out(0).dtype;
  if (call.in(0).dtype != type || call.in(2).dtype != type)
    return unsupported();
  int64_t count = call.in(1).elements(), available = call.in(2).elements();
  auto sequence = call.sequence();
  MAESTRO_ASSIGN(size_t counts, addMaskCounts(*sequence, call.in(1), 1, available, true));
  MaskedScatterParams params{anyTensor(call.in(1)), nullptr, nullptr, nullptr, nullptr, count, available, false, {}};
  MAESTRO_TRY(sequence->add(bySize("masked_scatter", type),
                            {static_cast<unsigned>((count + kMaskChunk - 1) / kMaskChunk)}, params,
                            [counts](MaskedScatterParams &p, const Operands &o) {
                              p.mask.data = address(o.in(1));
                              p.before = o.scratchAt<const int64_t>(counts);
                              p.x = o.in(0);
                              p.source = o.in(2);
                              p.y = o.out(0);
                              p.report = o.report();
                            }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareMaskedScatterGrad(const Call &call) {
  DType type = call.out(0).dtype;
  if (call.in(1).dtype != type)
    return unsupported();
  int64_t count = call.in(0).elements(), available = call.out(0).elements();
  auto sequence = call.sequence();
  MAESTRO_TRY(addFill(*sequence, type, available, 0, [](const Operands &o) { return o.out(0); }));
  MAESTRO_ASSIGN(size_t counts, addMaskCounts(*sequence, call.in(0), 0, available, false));
  MaskedScatterParams params{anyTensor(call.in(0)), nullptr, nullptr, nullptr, nullptr, count, available, true, {}};
  MAESTRO_TRY(sequence->add(bySize("masked_scatter", type),
                            {static_cast<unsigned>((count + kMaskChunk - 1) / kMaskChunk)}, params,
                            [counts](MaskedScatterParams &p, const Operands &o) {
                              p.mask.data = address(o.in(0));
                              p.before = o.scratchAt<const int64_t>(counts);
                              p.x = o.in(1);
                              p.y = o.out(0);
                              p.report = o.report();
                            }));
  return prepared(std::move(sequence));
}

} // namespace maestro::kernels::cuda
