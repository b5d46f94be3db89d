// Attention by blocks of 64 queries and 64 keys; scores never leave the caches.
//
// Scores are kept transposed, Sᵀ[key, query]: then K and V are read as they lie in memory, only a
// block of queries is transposed (once), and the maximum and sum over keys need no work across lanes.
#include "kernels/cpu/loops/attention_call.h"
#include "kernels/cpu/loops/block_product.h"
#include "kernels/cpu/loops/math.h"
#include "kernels/cpu/loops/tables.h"

namespace maestro::kernels::cpu::MAESTRO_ISA {
namespace {

constexpr int64_t kQ = AttentionCall::kQueryBlock, kK = AttentionCall::kKeyBlock;
constexpr int64_t kGroups = kQ / kLanes;

MAESTRO_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
MAESTRO_INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

template <typename T> const T *rowOf(const void *base, const RowStrides &s, int64_t b, int64_t h, int64_t i) {
  return static_cast<const T *>(base) + b * s.batch + h * s.head + i * s.row;
}
template <typename T> T *rowOf(void *base, const RowStrides &s, int64_t b, int64_t h, int64_t i) {
  return static_cast<T *>(base) + b * s.batch + h * s.head + i * s.row;
}

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
template <typename T>
Rows asFloatRows(float *scratch, const T *from, int64_t fromStride, int64_t rows, int64_t width) {
  if constexpr (__is_same(T, float))
    if (width % kLanes == 0)
      return {from, fromStride};
  int64_t stride = paddedWidth(width);
  copyRows(scratch, stride, from, fromStride, rows, width, 1.0f);
  return {scratch, stride};
}

/// to[d][i] = from[i][d]·scale for a block of queries; missing queries are zeros.
template <typename T>
void transposeQueries(float *to, const T *from, int64_t fromStride, int64_t rows, int64_t width,
                      float scale) {
  for (int64_t i = rows; i < kQ; ++i)
    for (int64_t d = 0; d < width; ++d)
      to[d * kQ + i] = 0;
  for (int64_t i0 = 0; i0 < rows; i0 += kLanes)
    for (int64_t d = 0; d < width; ++d)
      for (int64_t i = i0, end = least(i0 + kLanes, rows); i < end; ++i)
        to[d * kQ + i] = toFloat(from[i * fromStride + d]) * scale;
}

/// Turns q·k·scale into scores: soft cap, mask, causality. −∞: not attended.
void finishScores(const AttentionCall &call, float *scores, int64_t b, int64_t h, int64_t i0, int64_t rows,
                  int64_t j0, int64_t keys) {
  if (call.softcap > 0) {
    float inverse = 1.0f / call.softcap;
    for (int64_t n = 0; n < keys * kQ; n += kLanes)
      store(scores + n, hyperbolicTangent(load(scores + n) * inverse) * call.softcap);
  }
  if (call.maskKind != MaskKind::None) {
    int64_t base = b * call.maskBatch + h * call.maskHead + i0 * call.maskQuery + j0 * call.maskKey;
    const uint8_t *flags = static_cast<const uint8_t *>(call.mask) + base;
    const float *added = static_cast<const float *>(call.mask) + base;
    const BFloat16 *addedHalf = static_cast<const BFloat16 *>(call.mask) + base;
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t i = 0; i < rows; ++i) {
        int64_t at = i * call.maskQuery + j * call.maskKey;
        float &score = scores[j * kQ + i];
        if (call.maskKind == MaskKind::Boolean)
          score = flags[at] ? score : -kInfinity;
        else
          score += call.maskKind == MaskKind::Float ? added[at] : toFloat(addedHalf[at]);
      }
  }
  if (call.causal && j0 + keys - 1 > i0 + call.causalOffset)
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t i = 0, end = least(most(j0 + j - call.causalOffset - i0, 0), kQ); i < end; ++i)
        scores[j * kQ + i] = -kInfinity;
}

/// The end of the keys that some query below `queryEnd` attends.
MAESTRO_INLINE int64_t keyLimit(const AttentionCall &call, int64_t queryEnd) {
  return call.causal ? least(call.keys, most(queryEnd + call.causalOffset, 0)) : call.keys;
}

//===--- Forward ----------------------------------------------------------===//

struct Running {
  float *top, *total, *correction; ///< Per query: maximum, sum, and what earlier results shrink by.
};

