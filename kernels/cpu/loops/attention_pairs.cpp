// Attention in bf16 where the processor multiplies pairs of bf16: the blocks and the order of work are those
// of attention.cpp, products run at twice the rate, and weights are rounded to bf16 before they multiply.
#include "kernels/cpu/loops/attention_parts.h"
#include "kernels/cpu/loops/pair_product.h"
#include "kernels/cpu/loops/tables.h"

namespace maestro::kernels::cpu::MAESTRO_ISA {

#ifdef __AVX512BF16__
namespace {

using T = BFloat16;

MAESTRO_INLINE const uint32_t *asWords(const T *p) { return reinterpret_cast<const uint32_t *>(p); }

/// to[d ÷ 2][i] = the pair (from[i][d], from[i][d + 1]) for a block of queries; missing queries are zeros.
void packQueries(uint32_t *to, const T *from, int64_t fromStride, int64_t rows, int64_t width) {
  for (int64_t p = 0; p < width / 2; ++p)
    for (int64_t i = rows; i < kQ; ++i)
      to[p * kQ + i] = 0;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t p = 0; p < width / 2; ++p)
      __builtin_memcpy(to + p * kQ + i, static_cast<const void *>(from + i * fromStride + 2 * p), sizeof(uint32_t));
}

void scaleScores(float *scores, int64_t keys, float scale) {
  for (int64_t n = 0; n < keys * kQ; n += kLanes)
    store(scores + n, load(scores + n) * scale);
}

/// to[j ÷ 2][i] = (from[j][i], from[j + 1][i]): pairs along the keys; an odd last key is paired with zeros.
void packKeys(uint32_t *to, const float *from, int64_t keys) {
  for (int64_t j = 0; j < keys; j += 2, to += kQ)
    for (int64_t i = 0; i < kQ; i += kLanes) {
      Halves second = j + 1 < keys ? toHalves(load(from + (j + 1) * kQ + i)) : Halves{};
      storePairs(to + i, asPairs(toHalves(load(from + j * kQ + i)), second));
    }
}

/// to[j][i] = from[j][i] in bf16, so that neighbouring queries form pairs.
void roundScores(T *to, const float *from, int64_t keys) {
  for (int64_t n = 0; n < keys * kQ; n += kLanes)
    store(to + n, load(from + n));
}

void forward(const AttentionCall &call, int64_t b, int64_t h, int64_t queryBlock, void *scratch) {
  int64_t d = paddedWidth(call.depth), dv = paddedWidth(call.valueDepth), kh = h / call.group();
  int64_t i0 = queryBlock * kQ, rows = least(kQ, call.queries - i0);
  float *scores = static_cast<float *>(scratch), *sums = scores + kK * kQ;
  Running running{sums + kQ * dv, sums + kQ * dv + kQ, sums + kQ * dv + 2 * kQ};
  uint32_t *queries = reinterpret_cast<uint32_t *>(sums + kQ * dv + 4 * kQ);
  uint32_t *values = queries + kQ * d / 2, *weights = values + kK * dv / 2;

  packQueries(queries, rowOf<T>(call.q, call.qStrides, b, h, i0), call.qStrides.row, rows, call.depth);
  startRunning(running);
  __builtin_memset(sums, 0, static_cast<size_t>(kQ * dv) * sizeof(float));

  int64_t limit = keyLimit(call, i0 + rows);
  bool maySkip = everyQuerySees(call, b, h, i0, rows);
  for (int64_t j0 = 0; j0 < limit; j0 += kK) {
    int64_t keys = least(kK, limit - j0), pairs = (keys + 1) / 2;
    Visibility visibility = visibilityOf(call, maySkip, b, h, i0, rows, j0, keys);
    if (visibility == Visibility::Hidden)
      continue;
    const T *k = rowOf<T>(call.k, call.kStrides, b, kh, j0);
    packRows(values, dv, rowOf<T>(call.v, call.vStrides, b, kh, j0), call.vStrides.row, keys, call.valueDepth);
    pairProduct<false>({asWords(k), call.kStrides.row / 2, 1, queries, kQ, scores, kQ}, keys, kQ, call.depth / 2);
    scaleScores(scores, keys, call.scale);
    finishScores(call, visibility, scores, b, h, i0, rows, j0, keys);
    softmaxBlock(scores, keys, running);
    if (j0 > 0)
      shrinkRows(sums, dv, rows, running);
    packKeys(weights, scores, keys);
    pairProduct<true>({weights, 1, kQ, values, dv, sums, dv}, rows, dv, pairs);
  }
  storeResults<T>(call, b, h, i0, rows, sums, dv, running);
}

void backward(const AttentionCall &call, int64_t b, int64_t kh, void *scratch) {
  int64_t d = paddedWidth(call.depth), dv = paddedWidth(call.valueDepth);
  int64_t padded = (call.keys + kK - 1) / kK * kK, block = kK * kQ;
  float *dk = static_cast<float *>(scratch), *dvalue = dk + padded * d, *dq = dvalue + padded * dv;
  float *scores = dq + kQ * d, *slopes = scores + block, *factors = slopes + block;
  QueryTerms terms{factors + block, factors + block + kQ};
  uint32_t *keyPairs = reinterpret_cast<uint32_t *>(factors + block + 2 * kQ); // [keys ÷ 2][d]
  uint32_t *queriesByDepth = keyPairs + padded * d / 2, *queriesByRow = queriesByDepth + kQ * d / 2;
  uint32_t *gradsByDepth = queriesByRow + kQ * d / 2, *gradsByRow = gradsByDepth + kQ * dv / 2;
  uint32_t *slopePairs = gradsByRow + kQ * dv / 2;
  T *weightRows = reinterpret_cast<T *>(slopePairs + block / 2), *slopeRows = weightRows + block;

  const T *k = rowOf<T>(call.k, call.kStrides, b, kh, 0), *v = rowOf<T>(call.v, call.vStrides, b, kh, 0);
  packRows(keyPairs, d, k, call.kStrides.row, call.keys, call.depth);
  __builtin_memset(dk, 0, static_cast<size_t>(padded * (d + dv)) * sizeof(float));

  for (int64_t h = kh * call.group(); h < (kh + 1) * call.group(); ++h)
    for (int64_t i0 = 0; i0 < call.queries; i0 += kQ) {
      int64_t rows = least(kQ, call.queries - i0), limit = keyLimit(call, i0 + rows), rowPairs = (rows + 1) / 2;
      const T *q = rowOf<T>(call.q, call.qStrides, b, h, i0);
      const T *grad = rowOf<T>(call.grad, call.oStrides, b, h, i0);
      packQueries(queriesByDepth, q, call.qStrides.row, rows, call.depth);
      packQueries(gradsByDepth, grad, call.oStrides.row, rows, call.valueDepth);
      packRows(queriesByRow, d, q, call.qStrides.row, rows, call.depth);
      packRows(gradsByRow, dv, grad, call.oStrides.row, rows, call.valueDepth);
      readQueryTerms<T>(call, b, h, i0, rows, terms);
      bool maySkip = everyQuerySees(call, b, h, i0, rows);
      __builtin_memset(dq, 0, static_cast<size_t>(kQ * d) * sizeof(float));

      for (int64_t j0 = 0; j0 < limit; j0 += kK) {
        int64_t keys = least(kK, limit - j0);
        Visibility visibility = visibilityOf(call, maySkip, b, h, i0, rows, j0, keys);
        if (visibility == Visibility::Hidden)
          continue;
        pairProduct<false>(
            {asWords(k + j0 * call.kStrides.row), call.kStrides.row / 2, 1, queriesByDepth, kQ, scores, kQ}, keys, kQ,
            call.depth / 2);
        scaleScores(scores, keys, call.scale);
        if (call.softcap > 0)
          capSlopes(call, scores, factors, keys);
        finishScores(call, visibility, scores, b, h, i0, rows, j0, keys);
        pairProduct<false>(
            {asWords(v + j0 * call.vStrides.row), call.vStrides.row / 2, 1, gradsByDepth, kQ, slopes, kQ}, keys, kQ,
            call.valueDepth / 2);
        backwardBlock(scores, slopes, call.softcap > 0 ? factors : nullptr, keys, terms);
        roundScores(weightRows, scores, keys);
        roundScores(slopeRows, slopes, keys);
        packKeys(slopePairs, slopes, keys);
        pairProduct<true>({asWords(weightRows), kQ / 2, 1, gradsByRow, dv, dvalue + j0 * dv, dv}, keys, dv, rowPairs);
        pairProduct<true>({asWords(slopeRows), kQ / 2, 1, queriesByRow, d, dk + j0 * d, d}, keys, d, rowPairs);
        pairProduct<true>({slopePairs, 1, kQ, keyPairs + j0 / 2 * d, d, dq, d}, rows, d, (keys + 1) / 2);
      }
      for (int64_t i = 0; i < rows; ++i)
        storeRow(rowOf<T>(call.dq, call.qStrides, b, h, i0 + i), dq + i * d, call.depth, call.scale);
    }
  for (int64_t j = 0; j < call.keys; ++j) {
    storeRow(rowOf<T>(call.dk, call.kStrides, b, kh, j), dk + j * d, call.depth, call.scale);
    storeRow(rowOf<T>(call.dv, call.vStrides, b, kh, j), dvalue + j * dv, call.valueDepth, 1.0f);
  }
}

} // namespace

void addPairedAttention(Loops &loops) { loops.pairedAttention = {forward, backward}; }
#else
void addPairedAttention(Loops &) {}
#endif

} // namespace maestro::kernels::cpu::MAESTRO_ISA
