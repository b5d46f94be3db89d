// Attention in f32 by blocks of 64 queries and 64 keys; scores never leave the caches. bf16 operands are
// converted block by block here; where the processor multiplies bf16, attention_pairs.cpp replaces this.
//
// Scores are kept transposed, Sᵀ[key, query]: then K and V are read as they lie in memory, only a
// block of queries is transposed (once), and the maximum and sum over keys need no work across lanes.
#include "kernels/cpu/loops/attention_parts.h"
#include "kernels/cpu/loops/block_product.h"
#include "kernels/cpu/loops/tables.h"

namespace maestro::kernels::cpu::MAESTRO_ISA {
namespace {

/// Rows of f32, padded with zeros to whole vectors.
struct Rows {
  const float *data;
  int64_t stride;
  const float *row(int64_t i) const { return data + i * stride; }
};

template <typename T>
void copyRows(float *to, int64_t toStride, const T *from, int64_t fromStride, int64_t rows, int64_t width,
              float scale) {
  for (int64_t i = 0; i < rows; ++i, to += toStride, from += fromStride) {
    int64_t k = 0;
    for (; k + kLanes <= width; k += kLanes)
      store(to + k, load(from + k) * scale);
    if (k < width)
      store(to + k, loadPart(from + k, width - k) * scale);
  }
}

/// The rows where they lie if they are f32 and of whole vectors; otherwise a copy in `scratch`.
template <typename T> Rows asFloatRows(float *scratch, const T *from, int64_t fromStride, int64_t rows, int64_t width) {
  if constexpr (__is_same(T, float))
    if (width % kLanes == 0)
      return {from, fromStride};
  int64_t stride = paddedWidth(width);
  copyRows(scratch, stride, from, fromStride, rows, width, 1.0f);
  return {scratch, stride};
}

/// to[d][i] = from[i][d]·scale for a block of queries; missing queries are zeros.
template <typename T>
void transposeQueries(float *to, const T *from, int64_t fromStride, int64_t rows, int64_t width, float scale) {
  for (int64_t i = rows; i < kQ; ++i)
    for (int64_t d = 0; d < width; ++d)
      to[d * kQ + i] = 0;
  for (int64_t i0 = 0; i0 < rows; i0 += kLanes)
    for (int64_t d = 0; d < width; ++d)
      for (int64_t i = i0, end = least(i0 + kLanes, rows); i < end; ++i)
        to[d * kQ + i] = toFloat(from[i * fromStride + d]) * scale;
}

template <typename T> void forward(const AttentionCall &call, int64_t b, int64_t h, int64_t queryBlock, void *scratch) {
  int64_t d = paddedWidth(call.depth), dv = paddedWidth(call.valueDepth), kh = h / call.group();
  int64_t i0 = queryBlock * kQ, rows = least(kQ, call.queries - i0);
  float *queries = static_cast<float *>(scratch), *keyRows = queries + kQ * d;
  float *valueRows = keyRows + kK * d, *scores = valueRows + kK * dv, *sums = scores + kK * kQ;
  Running running{sums + kQ * dv, sums + kQ * dv + kQ, sums + kQ * dv + 2 * kQ};

  transposeQueries(queries, rowOf<T>(call.q, call.qStrides, b, h, i0), call.qStrides.row, rows, call.depth, call.scale);
  startRunning(running);
  __builtin_memset(sums, 0, static_cast<size_t>(kQ * dv) * sizeof(float));

  int64_t limit = keyLimit(call, i0 + rows);
  bool maySkip = everyQuerySees(call, b, h, i0, rows);
  for (int64_t j0 = 0; j0 < limit; j0 += kK) {
    int64_t keys = least(kK, limit - j0);
    Visibility visibility = visibilityOf(call, maySkip, b, h, i0, rows, j0, keys);
    if (visibility == Visibility::Hidden)
      continue;
    Rows k = asFloatRows(keyRows, rowOf<T>(call.k, call.kStrides, b, kh, j0), call.kStrides.row, keys, call.depth);
    Rows v =
        asFloatRows(valueRows, rowOf<T>(call.v, call.vStrides, b, kh, j0), call.vStrides.row, keys, call.valueDepth);
    blockProduct<false>({k.data, k.stride, 1, queries, kQ, scores, kQ}, keys, kQ, call.depth);
    finishScores(call, visibility, scores, b, h, i0, rows, j0, keys);
    softmaxBlock(scores, keys, running);
    if (j0 > 0)
      shrinkRows(sums, dv, rows, running);
    blockProduct<true>({scores, 1, kQ, v.data, v.stride, sums, dv, sums, dv}, rows, dv, keys);
  }

  storeResults<T>(call, b, h, i0, rows, sums, dv, running);
}

template <typename T> void backward(const AttentionCall &call, int64_t b, int64_t kh, void *scratch) {
  int64_t d = paddedWidth(call.depth), dv = paddedWidth(call.valueDepth);
  int64_t padded = (call.keys + kK - 1) / kK * kK;
  float *keyRows = static_cast<float *>(scratch), *valueRows = keyRows + padded * d;
  float *dk = valueRows + padded * dv, *dvalue = dk + padded * d;
  float *queriesT = dvalue + padded * dv, *queryRows = queriesT + kQ * d, *dq = queryRows + kQ * d;
  float *gradsT = dq + kQ * d, *gradRows = gradsT + kQ * dv;
  float *scores = gradRows + kQ * dv, *slopes = scores + kK * kQ;
  float *factors = slopes + kK * kQ;
  QueryTerms terms{factors + kK * kQ, factors + kK * kQ + kQ};

  Rows k = asFloatRows(keyRows, rowOf<T>(call.k, call.kStrides, b, kh, 0), call.kStrides.row, call.keys, call.depth);
  Rows v =
      asFloatRows(valueRows, rowOf<T>(call.v, call.vStrides, b, kh, 0), call.vStrides.row, call.keys, call.valueDepth);
  __builtin_memset(dk, 0, static_cast<size_t>(padded * d) * sizeof(float));
  __builtin_memset(dvalue, 0, static_cast<size_t>(padded * dv) * sizeof(float));

  for (int64_t h = kh * call.group(); h < (kh + 1) * call.group(); ++h)
    for (int64_t i0 = 0; i0 < call.queries; i0 += kQ) {
      int64_t rows = least(kQ, call.queries - i0), limit = keyLimit(call, i0 + rows);
      const T *q = rowOf<T>(call.q, call.qStrides, b, h, i0);
      const T *grad = rowOf<T>(call.grad, call.oStrides, b, h, i0);
      transposeQueries(queriesT, q, call.qStrides.row, rows, call.depth, call.scale);
      transposeQueries(gradsT, grad, call.oStrides.row, rows, call.valueDepth, 1.0f);
      copyRows(queryRows, d, q, call.qStrides.row, rows, call.depth, call.scale);
      Rows grads = asFloatRows(gradRows, grad, call.oStrides.row, rows, call.valueDepth);
      readQueryTerms<T>(call, b, h, i0, rows, terms);
      bool maySkip = everyQuerySees(call, b, h, i0, rows);
      __builtin_memset(dq, 0, static_cast<size_t>(kQ * d) * sizeof(float));

      for (int64_t j0 = 0; j0 < limit; j0 += kK) {
        int64_t keys = least(kK, limit - j0);
        Visibility visibility = visibilityOf(call, maySkip, b, h, i0, rows, j0, keys);
        if (visibility == Visibility::Hidden)
          continue;
        blockProduct<false>({k.row(j0), k.stride, 1, queriesT, kQ, scores, kQ}, keys, kQ, call.depth);
        if (call.softcap > 0)
          capSlopes(call, scores, factors, keys);
        finishScores(call, visibility, scores, b, h, i0, rows, j0, keys);
        blockProduct<false>({v.row(j0), v.stride, 1, gradsT, kQ, slopes, kQ}, keys, kQ, call.valueDepth);
        backwardBlock(scores, slopes, call.softcap > 0 ? factors : nullptr, keys, terms);
        blockProduct<true>({scores, kQ, 1, grads.data, grads.stride, dvalue + j0 * dv, dv, dvalue + j0 * dv, dv}, keys,
                           dv, rows);
        blockProduct<true>({slopes, kQ, 1, queryRows, d, dk + j0 * d, d, dk + j0 * d, d}, keys, d, rows);
        blockProduct<true>({slopes, 1, kQ, k.row(j0), k.stride, dq, d, dq, d}, rows, d, keys);
      }
      for (int64_t i = 0; i < rows; ++i)
        storeRow(rowOf<T>(call.dq, call.qStrides, b, h, i0 + i), dq + i * d, call.depth, call.scale);
    }
  for (int64_t j = 0; j < call.keys; ++j) {
    storeRow(rowOf<T>(call.dk, call.kStrides, b, kh, j), dk + j * d, call.depth, 1.0f);
    storeRow(rowOf<T>(call.dv, call.vStrides, b, kh, j), dvalue + j * dv, call.valueDepth, 1.0f);
  }
}

} // namespace

void addAttention(Loops &loops) {
  loops.floats[0].attention = {forward<float>, backward<float>};
  loops.floats[1].attention = {forward<BFloat16>, backward<BFloat16>};
}

} // namespace maestro::kernels::cpu::MAESTRO_ISA
