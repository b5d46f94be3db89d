// Elementary functions on a vector of floats, within 2 units in the last place unless stated.
// The polynomials are minimax fits (weighted least squares, refined by Lawson's iteration).
#pragma once

#include "kernels/cpu/loops/simd.h"

namespace maestro::kernels::cpu::MAESTRO_ISA {

MAESTRO_INLINE Floats magnitude(Floats x) { return (Floats)((Words)x & 0x7fffffffu); }
MAESTRO_INLINE Floats withSign(Floats size, Floats sign) { return (Floats)((Words)size | ((Words)sign & 0x80000000u)); }
inline constexpr float kInfinity = __builtin_inff();

/// p·2ⁿ for |n| ≤ 150, `shifted` = n + 1.5·2²³.
MAESTRO_INLINE Floats timesPowerOfTwo(Floats p, [[maybe_unused]] Floats n, [[maybe_unused]] Floats shifted) {
#ifdef __AVX512F__
  return (Floats)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
  Ints bits = (Ints)shifted - 0x4b400000, low = bits >> 1, high = bits - low; // In two halves: n reaches 128.
  return p * (Floats)((low + 127) << 23) * (Floats)((high + 127) << 23);
#endif
}

/// eˣ = 2ⁿ·eʳ, |r| ≤ ½ln 2. Results below the smallest normal number become 0.
MAESTRO_INLINE Floats exponential(Floats x) {
  constexpr float kRound = 12582912.0f;                             // 1.5·2²³: adding it rounds to an integer.
  Floats clamped = smaller(splat(89.0f), larger(splat(-88.0f), x)); // In this order NaN stays NaN.
  Floats shifted = clamped * 1.44269504f + kRound;
  Floats n = shifted - kRound;
  Floats r = clamped - n * 0.693359375f + n * 2.12194440e-4f;
  Floats q = splat(0.00139504768f);
  q = q * r + 0.00836888243f;
  q = q * r + 0.041666206f;
  q = q * r + 0.166665189f;
  q = q * r + 0.50000001f;
  Floats p = r * r * q + r + 1.0f;
  return x < -87.33654f ? Floats{} : timesPowerOfTwo(p, n, shifted);
}

/// ln x; −∞ at 0, NaN below, denormals as 0.
MAESTRO_INLINE Floats logarithm(Floats x) {
  Ints bits = (Ints)((Words)x - 0x3f3504f3u); // So that the mantissa lies in [√½, √2). Wraps below 0.
  Ints n = bits >> 23;
  Floats f = (Floats)((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
  Floats q = splat(0.069149358f);
  q = q * f - 0.117903441f;
  q = q * f + 0.118734786f;
  q = q * f - 0.123842798f;
  q = q * f + 0.142185733f;
  q = q * f - 0.166692526f;
  q = q * f + 0.200022315f;
  q = q * f - 0.249999866f;
  q = q * f + 0.333333104f;
  Floats exponent = __builtin_convertvector(n, Floats);
  Floats tail = f * f * f * q - 0.5f * f * f - exponent * 2.12194440e-4f;
  Floats result = exponent * 0.693359375f + (f + tail);
  result = x < 1.17549435e-38f ? splat(-kInfinity) : result;
  result = x < 0.0f ? splat(__builtin_nanf("")) : result;
  result = x == kInfinity ? x : result;
  return x == x ? result : x;
}

MAESTRO_INLINE Floats hyperbolicTangent(Floats x) {
  Floats size = magnitude(x), s = x * x;
  Floats q = splat(0.00206466206f);
  q = q * s - 0.00809196441f;
  q = q * s + 0.0216663451f;
  q = q * s - 0.0539405628f;
  q = q * s + 0.133331579f;
  q = q * s - 0.333333296f;
  Floats small = x + x * s * q;
  Floats large = withSign(1.0f - 2.0f / (exponential(2.0f * size) + 1.0f), x);
  return size < 0.65f ? small : large;
}

MAESTRO_INLINE Floats errorFunction(Floats x) {
  Floats size = magnitude(x), s = x * x;
  Floats q = splat(-9.68013151e-06f);
  q = q * s + 0.000112705427f;
  q = q * s - 0.000848471118f;
  q = q * s + 0.00522107486f;
  q = q * s - 0.0268654458f;
  q = q * s + 0.112837827f;
  q = q * s - 0.376126385f;
  q = q * s + 1.12837917f;
  Floats t = smaller(size, splat(4.1f)); // erf is 1 in f32 from 3.92 on.
  Floats l = splat(9.38228776e-07f);     // ln(1 − erf t)
  l = l * t - 1.50300791e-05f;
  l = l * t + 8.31728179e-05f;
  l = l * t + 2.30517439e-05f;
  l = l * t - 0.00315283467f;
  l = l * t + 0.0234789158f;
  l = l * t - 0.106558132f;
  l = l * t - 0.634483333f;
  l = l * t - 1.12908666f;
  l = l * t + 0.000104404347f;
  Floats large = withSign(1.0f - exponential(l), x);
  Floats result = size < 1.0f ? x * q : large;
  return x == x ? result : x;
}

MAESTRO_INLINE Floats logistic(Floats x) { return 1.0f / (1.0f + exponential(-x)); }

inline constexpr float kSqrtHalf = 0.707106781f;
inline constexpr float kGeluScale = 0.797884561f; ///< √(2/π)
inline constexpr float kGeluCubic = 0.044715f;

/// erf as a rational function, within 6 units in the last place (3e-7), twice as fast.
MAESTRO_INLINE Floats quickErrorFunction(Floats x) {
  Floats t = smaller(splat(3.95f), larger(splat(-3.95f), x)), s = t * t;
  Floats p = splat(2.02591954e-06f);
  p = p * s + 0.000284688173f;
  p = p * s + 0.00380814974f;
  p = p * s + 0.0528754124f;
  p = p * s + 0.191549921f;
  p = p * s + 1.12837914f;
  Floats q = splat(3.78319462e-05f);
  q = q * s + 0.00117072424f;
  q = q * s + 0.0150550656f;
  q = q * s + 0.114559478f;
  q = q * s + 0.503089373f;
  q = q * s + 1.0f;
  return smaller(splat(1.0f), larger(splat(-1.0f), t * p / q));
}

MAESTRO_INLINE Floats gelu(Floats x) { return 0.5f * x * (1.0f + quickErrorFunction(x * kSqrtHalf)); }
MAESTRO_INLINE Floats geluSlope(Floats x) {
  Floats density = exponential(-0.5f * x * x) * (0.5f * kGeluScale);
  return 0.5f * (1.0f + quickErrorFunction(x * kSqrtHalf)) + x * density;
}
/// ½x(1 + tanh u) is x·logistic(2u).
MAESTRO_INLINE Floats geluTanh(Floats x) { return x * logistic(2.0f * kGeluScale * (x + kGeluCubic * x * x * x)); }
MAESTRO_INLINE Floats geluTanhSlope(Floats x) {
  Floats s = logistic(2.0f * kGeluScale * (x + kGeluCubic * x * x * x));
  return s + x * s * (1.0f - s) * (2.0f * kGeluScale) * (1.0f + 3.0f * kGeluCubic * x * x);
}
MAESTRO_INLINE Floats softplus(Floats x) {
  Floats e = exponential(-magnitude(x)); // In (0, 1]; ln(1 + e) keeps its digits for small e:
  Floats one = 1.0f + e;
  Floats correction = (e - (one - 1.0f)) / one;
  return larger(x, Floats{}) + logarithm(one) + correction;
}

} // namespace maestro::kernels::cpu::MAESTRO_ISA
