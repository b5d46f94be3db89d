// Loops over one row: softmax, normalisation, sums, rotary embedding.
#include "kernels/cpu/loops/groups.h"
#include "kernels/cpu/loops/tables.h"

namespace maestro::kernels::cpu::MAESTRO_ISA {
namespace {

template <typename T> float rowSum(const void *xp, int64_t n) {
  const T *x = static_cast<const T *>(xp);
  return sumOf(n, [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA { return loadGroup(x + i, lanes); });
}

template <typename T, bool isLargest> float rowExtreme(const void *xp, int64_t n) {
  const T *x = static_cast<const T *>(xp);
  auto choose = [](Floats a, Floats b) MAESTRO_LAMBDA { return (a != a) | (isLargest ? a > b : a < b) ? a : b; };
  Floats start = splat(isLargest ? -kInfinity : kInfinity), best[4] = {start, start, start, start};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int k = 0; k < 4; ++k)
      best[k] = choose(best[k], load(x + i + k * kLanes));
  for (; i + kLanes <= n; i += kLanes)
    best[0] = choose(best[0], load(x + i));
  Floats all = choose(choose(best[0], best[1]), choose(best[2], best[3]));
  float lanes[kLanes], result = isLargest ? -kInfinity : kInfinity;
  store(lanes, all);
  auto scalar = [&](float v) {
    if (!(result != result) && (v != v || (isLargest ? v > result : v < result)))
      result = v;
  };
  for (float v : lanes)
    scalar(v);
  for (; i < n; ++i)
    scalar(toFloat(x[i]));
  return result;
}

//===--- Softmax ----------------------------------------------------------===//

/// Powers are kept in f32 between the two passes: in the result itself, or in a buffer on the stack.
/// Longer rows of bf16 compute them twice.
template <typename T> void softmax(void *yp, const void *xp, int64_t n) {
  constexpr int64_t kBuffered = 4096;
  T *y = static_cast<T *>(yp);
  const T *x = static_cast<const T *>(xp);
  float buffer[__is_same(T, float) ? 1 : kBuffered];
  float *powers = __is_same(T, float) ? static_cast<float *>(yp) : n <= kBuffered ? buffer : nullptr;
  Floats top = splat(rowExtreme<T, true>(xp, n));
  float total = sumOf(n, [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
    Floats e = exponential(loadGroup(x + i, lanes) - top);
    if (powers)
      storeGroup(powers + i, e, lanes);
    return keep(e, lanes);
  });
  float scale = 1.0f / total;
  forEachGroup(n, [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
    Floats e = powers ? loadGroup(powers + i, lanes) : exponential(loadGroup(x + i, lanes) - top);
    storeGroup(y + i, e * scale, lanes);
  });
}

template <typename T> float sumOfPowers(const T *x, int64_t n, float inverse, float top) {
  Floats shift = splat(top);
  return sumOf(n, [&](int64_t i, int64_t lanes)
                      MAESTRO_LAMBDA { return keep(exponential(loadGroup(x + i, lanes) * inverse - shift), lanes); });
}

template <typename T> void logSoftmax(void *yp, const void *xp, int64_t n) {
  T *y = static_cast<T *>(yp);
  const T *x = static_cast<const T *>(xp);
  float top = rowExtreme<T, true>(xp, n);
  float logarithmOfSum = __builtin_logf(sumOfPowers(x, n, 1.0f, top));
  forEachGroup(n, [&](int64_t i, int64_t lanes)
                      MAESTRO_LAMBDA { storeGroup(y + i, (loadGroup(x + i, lanes) - top) - logarithmOfSum, lanes); });
}

template <typename T> void softmaxGrad(void *dxp, const void *yp, const void *dyp, int64_t n) {
  T *dx = static_cast<T *>(dxp);
  const T *y = static_cast<const T *>(yp), *dy = static_cast<const T *>(dyp);
  float dot = sumOf(n, [&](int64_t i, int64_t lanes)
                           MAESTRO_LAMBDA { return loadGroup(y + i, lanes) * loadGroup(dy + i, lanes); });
  forEachGroup(n, [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
    storeGroup(dx + i, loadGroup(y + i, lanes) * (loadGroup(dy + i, lanes) - dot), lanes);
  });
}

template <typename T> void logSoftmaxGrad(void *dxp, const void *yp, const void *dyp, int64_t n) {
  T *dx = static_cast<T *>(dxp);
  const T *y = static_cast<const T *>(yp), *dy = static_cast<const T *>(dyp);
  float total = rowSum<T>(dyp, n);
  forEachGroup(n, [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
    storeGroup(dx + i, loadGroup(dy + i, lanes) - exponential(loadGroup(y + i, lanes)) * total, lanes);
  });
}

//===--- Normalisation ----------------------------------------------------===//

template <typename T>
void layerNorm(void *yp, const void *xp, const float *scale, const float *bias, int64_t n, float epsilon,
               float *meanOut, float *rstdOut) {
  T *y = static_cast<T *>(yp);
  const T *x = static_cast<const T *>(xp);
  float mean = rowSum<T>(xp, n) / static_cast<float>(n);
  float variance = sumOf(n,
                         [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
                           Floats d = keep(loadGroup(x + i, lanes) - mean, lanes);
                           return d * d;
                         }) /
                   static_cast<float>(n);
  float rstd = 1.0f / __builtin_sqrtf(variance + epsilon);
  forEachGroup(n, [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
    Floats v = (loadGroup(x + i, lanes) - mean) * rstd;
    if (scale)
      v *= loadGroup(scale + i, lanes);
    if (bias)
      v += loadGroup(bias + i, lanes);
    storeGroup(y + i, v, lanes);
  });
  *meanOut = mean;
  *rstdOut = rstd;
}

template <typename T>
void rmsNorm(void *yp, const void *xp, const float *scale, const float *, int64_t n, float epsilon, float *,
             float *rstdOut) {
  T *y = static_cast<T *>(yp);
  const T *x = static_cast<const T *>(xp);
  float square = sumOf(n,
                       [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
                         Floats v = loadGroup(x + i, lanes);
                         return v * v;
                       }) /
                 static_cast<float>(n);
  float rstd = 1.0f / __builtin_sqrtf(square + epsilon);
  forEachGroup(n, [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
    Floats v = loadGroup(x + i, lanes) * rstd;
    storeGroup(y + i, scale ? v * loadGroup(scale + i, lanes) : v, lanes);
  });
  *rstdOut = rstd;
}

/// Both gradients at once: `centred` is layer normalisation.
template <typename T, bool centred>
void normGrad(void *dxp, const void *dyp, const void *xp, const float *scale, int64_t n, float mean, float rstd,
              float *dscale, float *dbias) {
  T *dx = static_cast<T *>(dxp);
  const T *dy = static_cast<const T *>(dyp), *x = static_cast<const T *>(xp);
  Floats sums0{}, sums1{}, dots0{}, dots1{};
  auto visit = [&](int64_t i, int64_t lanes, Floats &sums, Floats &dots) MAESTRO_LAMBDA {
    Floats g = loadGroup(dy + i, lanes), v = loadGroup(x + i, lanes);
    v = (centred ? v - mean : v) * rstd;
    if (dscale)
      storeGroup(dscale + i, loadGroup(dscale + i, lanes) + g * v, lanes);
    if (centred && dbias)
      storeGroup(dbias + i, loadGroup(dbias + i, lanes) + g, lanes);
    if (scale)
      g *= loadGroup(scale + i, lanes);
    if (centred)
      sums += g;
    dots += g * v;
  };
  int64_t k = 0;
  for (; k + 2 * kLanes <= n; k += 2 * kLanes) {
    visit(k, kLanes, sums0, dots0);
    visit(k + kLanes, kLanes, sums1, dots1);
  }
  for (; k < n; k += kLanes)
    visit(k, n - k < kLanes ? n - k : kLanes, sums0, dots0);
  float average = centred ? sum(sums0 + sums1) / static_cast<float>(n) : 0;
  float projection = sum(dots0 + dots1) / static_cast<float>(n);
  forEachGroup(n, [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
    Floats g = loadGroup(dy + i, lanes), v = loadGroup(x + i, lanes);
    v = (centred ? v - mean : v) * rstd;
    if (scale)
      g *= loadGroup(scale + i, lanes);
    storeGroup(dx + i, rstd * (g - average - v * projection), lanes);
  });
}

//===--- Sums over rows, rotary embedding ---------------------------------===//

template <typename T> void addTo(float *out, const void *xp, int64_t n) {
  const T *x = static_cast<const T *>(xp);
  forEachGroup(n, [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
    storeGroup(out + i, loadGroup(out + i, lanes) + loadGroup(x + i, lanes), lanes);
  });
}

/// One pair (a, b) of a rotary embedding; sinA, sinB belong to a's and b's place.
MAESTRO_INLINE void turn(Floats a, Floats b, Floats cosA, Floats cosB, Floats sinA, Floats sinB, bool adjoint,
                         Floats &first, Floats &second) {
  first = adjoint ? a * cosA + b * sinB : a * cosA - b * sinA;
  second = adjoint ? b * cosB - a * sinA : b * cosB + a * sinB;
}

template <typename T, typename Table>
void rope(void *yp, const void *xp, const void *cosp, const void *sinp, int64_t width, bool interleaved, bool adjoint) {
  T *y = static_cast<T *>(yp);
  const T *x = static_cast<const T *>(xp);
  const Table *cos = static_cast<const Table *>(cosp), *sin = static_cast<const Table *>(sinp);
  int64_t half = width / 2;
  if (!interleaved) {
    forEachGroup(half, [&](int64_t i, int64_t lanes) MAESTRO_LAMBDA {
      int64_t j = i + half;
      Floats first, second;
      turn(loadGroup(x + i, lanes), loadGroup(x + j, lanes), loadGroup(cos + i, lanes), loadGroup(cos + j, lanes),
           loadGroup(sin + i, lanes), loadGroup(sin + j, lanes), adjoint, first, second);
      storeGroup(y + i, first, lanes);
      storeGroup(y + j, second, lanes);
    });
    return;
  }
  for (int64_t i = 0; i < half; ++i) {
    float a = toFloat(x[2 * i]), b = toFloat(x[2 * i + 1]);
    float sinA = toFloat(sin[2 * i]), sinB = toFloat(sin[2 * i + 1]);
    y[2 * i] = static_cast<T>(a * toFloat(cos[2 * i]) + (adjoint ? b * sinB : -b * sinA));
    y[2 * i + 1] = static_cast<T>(b * toFloat(cos[2 * i + 1]) + (adjoint ? -a * sinA : a * sinB));
  }
}

template <typename T> void addFor(FloatLoops &loops) {
  loops.softmax = softmax<T>;
  loops.logSoftmax = logSoftmax<T>;
  loops.softmaxGrad = softmaxGrad<T>;
  loops.logSoftmaxGrad = logSoftmaxGrad<T>;
  loops.layerNorm = {layerNorm<T>, normGrad<T, true>};
  loops.rmsNorm = {rmsNorm<T>, normGrad<T, false>};
  loops.sum = rowSum<T>;
  loops.maximum = rowExtreme<T, true>;
  loops.minimum = rowExtreme<T, false>;
  loops.addTo = addTo<T>;
  loops.rope[0] = rope<T, float>;
  loops.rope[1] = rope<T, BFloat16>;
}

} // namespace

void addRows(Loops &loops) {
  addFor<float>(loops.floats[0]);
  addFor<BFloat16>(loops.floats[1]);
}

} // namespace maestro::kernels::cpu::MAESTRO_ISA
