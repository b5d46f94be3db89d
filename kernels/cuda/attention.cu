// Attention by online softmax over tiles of 32 × 32, and its gradients: queries' by tiles of queries, keys' and values'
// by tiles of keys, so that each sum has one owner and one order.
#include "kernels/cuda/attention.h"

#include "kernels/cuda/tile.h"

namespace maestro::kernels::cuda {
namespace {

template <typename T>
__device__ Rows<T> rowsOf(const void *data, const RowStrides &s, int64_t b, int64_t h, int64_t count, int depth) {
  return {static_cast<const T *>(data) + b * s.batch + h * s.head, s.row, count, depth};
}

/// What query i and key j of head h score: −∞ where i does not attend j. `capped` is the score without the mask.
__device__ float scoreOf(const AttentionParams &p, int64_t b, int64_t h, int64_t i, int64_t j, float dot,
                         float &capped) {
  capped = dot * p.scale;
  if (p.softcap > 0)
    capped = p.softcap * tanhf(capped / p.softcap);
  if (i >= p.queries || j >= p.keys || (p.causal && j > i + p.causalOffset))
    return -kInfinity;
  if (!p.mask.data)
    return capped;
  float value =
      load<float>(p.mask, b * p.maskStrides[0] + h * p.maskStrides[1] + i * p.maskStrides[2] + j * p.maskStrides[3]);
  return p.boolean ? (value != 0 ? capped : -kInfinity) : value == -kInfinity ? value : capped + value;
}

/// The gradient of q·k from the weight, its gradient and the query's Σ grad·o.
__device__ float scoreGrad(const AttentionParams &p, float weight, float dweight, float dot, float capped) {
  float grad = weight * (dweight - dot) * p.scale;
  return p.softcap > 0 ? grad * (1 - capped / p.softcap * (capped / p.softcap)) : grad;
}

/// Keys of a tile that no query up to `lastQuery` attends: all tiles from here on are hidden too.
__device__ bool beyondCausal(const AttentionParams &p, int64_t firstKey, int64_t lastQuery) {
  return p.causal && firstKey > lastQuery + p.causalOffset;
}

template <typename T, int kSlices> __device__ void attention(const AttentionParams &p) {
  int64_t b = blockIdx.z, h = blockIdx.y, kh = h / p.group, tile = int64_t(blockIdx.x) * kTileRows;
  int64_t first = tile + warpOf() * kOwnRows;
  Rows<T> q = rowsOf<T>(p.q, p.qRows, b, h, p.queries, p.depth), k = rowsOf<T>(p.k, p.kRows, b, kh, p.keys, p.depth);
  Rows<T> v = rowsOf<T>(p.v, p.vRows, b, kh, p.keys, p.valueDepth);
  RowSums<kSlices> sums;
  sums.clear();
  float largest[kOwnRows], total[kOwnRows], weights[kOwnRows]; // total: of this lane's keys.
#pragma unroll
  for (int r = 0; r < kOwnRows; ++r) {
    largest[r] = -kInfinity;
    total[r] = 0;
  }
  for (int64_t firstKey = 0; firstKey < p.keys && !beyondCausal(p, firstKey, tile + kTileRows - 1);
       firstKey += kTileRows) {
    tileDots(weights, q, tile, k, firstKey);
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) {
      float capped, score = scoreOf(p, b, h, first + r, firstKey + laneOf(), weights[r], capped);
      float now = larger(warpReduce(score, Largest()), largest[r]);
      float factor = now == -kInfinity ? 1 : expf(largest[r] - now);
      weights[r] = now == -kInfinity ? 0 : expf(score - now);
      largest[r] = now;
      total[r] = total[r] * factor + weights[r];
#pragma unroll
      for (float &sum : sums.v[r])
        sum *= factor;
    }
    sums.add(weights, v, firstKey);
  }
#pragma unroll
  for (int r = 0; r < kOwnRows; ++r) {
    float sum = warpReduce(total[r], Sum());
    weights[r] = sum == 0 ? 0 : 1 / sum;
    if (laneOf() == 0 && first + r < p.queries)
      p.lse[(b * p.heads + h) * p.queries + first + r] = sum == 0 ? -kInfinity : largest[r] + logf(sum);
  }
  sums.store(static_cast<T *>(p.o) + b * p.oRows.batch + h * p.oRows.head, p.oRows.row, first, p.queries, p.valueDepth,
             weights);
}

/// Σ grad·o of each query, a warp each.
template <typename T> __device__ void attentionDots(const AttentionGradParams &g) {
  const AttentionParams &p = g.forward;
  int64_t b = blockIdx.z, h = blockIdx.y, i = int64_t(blockIdx.x) * (kBlock / kWarp) + warpOf();
  if (i >= p.queries)
    return;
  int64_t row = b * p.oRows.batch + h * p.oRows.head + i * p.oRows.row;
  float sum = 0;
  for (int d = laneOf(); d < p.valueDepth; d += kWarp)
    sum += toFloat(static_cast<const T *>(g.grad)[row + d]) * toFloat(static_cast<const T *>(p.o)[row + d]);
  sum = warpReduce(sum, Sum());
  if (laneOf() == 0)
    g.dots[(b * p.heads + h) * p.queries + i] = sum;
}

template <typename T, int kSlices> __device__ void attentionGradQuery(const AttentionGradParams &g) {
  const AttentionParams &p = g.forward;
  int64_t b = blockIdx.z, h = blockIdx.y, kh = h / p.group, tile = int64_t(blockIdx.x) * kTileRows;
  int64_t first = tile + warpOf() * kOwnRows, statistics = (b * p.heads + h) * p.queries;
  Rows<T> q = rowsOf<T>(p.q, p.qRows, b, h, p.queries, p.depth), k = rowsOf<T>(p.k, p.kRows, b, kh, p.keys, p.depth);
  Rows<T> v = rowsOf<T>(p.v, p.vRows, b, kh, p.keys, p.valueDepth);
  Rows<T> grad = rowsOf<T>(g.grad, p.oRows, b, h, p.queries, p.valueDepth);
  RowSums<kSlices> sums;
  sums.clear();
  float dots[kOwnRows], dweights[kOwnRows], one[kOwnRows];
  for (int64_t firstKey = 0; firstKey < p.keys && !beyondCausal(p, firstKey, tile + kTileRows - 1);
       firstKey += kTileRows) {
    tileDots(dots, q, tile, k, firstKey);
    tileDots(dweights, grad, tile, v, firstKey);
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) {
      float capped, score = scoreOf(p, b, h, first + r, firstKey + laneOf(), dots[r], capped);
      bool attends = score != -kInfinity;
      float weight = attends ? expf(score - p.lse[statistics + first + r]) : 0;
      dots[r] = attends ? scoreGrad(p, weight, dweights[r], g.dots[statistics + first + r], capped) : 0;
    }
    sums.add(dots, k, firstKey);
  }
#pragma unroll
  for (float &factor : one)
    factor = 1;
  sums.store(static_cast<T *>(g.dq) + b * p.qRows.batch + h * p.qRows.head, p.qRows.row, first, p.queries, p.depth,
             one);
}