/// Scores to weights e^(s − max); updates the running maximum and sum.
void softmaxBlock(float *scores, int64_t keys, const Running &running) {
  for (int64_t g = 0; g < kGroups; ++g) {
    float *column = scores + g * kLanes;
    Floats old = load(running.top + g * kLanes), top = old, sums{};
    for (int64_t j = 0; j < keys; ++j)
      top = larger(load(column + j * kQ), top);
    Floats shift = top == -kInfinity ? Floats{} : top; // Nothing attended yet: e^(−∞ − 0) = 0.
    for (int64_t j = 0; j < keys; ++j) {
      Floats weight = exponential(load(column + j * kQ) - shift);
      store(column + j * kQ, weight);
      sums += weight;
    }
    Floats correction = exponential(old - shift);
    store(running.total + g * kLanes, load(running.total + g * kLanes) * correction + sums);
    store(running.correction + g * kLanes, correction);
    store(running.top + g * kLanes, top);
  }
}

template <typename T>
void forward(const AttentionCall &call, int64_t b, int64_t h, int64_t queryBlock, void *scratch) {
  int64_t d = paddedWidth(call.depth), dv = paddedWidth(call.valueDepth), kh = h / call.group();
  int64_t i0 = queryBlock * kQ, rows = least(kQ, call.queries - i0);
  float *queries = static_cast<float *>(scratch), *keyRows = queries + kQ * d;
  float *valueRows = keyRows + kK * d, *scores = valueRows + kK * dv, *sums = scores + kK * kQ;
  Running running{sums + kQ * dv, sums + kQ * dv + kQ, sums + kQ * dv + 2 * kQ};

  transposeQueries(queries, rowOf<T>(call.q, call.qStrides, b, h, i0), call.qStrides.row, rows, call.depth,
                   call.scale);
  for (int64_t i = 0; i < kQ; ++i) {
    running.top[i] = -kInfinity;
    running.total[i] = 0;
  }
  __builtin_memset(sums, 0, static_cast<size_t>(kQ * dv) * sizeof(float));

  int64_t limit = keyLimit(call, i0 + rows);
  for (int64_t j0 = 0; j0 < limit; j0 += kK) {
    int64_t keys = least(kK, limit - j0);
    Rows k = asFloatRows(keyRows, rowOf<T>(call.k, call.kStrides, b, kh, j0), call.kStrides.row, keys,
                         call.depth);
    Rows v = asFloatRows(valueRows, rowOf<T>(call.v, call.vStrides, b, kh, j0), call.vStrides.row, keys,
                         call.valueDepth);
    blockProduct<false>({k.data, k.stride, 1, queries, kQ, scores, kQ}, keys, kQ, call.depth);
    finishScores(call, scores, b, h, i0, rows, j0, keys);
    softmaxBlock(scores, keys, running);
    if (j0 > 0)
      for (int64_t i = 0; i < rows; ++i)
        if (running.correction[i] != 1.0f)
          for (int64_t n = 0; n < dv; n += kLanes)
            store(sums + i * dv + n, load(sums + i * dv + n) * running.correction[i]);
    blockProduct<true>({scores, 1, kQ, v.data, v.stride, sums, dv}, rows, dv, keys);
  }

  for (int64_t i = 0; i < rows; ++i) {
    float total = running.total[i], inverse = total > 0 ? 1.0f / total : total == 0 ? 0.0f : total;
    T *o = rowOf<T>(call.o, call.oStrides, b, h, i0 + i);
    int64_t n = 0;
    for (; n + kLanes <= call.valueDepth; n += kLanes)
      store(o + n, load(sums + i * dv + n) * inverse);
    if (n < call.valueDepth)
      storePart(o + n, load(sums + i * dv + n) * inverse, call.valueDepth - n);
    call.lse[(b * call.heads + h) * call.queries + i0 + i] =
        total == 0 ? -kInfinity : running.top[i] + __builtin_logf(total);
  }
}

//===--- Backward ---------------------------------------------------------===//

/// Per query: lse, and Σ grad·o.
struct QueryTerms {
  float *lse, *dot;
};

