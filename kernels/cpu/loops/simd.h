// A vector of floats (16 with AVX-512, 8 with AVX2), for the loops that are compiled once per
// instruction set (MAESTRO_ISA). GCC's vector types make one source serve both.
//
// Everything here and in the loops lives in the instruction set's namespace and is inlined, so that
// the linker can never pick AVX-512 code for a function that an AVX2 machine runs. For the same
// reason loops use no standard containers and no templates from elsewhere.
#pragma once

#include "base/dtype.h"

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#define MAESTRO_INLINE static inline __attribute__((always_inline))
/// Behind a lambda's parameters, or before a member function: always inlined.
#define MAESTRO_LAMBDA __attribute__((always_inline))

namespace maestro::kernels::cpu::MAESTRO_ISA {

#ifdef __AVX512F__
#define MAESTRO_VECTOR_BYTES 64
#else
#define MAESTRO_VECTOR_BYTES 32
#endif
inline constexpr int64_t kLanes = MAESTRO_VECTOR_BYTES / 4;
typedef float Floats __attribute__((vector_size(MAESTRO_VECTOR_BYTES)));
typedef int32_t Ints __attribute__((vector_size(MAESTRO_VECTOR_BYTES)));
typedef uint32_t Words __attribute__((vector_size(MAESTRO_VECTOR_BYTES)));
typedef uint16_t Halves __attribute__((vector_size(MAESTRO_VECTOR_BYTES / 2)));
typedef double Doubles __attribute__((vector_size(MAESTRO_VECTOR_BYTES)));
typedef float HalfFloats __attribute__((vector_size(MAESTRO_VECTOR_BYTES / 2)));

MAESTRO_INLINE Floats splat(float x) { return Floats{} + x; }

MAESTRO_INLINE Floats load(const float *p) {
  Floats v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
MAESTRO_INLINE void store(float *p, Floats v) { __builtin_memcpy(p, &v, sizeof v); }

MAESTRO_INLINE Floats load(const BFloat16 *p) {
  Halves h;
  __builtin_memcpy(&h, p, sizeof h);
  return (Floats)(__builtin_convertvector(h, Words) << 16);
}

/// Rounds to nearest even; NaN stays NaN.
MAESTRO_INLINE Halves toHalves(Floats v) {
#ifdef __AVX512BF16__
  return (Halves)_mm512_cvtneps_pbh((__m512)v);
#else
  Words w = (Words)v;
  Words rounded = (w + 0x7fffu + ((w >> 16) & 1u)) >> 16;
  Words quiet = (w >> 16) | 0x40u;
  return __builtin_convertvector((v == v) ? rounded : quiet, Halves);
#endif
}
MAESTRO_INLINE void store(BFloat16 *p, Floats v) {
  Halves h = toHalves(v);
  __builtin_memcpy(static_cast<void *>(p), &h, sizeof h);
}

/// The first `count` (fewer than kLanes) elements; the other lanes are 0.
template <typename T> MAESTRO_INLINE Floats loadPart(const T *p, int64_t count) {
  T buffer[kLanes];
  __builtin_memset(static_cast<void *>(buffer), 0, sizeof buffer);
  __builtin_memcpy(static_cast<void *>(buffer), p, static_cast<size_t>(count) * sizeof(T));
  return load(buffer);
}
template <typename T> MAESTRO_INLINE void storePart(T *p, Floats v, int64_t count) {
  T buffer[kLanes];
  store(buffer, v);
  __builtin_memcpy(static_cast<void *>(p), buffer, static_cast<size_t>(count) * sizeof(T));
}
#ifdef __AVX512F__
MAESTRO_INLINE Floats loadPart(const float *p, int64_t count) {
  return (Floats)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), p);
}
MAESTRO_INLINE void storePart(float *p, Floats v, int64_t count) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << count) - 1), (__m512)v);
}
#endif

MAESTRO_INLINE float toFloat(float x) { return x; }
MAESTRO_INLINE float toFloat(BFloat16 x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16); }

MAESTRO_INLINE float sum(Floats v) {
  float lanes[kLanes];
  store(lanes, v);
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t i = 0; i < width; ++i)
      lanes[i] += lanes[i + width];
  return lanes[0];
}
MAESTRO_INLINE Floats larger(Floats a, Floats b) { return a > b ? a : b; }
MAESTRO_INLINE Floats smaller(Floats a, Floats b) { return a < b ? a : b; }
MAESTRO_INLINE float largest(Floats v) {
  float lanes[kLanes];
  store(lanes, v);
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t i = 0; i < width; ++i)
      lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
  return lanes[0];
}

MAESTRO_INLINE Floats squareRoot(Floats v) {
#ifdef __AVX512F__
  return (Floats)_mm512_sqrt_ps((__m512)v);
#else
  return (Floats)_mm256_sqrt_ps((__m256)v);
#endif
}

} // namespace maestro::kernels::cpu::MAESTRO_ISA