template <typename T, int kSlices> __device__ void attentionGradKey(const AttentionGradParams &g) {
  const AttentionParams &p = g.forward;
  int64_t b = blockIdx.z, kh = blockIdx.y, tile = int64_t(blockIdx.x) * kTileRows;
  int64_t first = tile + warpOf() * kOwnRows;
  Rows<T> k = rowsOf<T>(p.k, p.kRows, b, kh, p.keys, p.depth), v = rowsOf<T>(p.v, p.vRows, b, kh, p.keys, p.valueDepth);
  RowSums<kSlices> dk, dv;
  dk.clear();
  dv.clear();
  float dots[kOwnRows], dweights[kOwnRows], one[kOwnRows];
  for (int64_t h = kh * p.group; h < (kh + 1) * p.group; ++h) {
    int64_t statistics = (b * p.heads + h) * p.queries;
    Rows<T> q = rowsOf<T>(p.q, p.qRows, b, h, p.queries, p.depth);
    Rows<T> grad = rowsOf<T>(g.grad, p.oRows, b, h, p.queries, p.valueDepth);
    for (int64_t firstQuery = 0; firstQuery < p.queries; firstQuery += kTileRows) {
      if (beyondCausal(p, tile, firstQuery + kTileRows - 1))
        continue;
      int64_t i = firstQuery + laneOf();
      float lse = i < p.queries ? p.lse[statistics + i] : 0, dot = i < p.queries ? g.dots[statistics + i] : 0;
      tileDots(dots, k, tile, q, firstQuery);
      tileDots(dweights, v, tile, grad, firstQuery);
#pragma unroll
      for (int r = 0; r < kOwnRows; ++r) {
        float capped, score = scoreOf(p, b, h, i, first + r, dots[r], capped);
        bool attends = score != -kInfinity;
        float weight = attends ? expf(score - lse) : 0;
        dots[r] = attends ? scoreGrad(p, weight, dweights[r], dot, capped) : 0;
        dweights[r] = weight;
      }
      dv.add(dweights, grad, firstQuery);
      dk.add(dots, q, firstQuery);
    }
  }
#pragma unroll
  for (float &factor : one)
    factor = 1;
  dk.store(static_cast<T *>(g.dk) + b * p.kRows.batch + kh * p.kRows.head, p.kRows.row, first, p.keys, p.depth, one);
  dv.store(static_cast<T *>(g.dv) + b * p.vRows.batch + kh * p.vRows.head, p.vRows.row, first, p.keys, p.valueDepth,
           one);
}

