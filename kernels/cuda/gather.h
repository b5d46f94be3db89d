// Parameters of reading and writing at indices that are data.
#pragma once

#include "kernels/cuda/params.h"

namespace maestro::kernels::cuda {

/// y[o, i, :] = data[o, indices[i], :]; elements of 1, 2, 4 or 8 bytes.
struct GatherParams {
  const void *data;
  AnyTensor indices;
  void *y;
  AxisDims dims; ///< Of data.
  int64_t indexCount;
  int32_t perThread; ///< Neighbouring elements.
  bool packed;       ///< They are 16 bytes at aligned places.
  Report report;
};

/// y[i] = data[map(i) + indices[i]·along].
struct GatherElementsParams {
  const void *data;
  AnyTensor indices;
  void *y;
  int64_t count, limit, along;
  Strided<1> map;
  Report report;
};

/// Index tuples of GatherND and ScatterND: data [batches, addressed…, inner], indices [batches, tuples, depth].
struct TupleDims {
  int64_t addressed[kMaxRank];
  int32_t depth;
  int64_t batches, tuples, inner, rowsPerBatch; ///< rowsPerBatch: the product of the addressed dims.
};
struct GatherNdParams {
  const void *data;
  AnyTensor indices;
  void *y;
  TupleDims dims;
  Report report;
};

/// What row of the result each index, or tuple of indices, writes to.
struct RowKeysParams {
  AnyTensor indices;
  uint32_t *keys; ///< kNoRow: an index out of range.
  int64_t count;
  TupleDims dims; ///< Single indices are tuples of one.
  Report report;
};
inline constexpr uint32_t kNoRow = 0xffffffffu;

/// order[r] = the r-th of the keys by value, equal ones by position.
struct RankKeysParams {
  const uint32_t *keys;
  uint32_t *order;
  int64_t count;
};

enum class ScatterOp : int32_t { None, Add, Multiply, Smallest, Largest };

/// Combines result[o, key, :] with updates[o, i, :] in the order of i, for each key once.
struct ScatterRowsParams {
  AnyTensor updates, result;
  const uint32_t *keys, *order;
  int64_t count; ///< Of keys.
  AxisDims dims; ///< Of the result.
  ScatterOp op;
};

/// Combines result[map(i) + indices[i]·along] with updates[i], a line along the axis a thread.
struct ScatterElementsParams {
  AnyTensor indices, updates, result;
  AxisDims dims; ///< Of the indices.
  int64_t limit, along;
  Strided<1> map; ///< Of the indices, the axis left out of account.
  ScatterOp op;
  Report report;
};

/// The source's elements where the mask is set, in order. Counts of set elements are kept for every kMaskChunk
/// elements.
inline constexpr int kMaskPerThread = 8;
inline constexpr int64_t kMaskChunk = 256 * kMaskPerThread;
struct MaskCountParams {
  AnyTensor mask;
  int64_t *counts; ///< One a chunk; after the scan, what comes before the chunk.
  int64_t count, chunks, available;
  bool checks; ///< Too few are a failure.
  Report report;
};
struct MaskedScatterParams {
  AnyTensor mask;
  const int64_t *before;
  const void *x, *source;
  void *y;
  int64_t count, available;
  bool gathers; ///< y[place] = x[i], the gradient, instead of y[i] = mask ? source[place] : x[i].
  Report report;
};

} // namespace maestro::kernels::cuda
