// What both forms of blocked attention (f32 and pairs of bf16) share: masks, the running softmax, the
// terms per query. Scores of a block lie transposed: [kK keys][kQ queries].
#pragma once

#include "kernels/cpu/loops/attention_call.h"
#include "kernels/cpu/loops/math.h"

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

/// What a mask does to a block of scores. Masks that spell causality out hide whole blocks.
enum class Visibility : uint8_t { Hidden, Mixed, Open };

/// Added to a score, anything lower leaves e^score = 0 beside a key without it. Exporters write −3.4e38.
inline constexpr float kHidden = -1e30f;

MAESTRO_INLINE int64_t maskOffset(const AttentionCall &call, int64_t b, int64_t h, int64_t i, int64_t j) {
  return b * call.maskBatch + h * call.maskHead + i * call.maskQuery + j * call.maskKey;
}

/// Whether every flag is set, or none.
struct Extremes {
  bool all = true, any = false;
  MAESTRO_LAMBDA inline Visibility visibility() const {
    return all ? Visibility::Open : any ? Visibility::Mixed : Visibility::Hidden;
  }
};

inline void scanFlags(const uint8_t *flags, int64_t stride, int64_t keys, Extremes &seen) {
  uint8_t any = 0, all = 1;
  if (stride == 1)
    for (int64_t j = 0; j < keys; ++j) {
      any |= flags[j];
      all &= flags[j];
    }
  else
    for (int64_t j = 0; j < keys; ++j) {
      any |= flags[j * stride];
      all &= flags[j * stride];
    }
  seen.any |= any != 0;
  seen.all &= all != 0;
}

/// Of an added mask: set where nothing is added, and not set where the score is hidden.
inline void scanAdded(const float *added, int64_t stride, int64_t keys, Extremes &seen) {
  int32_t nonZero = 0, visible = 0; // NaN counts as both.
  if (stride == 1)
    for (int64_t j = 0; j < keys; ++j) {
      nonZero |= !(added[j] == 0.0f);
      visible |= !(added[j] <= kHidden);
    }
  else
    for (int64_t j = 0; j < keys; ++j) {
      nonZero |= !(added[j * stride] == 0.0f);
      visible |= !(added[j * stride] <= kHidden);
    }
  seen.any |= visible != 0;
  seen.all &= nonZero == 0;
}

/// Whether each query of a block has a key that the mask does not hide. Otherwise a row may consist of hidden
/// scores alone, which then count: they differ by nothing but the mask, and no block may be skipped.
inline bool everyQuerySees(const AttentionCall &call, int64_t b, int64_t h, int64_t i0, int64_t rows) {
  if (call.maskKind == MaskKind::BFloat16)
    return false;
  if (call.maskKind != MaskKind::Float)
    return true; // False hides altogether: nothing attended is 0.
  const float *added = static_cast<const float *>(call.mask) + maskOffset(call, b, h, i0, 0);
  for (int64_t i = 0, distinct = call.maskQuery ? rows : 1; i < distinct; ++i, added += call.maskQuery) {
    int64_t j = 0;
    while (j < call.keys && added[j * call.maskKey] <= kHidden)
      ++j;
    if (j == call.keys)
      return false;
  }
  return true;
}

inline Visibility visibilityOf(const AttentionCall &call, bool maySkip, int64_t b, int64_t h, int64_t i0, int64_t rows,
                               int64_t j0, int64_t keys) {
  if (call.maskKind == MaskKind::None)
    return Visibility::Open;
  if (!maySkip)
    return Visibility::Mixed;
  int64_t offset = maskOffset(call, b, h, i0, j0);
  Extremes seen;
  for (int64_t i = 0, distinct = call.maskQuery ? rows : 1; i < distinct; ++i, offset += call.maskQuery) {
    if (call.maskKind == MaskKind::Boolean)
      scanFlags(static_cast<const uint8_t *>(call.mask) + offset, call.maskKey, keys, seen);
    else
      scanAdded(static_cast<const float *>(call.mask) + offset, call.maskKey, keys, seen);
    if (seen.any && !seen.all)
      return Visibility::Mixed;
  }
  return seen.visibility();
}

/// Calls change(score, offset in the mask) for a block; the mask is read along its rows.
template <typename Change>
MAESTRO_INLINE void changeScores(const AttentionCall &call, float *scores, int64_t rows, int64_t keys, Change change) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < keys; ++j)
      change(scores[j * kQ + i], i * call.maskQuery + j * call.maskKey);
}

