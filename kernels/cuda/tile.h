// Products of 32 rows with 32 others for attention: a warp has four rows of its own, a lane has one of the others. Rows
// lie in shared memory in slices of 64 columns, so that any depth fits.
#pragma once

#include "kernels/cuda/block.h"

namespace maestro::kernels::cuda {

inline constexpr int kTileRows = 32;
inline constexpr int kOwnRows = kTileRows / (kBlock / kWarp); ///< Of a warp.
inline constexpr int kSlice = 64;

/// Rows of one head of a tensor.
template <typename T> struct Rows {
  const T *base;
  int64_t stride, count;
  int depth;

  /// Rows [first, first + 32), columns [column, column + 64); zeros where there are none.
  __device__ void loadSlice(float (&tile)[kTileRows][kSlice + 1], int64_t first, int column) const {
    for (int i = threadIdx.x; i < kTileRows * kSlice; i += kBlock) {
      int r = i / kSlice, c = i % kSlice;
      bool there = first + r < count && column + c < depth;
      tile[r][c] = there ? toFloat(base[(first + r) * stride + column + c]) : 0;
    }
  }
};

/// dots[r] = own row r of this warp · the other row of this lane.
template <typename T>
__device__ void tileDots(float (&dots)[kOwnRows], const Rows<T> &own, int64_t firstOwn, const Rows<T> &other,
                         int64_t firstOther) {
  __shared__ float ownTile[kTileRows][kSlice + 1], otherTile[kTileRows][kSlice + 1];
#pragma unroll
  for (int r = 0; r < kOwnRows; ++r)
    dots[r] = 0;
  for (int column = 0; column < own.depth; column += kSlice) {
    own.loadSlice(ownTile, firstOwn, column);
    other.loadSlice(otherTile, firstOther, column);
    __syncthreads();
    for (int c = 0; c < kSlice; ++c) {
      float value = otherTile[laneOf()][c];
#pragma unroll
      for (int r = 0; r < kOwnRows; ++r)
        dots[r] += ownTile[warpOf() * kOwnRows + r][c] * value;
    }
    __syncthreads(); // The next slice overwrites this one.
  }
}

/// What a warp sums for each of its rows: columns lane, lane + 32 … of a row of kSlices slices.
template <int kSlices> struct RowSums {
  static constexpr int kColumns = 2 * kSlices;
  float v[kOwnRows][kColumns];

  __device__ void clear() {
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r)
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        v[r][c] = 0;
  }

  /// row r += Σ over the lanes of their weights[r] · their other row.
  template <typename T>
  __device__ void add(const float (&weights)[kOwnRows], const Rows<T> &other, int64_t firstOther) {
    __shared__ float tile[kTileRows][kSlice + 1];
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice) {
      other.loadSlice(tile, firstOther, slice * kSlice);
      __syncthreads();
      for (int j = 0; j < kTileRows; ++j) {
        float low = tile[j][laneOf()], high = tile[j][laneOf() + kWarp];
#pragma unroll
        for (int r = 0; r < kOwnRows; ++r) {
          float weight = __shfl_sync(kAllLanes, weights[r], j);
          v[r][2 * slice] += weight * low;
          v[r][2 * slice + 1] += weight * high;
        }
      }
      __syncthreads(); // The next slice overwrites this one.
    }
  }

  /// Writes row r times factor[r] to to + (first + r)·stride, where there is one.
  template <typename T>
  __device__ void store(T *to, int64_t stride, int64_t first, int64_t count, int depth,
                        const float (&factor)[kOwnRows]) {
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r)
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        if (int column = c * kWarp + laneOf(); first + r < count && column < depth)
          to[(first + r) * stride + column] = fromFloat<T>(v[r][c] * factor[r]);
  }
};

} // namespace maestro::kernels::cuda
