// Writing at indices that are data, or where a mask says so. What meets at one place is combined in the order of the
// updates.
#include "kernels/cuda/block.h"
#include "kernels/cuda/gather.h"

namespace maestro::kernels::cuda {
namespace {

/// Each key's rank is the number of keys before it: as many comparisons as pairs, all from shared memory. 64 thousand
/// keys take some 0.1 ms of an H100's comparisons, and micro-batches have fewer.
__device__ void rankKeys(const RankKeysParams &p) {
  __shared__ uint32_t tile[kBlock];
  int64_t at = threadOfGrid();
  uint32_t own = at < p.count ? p.keys[at] : 0;
  int64_t rank = 0;
  for (int64_t first = 0; first < p.count; first += kBlock) {
    int64_t other = first + threadIdx.x;
    tile[threadIdx.x] = other < p.count ? p.keys[other] : kNoRow;
    __syncthreads();
    int size = static_cast<int>(p.count - first < kBlock ? p.count - first : kBlock);
    for (int i = 0; i < size; ++i)
      rank += tile[i] < own || (tile[i] == own && first + i < at);
    __syncthreads(); // The next tile overwrites this one.
  }
  if (at < p.count)
    p.order[rank] = static_cast<uint32_t>(at);
}

template <typename C> __device__ C combined(ScatterOp op, C old, C update) {
  switch (op) {
  case ScatterOp::None:
    return update;
  case ScatterOp::Add:
    return static_cast<C>(old + update);
  case ScatterOp::Multiply:
    return static_cast<C>(old * update);
  case ScatterOp::Smallest:
    return update < old ? update : old;
  case ScatterOp::Largest:
    return old < update ? update : old;
  }
  return update;
}

/// A block a slot of the order and part of the row: the first slot of a key's works for all of its.
template <typename C> __device__ void scatterRows(const ScatterRowsParams &p) {
  int64_t slot = blockIdx.x;
  uint32_t key = p.keys[p.order[slot]];
  if (key == kNoRow || (slot > 0 && p.keys[p.order[slot - 1]] == key))
    return;
  int64_t column = int64_t(blockIdx.y) * kBlock + threadIdx.x, inner = p.dims.inner;
  if (column >= p.dims.outer * inner)
    return;
  int64_t outer = column / inner, k = column % inner;
  int64_t target = (outer * p.dims.axis + key) * inner + k;
  C value = load<C>(p.result, target);
  for (; slot < p.count && p.keys[p.order[slot]] == key; ++slot)
    value = combined(p.op, value, load<C>(p.updates, (outer * p.count + p.order[slot]) * inner + k));
  store(p.result, target, value);
}

template <typename C> __device__ void scatterElements(const ScatterElementsParams &p) {
  int64_t line = threadOfGrid(), inner = p.dims.inner;
  if (line >= p.dims.outer * inner)
    return;
  int64_t start = line / inner * p.dims.axis * inner + line % inner, base = offsetOf(p.map, start);
  for (int64_t i = 0; i < p.dims.axis; ++i) {
    int64_t at = start + i * inner, index = checkedIndex(p.report, load<int64_t>(p.indices, at), at, p.limit);
    if (index < 0)
      return;
    int64_t target = base + index * p.along;
    store(p.result, target, combined(p.op, load<C>(p.result, target), load<C>(p.updates, at)));
  }
}

//===--- Masks ----------------------------------------------------------------===//

/// How many of the thread's elements are set.
__device__ int64_t ownSet(const AnyTensor &mask, int64_t first, int64_t count) {
  int64_t set = 0;
  for (int64_t at = first; at < first + kMaskPerThread && at < count; ++at)
    set += load<int64_t>(mask, at) != 0;
  return set;
}

__device__ void maskCount(const MaskCountParams &p) {
  int64_t set = blockReduce(ownSet(p.mask, threadOfGrid() * kMaskPerThread, p.count), Sum());
  if (threadIdx.x == 0)
    p.counts[blockIdx.x] = set;
}

/// Counts become what comes before each chunk; one block.
__device__ void maskScan(const MaskCountParams &p) {
  int64_t before = 0;
  for (int64_t first = 0; first < p.chunks; first += kBlock) {
    int64_t at = first + threadIdx.x, own = at < p.chunks ? p.counts[at] : 0, total;
    int64_t start = blockExclusiveSum(own, total);
    if (at < p.chunks)
      p.counts[at] = before + start;
    before += total;
  }
  if (threadIdx.x == 0 && p.checks && before < p.available)
    reportFailure(p.report, {FailureCode::MaskTakesFewer, 0, 0, 0, 0, before, 0, p.available});
}

template <typename T> __device__ void maskedScatter(const MaskedScatterParams &p) {
  int64_t first = threadOfGrid() * kMaskPerThread, total;
  int64_t place = p.before[blockIdx.x] + blockExclusiveSum(ownSet(p.mask, first, p.count), total);
  const T *x = static_cast<const T *>(p.x), *source = static_cast<const T *>(p.source);
  T *y = static_cast<T *>(p.y);
  for (int64_t at = first; at < first + kMaskPerThread && at < p.count; ++at) {
    bool set = load<int64_t>(p.mask, at) != 0;
    if (p.gathers) {
      if (set && place < p.available)
        y[place] = x[at];
    } else if (!set || place < p.available) {
      y[at] = set ? source[place] : x[at];
    } else if (place == p.available) {
      reportFailure(p.report, {FailureCode::MaskAsksForMore, 0, 0, 0, at, 0, 0, p.available});
    }
    place += set;
  }
}

} // namespace

#define BY_TYPE(X, stem, Params, body)                                                                                 \
  X(stem##_f32, Params, body<float>)                                                                                   \
  X(stem##_f64, Params, body<double>)                                                                                  \
  X(stem##_integer, Params, body<int64_t>)
#define KERNELS(X)                                                                                                     \
  X(rank_keys, RankKeysParams, rankKeys)                                                                               \
  BY_TYPE(X, scatter_rows, ScatterRowsParams, scatterRows)                                                             \
  BY_TYPE(X, scatter_elements, ScatterElementsParams, scatterElements)                                                 \
  X(mask_count, MaskCountParams, maskCount)                                                                            \
  X(mask_scan, MaskCountParams, maskScan)                                                                              \
  MAESTRO_BY_SIZE(X, masked_scatter, MaskedScatterParams, maskedScatter)

MAESTRO_KERNELS(scatter, KERNELS)
#undef KERNELS
#undef BY_TYPE

} // namespace maestro::kernels::cuda
