// Sine and cosine of f32 without the array in local memory that CUDA's own reduction of large arguments needs.
#pragma once

#include "kernels/cuda/device.h"

namespace maestro::kernels::cuda {

/// 2/π, 32 bits a word, most significant first, behind 64 bits of zero.
__constant__ uint32_t kTwoOverPi[] = {0,          0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                      0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};

/// x = quadrant·π/2 + the result, which lies in [−π/4, π/4] (Payne and Hanek's reduction; x finite).
__device__ double reducedAngle(float x, uint32_t &quadrant) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  int exponent = static_cast<int>(bits >> 23 & 0xff) - 127; // x = ±1.f · 2^exponent
  if (exponent < -13) {                                     // So small that no multiple of π/2 is taken off.
    quadrant = 0;
    return x;
  }
  // mantissa · 2^(exponent − 23) · 2/π: of the product, the bits below 2^2 are wanted. The window of 2/π starts where
  // they do.
  uint64_t mantissa = (bits & 0x7fffff) | 0x800000;
  int first = exponent - 23 + 64 - 2; // The first bit of kTwoOverPi that counts: its weight is 2^(64 − 1 − first).
  int word = first >> 5, shift = first & 31;
  uint32_t w[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    w[i] = kTwoOverPi[word + i];
  uint64_t high = static_cast<uint64_t>(w[0]) << 32 | w[1], low = static_cast<uint64_t>(w[2]) << 32 | w[3];
  uint64_t window = shift ? high << shift | low >> (64 - shift) : high;
  uint64_t next = low << shift;
  // (window · 2^32 + the top of next) · mantissa, modulo 4 in units of 2^−62.
  uint64_t product = window * mantissa + ((next >> 32) * mantissa >> 32);
  uint32_t quarter = static_cast<uint32_t>(product >> 62);
  int64_t fraction = static_cast<int64_t>(product << 2); // Of a quarter turn, in units of 2^−64; as signed: [−½, ½).
  quarter += fraction < 0;
  double angle = static_cast<double>(fraction) * (1.57079632679489661923 * 0x1p-64);
  bool negative = bits >> 31;
  quadrant = negative ? 0u - quarter : quarter;
  return negative ? -angle : angle;
}

__device__ float sineNearZero(double r) {
  double s = r * r;
  return static_cast<float>(
      r + r * s * (-1.0 / 6 + s * (1.0 / 120 + s * (-1.0 / 5040 + s * (1.0 / 362880 + s * (-1.0 / 39916800))))));
}
__device__ float cosineNearZero(double r) {
  double s = r * r;
  return static_cast<float>(1 +
                            s * (-0.5 + s * (1.0 / 24 + s * (-1.0 / 720 + s * (1.0 / 40320 + s * (-1.0 / 3628800))))));
}

/// sin(x + quarters·π/2).
__device__ float shiftedSine(float x, uint32_t quarters) {
  if (!(fabsf(x) < kInfinity))
    return x - x; // NaN
  uint32_t quadrant;
  double r = reducedAngle(x, quadrant);
  quadrant += quarters;
  float value = quadrant & 1 ? cosineNearZero(r) : sineNearZero(r);
  return quadrant & 2 ? -value : value;
}
__device__ float sine(float x) { return shiftedSine(x, 0); }
__device__ float cosine(float x) { return shiftedSine(x, 1); }

} // namespace maestro::kernels::cuda