template <typename T>
void readQueryTerms(const AttentionCall &call, int64_t b, int64_t h, int64_t i0, int64_t rows,
                    const QueryTerms &terms) {
  for (int64_t i = 0; i < kQ; ++i) {
    // A query that attends nothing, or lies behind the end, gets weight e^(s − ∞) = 0.
    terms.lse[i] = kInfinity;
    terms.dot[i] = 0;
  }
  for (int64_t i = 0; i < rows; ++i) {
    float lse = call.lse[(b * call.heads + h) * call.queries + i0 + i];
    terms.lse[i] = lse == -kInfinity ? kInfinity : lse;
    const T *grad = rowOf<T>(call.grad, call.oStrides, b, h, i0 + i);
    const T *o = rowOf<T>(call.result, call.oStrides, b, h, i0 + i);
    Floats dot{};
    int64_t n = 0;
    for (; n + kLanes <= call.valueDepth; n += kLanes)
      dot += load(grad + n) * load(o + n);
    if (n < call.valueDepth)
      dot += loadPart(grad + n, call.valueDepth - n) * loadPart(o + n, call.valueDepth - n);
    terms.dot[i] = sum(dot);
  }
}

/// Scores become weights, and slopes (of the weights) become slopes of the products.
void backwardBlock(float *scores, float *slopes, const float *factors, int64_t keys,
                   const QueryTerms &terms) {
  for (int64_t g = 0; g < kGroups; ++g) {
    Floats lse = load(terms.lse + g * kLanes), dot = load(terms.dot + g * kLanes);
    for (int64_t j = 0; j < keys; ++j) {
      int64_t at = j * kQ + g * kLanes;
      Floats weight = exponential(load(scores + at) - lse);
      Floats slope = weight * (load(slopes + at) - dot);
      store(scores + at, weight);
      store(slopes + at, factors ? slope * load(factors + at) : slope);
    }
  }
}

/// factors = 1 − tanh², the slope of the soft cap at the products q·k·scale.
void capSlopes(const AttentionCall &call, const float *products, float *factors, int64_t keys) {
  float inverse = 1.0f / call.softcap;
  for (int64_t n = 0; n < keys * kQ; n += kLanes) {
    Floats t = hyperbolicTangent(load(products + n) * inverse);
    store(factors + n, 1.0f - t * t);
  }
}

template <typename T> void storeRow(T *to, const float *from, int64_t width, float scale) {
  int64_t n = 0;
  for (; n + kLanes <= width; n += kLanes)
    store(to + n, load(from + n) * scale);
  if (n < width)
    storePart(to + n, load(from + n) * scale, width - n);
}

template <typename T>
void backward(const AttentionCall &call, int64_t b, int64_t kh, void *scratch) {
  int64_t d = paddedWidth(call.depth), dv = paddedWidth(call.valueDepth);
  int64_t padded = (call.keys + kK - 1) / kK * kK;
  float *keyRows = static_cast<float *>(scratch), *valueRows = keyRows + padded * d;
  float *dk = valueRows + padded * dv, *dvalue = dk + padded * d;
  float *queriesT = dvalue + padded * dv, *queryRows = queriesT + kQ * d, *dq = queryRows + kQ * d;
  float *gradsT = dq + kQ * d, *gradRows = gradsT + kQ * dv;
  float *scores = gradRows + kQ * dv, *slopes = scores + kK * kQ;
  float *factors = slopes + kK * kQ;
  QueryTerms terms{factors + kK * kQ, factors + kK * kQ + kQ};

  Rows k = asFloatRows(keyRows, rowOf<T>(call.k, call.kStrides, b, kh, 0), call.kStrides.row, call.keys,
                       call.depth);
  Rows v = asFloatRows(valueRows, rowOf<T>(call.v, call.vStrides, b, kh, 0), call.vStrides.row, call.keys,
                       call.valueDepth);
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
      __builtin_memset(dq, 0, static_cast<size_t>(kQ * d) * sizeof(float));

      for (int64_t j0 = 0; j0 < limit; j0 += kK) {
        int64_t keys = least(kK, limit - j0);
        blockProduct<false>({k.row(j0), k.stride, 1, queriesT, kQ, scores, kQ}, keys, kQ, call.depth);
        if (call.softcap > 0)
          capSlopes(call, scores, factors, keys);
        finishScores(call, scores, b, h, i0, rows, j0, keys);
        blockProduct<false>({v.row(j0), v.stride, 1, gradsT, kQ, slopes, kQ}, keys, kQ, call.valueDepth);
        backwardBlock(scores, slopes, call.softcap > 0 ? factors : nullptr, keys, terms);
        blockProduct<true>({scores, kQ, 1, grads.data, grads.stride, dvalue + j0 * dv, dv}, keys, dv, rows);
        blockProduct<true>({slopes, kQ, 1, queryRows, d, dk + j0 * d, d}, keys, d, rows);
        blockProduct<true>({slopes, 1, kQ, k.row(j0), k.stride, dq, d}, rows, d, keys);
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
