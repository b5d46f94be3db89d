// Reading at indices that are data.
#include "kernels/cuda/gather.h"

#include "kernels/cuda/block.h"

namespace maestro::kernels::cuda {
namespace {

template <typename T> __device__ void gather(const GatherParams &p) {
  int64_t units = p.dims.inner / p.perThread, thread = threadOfGrid();
  if (thread >= p.dims.outer * p.indexCount * units)
    return;
  Divided byRow = divided(thread, units), byOuter = divided(byRow.whole, p.indexCount);
  int64_t unit = byRow.rest, row = byRow.whole, position = byOuter.rest, outer = byOuter.whole;
  int64_t index = load<int64_t>(p.indices, position);
  int64_t wrapped = index < 0 ? index + p.dims.axis : index;
  if (wrapped < 0 || wrapped >= p.dims.axis) {
    if (unit == 0 && outer == 0)
      checkedIndex(p.report, index, position, p.dims.axis);
    return;
  }
  const T *from = static_cast<const T *>(p.data) + (outer * p.dims.axis + wrapped) * p.dims.inner + unit * p.perThread;
  T *to = static_cast<T *>(p.y) + row * p.dims.inner + unit * p.perThread;
  if (p.packed)
    storePack(to, loadPack(from));
  else
    for (int i = 0; i < p.perThread; ++i)
      to[i] = from[i];
}

template <typename T> __device__ void gatherElements(const GatherElementsParams &p) {
  int64_t at = threadOfGrid();
  if (at >= p.count)
    return;
  int64_t index = checkedIndex(p.report, load<int64_t>(p.indices, at), at, p.limit);
  if (index >= 0)
    static_cast<T *>(p.y)[at] = static_cast<const T *>(p.data)[offsetOf(p.map, at) + index * p.along];
}

/// The row that a tuple addresses; −1, and a failure where `reports`, if it has an index out of range.
__device__ int64_t tupleRow(const AnyTensor &indices, const TupleDims &dims, int64_t tuple, const Report &report,
                            bool reports) {
  int64_t row = 0;
  for (int k = 0; k < dims.depth; ++k) {
    int64_t position = tuple * dims.depth + k, limit = dims.addressed[k], index = load<int64_t>(indices, position);
    int64_t wrapped = index < 0 ? index + limit : index;
    if (wrapped < 0 || wrapped >= limit) {
      if (reports)
        checkedIndex(report, index, position, limit);
      return -1;
    }
    row = row * limit + wrapped;
  }
  return tuple / dims.tuples * dims.rowsPerBatch + row;
}

template <typename T> __device__ void gatherNd(const GatherNdParams &p) {
  int64_t at = threadOfGrid();
  if (at >= p.dims.batches * p.dims.tuples * p.dims.inner)
    return;
  int64_t k = at % p.dims.inner, row = tupleRow(p.indices, p.dims, at / p.dims.inner, p.report, k == 0);
  if (row >= 0)
    static_cast<T *>(p.y)[at] = static_cast<const T *>(p.data)[row * p.dims.inner + k];
}

__device__ void rowKeys(const RowKeysParams &p) {
  int64_t at = threadOfGrid();
  if (at >= p.count)
    return;
  int64_t row = tupleRow(p.indices, p.dims, at, p.report, true);
  p.keys[at] = row < 0 ? kNoRow : static_cast<uint32_t>(row);
}

} // namespace

#define KERNELS(X)                                                                                                     \
  MAESTRO_BY_SIZE(X, gather, GatherParams, gather)                                                                     \
  MAESTRO_BY_SIZE(X, gather_elements, GatherElementsParams, gatherElements)                                            \
  MAESTRO_BY_SIZE(X, gather_nd, GatherNdParams, gatherNd)                                                              \
  X(row_keys, RowKeysParams, rowKeys)

MAESTRO_KERNELS(gather, KERNELS)
#undef KERNELS

} // namespace maestro::kernels::cuda