constexpr float kHiddenBias = -0x1p100f, kLowestBias = -0x1p90f; ///< −∞; what a finite number is at least.

__device__ void attentionBias(const AttentionBiasParams &p) {
  int64_t at = threadOfGrid();
  if (at >= p.rows * p.row)
    return;
  int64_t j = at % p.row, i = at / p.row % p.queries, head = at / p.row / p.queries;
  int64_t b = head / p.heads, h = head % p.heads;
  float value = 0;
  if (j < p.keys) {
    value =
        load<float>(p.mask, b * p.maskStrides[0] + h * p.maskStrides[1] + i * p.maskStrides[2] + j * p.maskStrides[3]);
    if (p.boolean)
      value = value != 0 ? 0 : kHiddenBias;
    else
      value = value == -kInfinity ? kHiddenBias : value < kLowestBias ? kLowestBias : value; // Not a number stays so.
  }
  store(p.bias, at, value);
}

__device__ void attentionRows(const AttentionRowsParams &p) {
  int64_t row = threadOfGrid();
  if (row >= p.rows || !(p.lse[row] < kLowestBias / 2))
    return;
  bool isEmpty = p.lse[row] < kHiddenBias / 2;
  p.lse[row] = isEmpty ? -kInfinity : -0x1.fffffep127f;
  if (!isEmpty)
    return;
  int64_t i = row % p.queries, h = row / p.queries % p.heads, b = row / p.queries / p.heads;
  int64_t first = p.sequenceMajor ? (b * p.queries + i) * p.heads + h : row;
  for (int64_t d = 0; d < p.valueDepth; ++d)
    static_cast<Bf16 *>(p.o)[first * p.valueDepth + d] = fromFloat<Bf16>(0);
}

__device__ void attentionStatistics(const AttentionStatisticsParams &p) {
  int64_t row = threadOfGrid();
  if (row >= p.rows)
    return;
  float value = p.from[row];
  p.to[row / p.part * p.stride + row % p.part] = value == -kInfinity   ? -kHiddenBias
                                                 : value < kLowestBias ? kLowestBias
                                                                       : value;
}

} // namespace

#define BY_SLICES(X, stem, suffix, Params, body, T)                                                                    \
  X(stem##_64_##suffix, Params, (body<T, 1>))                                                                          \
  X(stem##_128_##suffix, Params, (body<T, 2>))                                                                         \
  X(stem##_256_##suffix, Params, (body<T, 4>))
#define BY_TYPE(X, suffix, T)                                                                                          \
  BY_SLICES(X, attention, suffix, AttentionParams, attention, T)                                                       \
  BY_SLICES(X, attention_grad_query, suffix, AttentionGradParams, attentionGradQuery, T)                               \
  BY_SLICES(X, attention_grad_key, suffix, AttentionGradParams, attentionGradKey, T)                                   \
  X(attention_dots_##suffix, AttentionGradParams, attentionDots<T>)
#define KERNELS(X)                                                                                                     \
  BY_TYPE(X, f32, float)                                                                                               \
  BY_TYPE(X, bf16, Bf16)                                                                                               \
  X(attention_bias, AttentionBiasParams, attentionBias)                                                                \
  X(attention_rows, AttentionRowsParams, attentionRows)                                                                \
  X(attention_statistics, AttentionStatisticsParams, attentionStatistics)

MAESTRO_KERNELS(attention, KERNELS)
#undef KERNELS
#undef BY_TYPE
#undef BY_SLICES

} // namespace maestro::kernels::cuda
