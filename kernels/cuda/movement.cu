// Filling, moving, padding, and the running sum.
#include "kernels/cuda/movement.h"

#include "kernels/cuda/block.h"

namespace maestro::kernels::cuda {
namespace {

template <typename T> __device__ void move(const MoveParams &p) {
  const T *x = static_cast<const T *>(p.x);
  T *y = static_cast<T *>(p.y);
  int64_t at = threadOfGrid() * p.perThread, offsets[2];
  if (at >= p.count)
    return;
  offsetsOf(p.map, at, offsets);
  if (p.packed)
    storePack(y + offsets[1], loadPack(x + offsets[0]));
  else
    for (int i = 0; i < p.perThread; ++i)
      y[offsets[1] + i] = x[offsets[0] + i];
}

/// Tiles of 32 × 32 elements, so that both sides are walked along their rows.
constexpr int kTile = 32;
template <typename T> __device__ void transpose(const TransposeParams &p) {
  __shared__ T tile[kTile][kTile + 1]; // A column's elements lie in different banks.
  constexpr int kRowsAtOnce = kBlock / kTile;
  int64_t column0 = int64_t(blockIdx.x) * kTile, row0 = int64_t(blockIdx.y) * kTile;
  int lane = laneOf();
  for (int64_t batch = blockIdx.z; batch < p.batch; batch += gridDim.z) {
    const T *x = static_cast<const T *>(p.x) + batch * p.rows * p.columns;
    T *y = static_cast<T *>(p.y) + batch * p.rows * p.columns;
    for (int r = warpOf(); r < kTile; r += kRowsAtOnce)
      if (row0 + r < p.rows && column0 + lane < p.columns)
        tile[r][lane] = x[(row0 + r) * p.columns + column0 + lane];
    __syncthreads();
    for (int c = warpOf(); c < kTile; c += kRowsAtOnce)
      if (column0 + c < p.columns && row0 + lane < p.rows)
        y[(column0 + c) * p.rows + row0 + lane] = tile[lane][c];
    __syncthreads(); // The next batch writes the tile.
  }
}

__device__ void fill(const FillParams &p) {
  if (int64_t at = threadOfGrid(); at < p.count)
    store(p.y, at, p.value);
}
__device__ void iota(const IotaParams &p) {
  if (int64_t at = threadOfGrid(); at < p.count)
    store(p.y, at,
          static_cast<int64_t>(static_cast<uint64_t>(p.start) +
                               static_cast<uint64_t>(at) * static_cast<uint64_t>(p.step)));
}
__device__ void values(const ValuesParams &p) {
  if (int64_t at = threadOfGrid(); at < p.count)
    store(p.y, at, p.values[at]);
}

/// The source position of padded position `i` in a dim of `size`; −1: none (constant).
__device__ int64_t unpadded(int64_t i, int64_t size, PadMode mode) {
  if (size == 0)
    return -1;
  if (i >= 0 && i < size)
    return i;
  switch (mode) {
  case PadMode::Edge:
    return i < 0 ? 0 : size - 1;
  case PadMode::Wrap:
    return ((i % size) + size) % size;
  case PadMode::Reflect: {
    int64_t period = size > 1 ? 2 * (size - 1) : 1, folded = ((i % period) + period) % period;
    return folded < size ? folded : period - folded;
  }
  case PadMode::Constant:
    break;
  }
  return -1;
}

template <typename C> __device__ void pad(const PadParams &p) {
  int64_t at = threadOfGrid();
  if (at >= p.count)
    return;
  int64_t rest = at, position = 0, stride = 1;
  for (int d = p.rank; d-- > 0; rest /= p.to[d], stride *= p.from[d]) {
    int64_t source = unpadded(rest % p.to[d] - p.low[d], p.from[d], p.mode);
    position = source < 0 || position < 0 ? -1 : position + source * stride;
  }
  store(p.y, at, position < 0 ? convertTo<C>(p.value) : load<C>(p.x, position));
}

template <typename C> __device__ void cumsum(const CumsumParams &p) {
  int64_t line = threadOfGrid(), inner = p.dims.inner, length = p.dims.axis;
  if (line >= p.dims.outer * inner)
    return;
  int64_t start = line / inner * length * inner + line % inner;
  C sum = C(0);
  for (int64_t k = 0; k < length; ++k) {
    int64_t at = start + (p.reverse ? length - 1 - k : k) * inner;
    C element = load<C>(p.x, at); // The result may lie over the operand.
    C next = static_cast<C>(sum + element);
    store(p.y, at, p.exclusive ? sum : next);
    sum = next;
  }
}

} // namespace

#define KERNELS(X)                                                                                                     \
  MAESTRO_BY_SIZE(X, move, MoveParams, move)                                                                           \
  MAESTRO_BY_SIZE(X, transpose, TransposeParams, transpose)                                                            \
  X(fill_elements, FillParams, fill)                                                                                   \
  X(iota_elements, IotaParams, iota)                                                                                   \
  X(value_elements, ValuesParams, values)                                                                              \
  X(pad_double, PadParams, pad<double>)                                                                                \
  X(pad_integer, PadParams, pad<int64_t>)                                                                              \
  X(cumsum_double, CumsumParams, cumsum<double>)                                                                       \
  X(cumsum_integer, CumsumParams, cumsum<uint64_t>)

MAESTRO_KERNELS(movement, KERNELS)
#undef KERNELS

} // namespace maestro::kernels::cuda