inline void applyMask(const AttentionCall &call, float *scores, int64_t b, int64_t h, int64_t i0, int64_t rows,
                      int64_t j0, int64_t keys) {
  int64_t base = maskOffset(call, b, h, i0, j0);
  if (call.maskKind == MaskKind::Boolean) {
    const uint8_t *flags = static_cast<const uint8_t *>(call.mask) + base;
    changeScores(call, scores, rows, keys,
                 [&](float &score, int64_t at) MAESTRO_LAMBDA { score = flags[at] ? score : -kInfinity; });
  } else if (call.maskKind == MaskKind::Float) {
    const float *added = static_cast<const float *>(call.mask) + base;
    changeScores(call, scores, rows, keys, [&](float &score, int64_t at) MAESTRO_LAMBDA { score += added[at]; });
  } else {
    const BFloat16 *added = static_cast<const BFloat16 *>(call.mask) + base;
    changeScores(call, scores, rows, keys,
                 [&](float &score, int64_t at) MAESTRO_LAMBDA { score += toFloat(added[at]); });
  }
}

/// Turns q·k·scale into scores: soft cap, mask, causality. −∞: not attended.
inline void finishScores(const AttentionCall &call, Visibility visibility, float *scores, int64_t b, int64_t h,
                         int64_t i0, int64_t rows, int64_t j0, int64_t keys) {
  if (call.softcap > 0) {
    float inverse = 1.0f / call.softcap;
    for (int64_t n = 0; n < keys * kQ; n += kLanes)
      store(scores + n, hyperbolicTangent(load(scores + n) * inverse) * call.softcap);
  }
  if (visibility == Visibility::Mixed)
    applyMask(call, scores, b, h, i0, rows, j0, keys);
  if (call.causal && j0 + keys - 1 > i0 + call.causalOffset)
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t i = 0, end = least(most(j0 + j - call.causalOffset - i0, 0), kQ); i < end; ++i)
        scores[j * kQ + i] = -kInfinity;
}

/// The end of the keys that some query below `queryEnd` attends.
MAESTRO_INLINE int64_t keyLimit(const AttentionCall &call, int64_t queryEnd) {
  return call.causal ? least(call.keys, most(queryEnd + call.causalOffset, 0)) : call.keys;
}

struct Running {
  float *top, *total, *correction; ///< Per query: maximum, sum, and what earlier results shrink by.
};

/// Scores to weights e^(s − max); updates the running maximum and sum.
inline void softmaxBlock(float *scores, int64_t keys, const Running &running) {
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

template <typename T> void storeRow(T *to, const float *from, int64_t width, float scale) {
  int64_t n = 0;
  for (; n + kLanes <= width; n += kLanes)
    store(to + n, load(from + n) * scale);
  if (n < width)
    storePart(to + n, load(from + n) * scale, width - n);
}

/// The block's rows of o, divided by the sums of weights, and lse.
template <typename T>
void storeResults(const AttentionCall &call, int64_t b, int64_t h, int64_t i0, int64_t rows, const float *sums,
                  int64_t width, const Running &running) {
  for (int64_t i = 0; i < rows; ++i) {
    float total = running.total[i], inverse = total > 0 ? 1.0f / total : total == 0 ? 0.0f : total;
    storeRow(rowOf<T>(call.o, call.oStrides, b, h, i0 + i), sums + i * width, call.valueDepth, inverse);
    call.lse[(b * call.heads + h) * call.queries + i0 + i] =
        total == 0 ? -kInfinity : running.top[i] + __builtin_logf(total);
  }
}

/// Results so far shrink as the maxima grow.
MAESTRO_INLINE void shrinkRows(float *sums, int64_t width, int64_t rows, const Running &running) {
  for (int64_t i = 0; i < rows; ++i)
    if (running.correction[i] != 1.0f)
      for (int64_t n = 0; n < width; n += kLanes)
        store(sums + i * width + n, load(sums + i * width + n) * running.correction[i]);
}

MAESTRO_INLINE void startRunning(const Running &running) {
  for (int64_t i = 0; i < kQ; ++i) {
    running.top[i] = -kInfinity;
    running.total[i] = 0;
  }
}

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
inline void backwardBlock(float *scores, float *slopes, const float *factors, int64_t keys, const QueryTerms &terms) {
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
inline void capSlopes(const AttentionCall &call, const float *products, float *factors, int64_t keys) {
  float inverse = 1.0f / call.softcap;
  for (int64_t n = 0; n < keys * kQ; n += kLanes) {
    Floats t = hyperbolicTangent(load(products + n) * inverse);
    store(factors + n, 1.0f - t * t);
  }
}

} // namespace
} // namespace maestro::kernels::cpu::MAESTRO_ISA
