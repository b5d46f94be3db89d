// The few functions that kernels are written with instead of intrinsics: elements and their conversions, 16-byte
// accesses, elementary functions, offsets, failures. `block.h` has what threads do together.
#pragma once

#include "kernels/cuda/failure.h"
#include "kernels/cuda/params.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include "kernels/cuda/host/threads.h"
#endif

#include <cstring>

namespace maestro::kernels::cuda {

inline constexpr float kInfinity = __builtin_huge_valf();

//===--- Elements ---------------------------------------------------------===//

struct Bf16 {
  uint16_t bits;
};

__device__ __forceinline__ float toFloat(float value) { return value; }
__device__ __forceinline__ float toFloat(Bf16 value) {
  uint32_t word = static_cast<uint32_t>(value.bits) << 16;
  float result;
  memcpy(&result, &word, 4);
  return result;
}

template <typename T> __device__ __forceinline__ T fromFloat(float value);
template <> __device__ __forceinline__ float fromFloat<float>(float value) { return value; }
template <> __device__ __forceinline__ Bf16 fromFloat<Bf16>(float value) {
#ifdef __CUDACC__
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
#else
  return {BFloat16(value).bits};
#endif
}

__device__ __forceinline__ float halfBitsToFloat(uint16_t bits) {
#ifdef __CUDACC__
  return __half2float(__ushort_as_half(bits));
#else
  return halfToFloat(bits);
#endif
}
__device__ __forceinline__ uint16_t floatToHalfBits(float value) {
#ifdef __CUDACC__
  return __half_as_ushort(__float2half_rn(value));
#else
  return floatToHalf(value);
#endif
}

/// Truncates, saturates at the limits of i64 and maps NaN to 0, as kernels/element.h does.
__device__ __forceinline__ int64_t truncate(double value) {
  if (value != value)
    return 0;
  if (value >= 9223372036854775808.0)
    return INT64_MAX;
  if (value <= -9223372036854775808.0)
    return INT64_MIN;
  return static_cast<int64_t>(value);
}

template <typename To, typename From> __device__ __forceinline__ To convertTo(From value) {
  return static_cast<To>(value);
}
template <> __device__ __forceinline__ int64_t convertTo<int64_t, double>(double value) { return truncate(value); }
template <> __device__ __forceinline__ int64_t convertTo<int64_t, float>(float value) { return truncate(value); }

/// Element i of a tensor of any type as C: float, double or int64_t.
template <typename C> __device__ C load(const AnyTensor &tensor, int64_t i) {
  switch (tensor.dtype) {
  case DType::F32:
    return convertTo<C>(static_cast<const float *>(tensor.data)[i]);
  case DType::F64:
    return convertTo<C>(static_cast<const double *>(tensor.data)[i]);
  case DType::BF16:
    return convertTo<C>(toFloat(static_cast<const Bf16 *>(tensor.data)[i]));
  case DType::F16:
    return convertTo<C>(halfBitsToFloat(static_cast<const uint16_t *>(tensor.data)[i]));
  case DType::I64:
    return static_cast<C>(static_cast<const int64_t *>(tensor.data)[i]);
  case DType::I32:
    return static_cast<C>(static_cast<const int32_t *>(tensor.data)[i]);
  case DType::I16:
    return static_cast<C>(static_cast<const int16_t *>(tensor.data)[i]);
  case DType::I8:
    return static_cast<C>(static_cast<const int8_t *>(tensor.data)[i]);
  case DType::U8:
  case DType::Bool:
    return static_cast<C>(static_cast<const uint8_t *>(tensor.data)[i]);
  }
  return C(0);
}

template <typename C> __device__ void store(const AnyTensor &tensor, int64_t i, C value) {
  switch (tensor.dtype) {
  case DType::F32:
    static_cast<float *>(tensor.data)[i] = static_cast<float>(value);
    break;
  case DType::F64:
    static_cast<double *>(tensor.data)[i] = static_cast<double>(value);
    break;
  case DType::BF16:
    static_cast<Bf16 *>(tensor.data)[i] = fromFloat<Bf16>(static_cast<float>(value));
    break;
  case DType::F16:
    static_cast<uint16_t *>(tensor.data)[i] = floatToHalfBits(static_cast<float>(value));
    break;
  case DType::I64:
    static_cast<int64_t *>(tensor.data)[i] = convertTo<int64_t>(value);
    break;
  case DType::I32:
    static_cast<int32_t *>(tensor.data)[i] = static_cast<int32_t>(convertTo<int64_t>(value));
    break;
  case DType::I16:
    static_cast<int16_t *>(tensor.data)[i] = static_cast<int16_t>(convertTo<int64_t>(value));
    break;
  case DType::I8:
    static_cast<int8_t *>(tensor.data)[i] = static_cast<int8_t>(convertTo<int64_t>(value));
    break;
  case DType::U8:
    static_cast<uint8_t *>(tensor.data)[i] = static_cast<uint8_t>(convertTo<int64_t>(value));
    break;
  case DType::Bool:
    static_cast<uint8_t *>(tensor.data)[i] = value != C(0);
    break;
  }
}

//===--- 16-byte accesses -------------------------------------------------===//

/// As many elements as one access moves.
template <typename T> struct Pack {
  static constexpr int kCount = 16 / sizeof(T);
  T items[kCount];
};

/// `from` is 16-byte aligned.
template <typename T> __device__ __forceinline__ Pack<T> loadPack(const T *from) {
  uint4 word = *reinterpret_cast<const uint4 *>(from);
  Pack<T> pack;
  memcpy(&pack, &word, sizeof(pack));
  return pack;
}
template <typename T> __device__ __forceinline__ void storePack(T *to, const Pack<T> &pack) {
  uint4 word;
  memcpy(&word, &pack, sizeof(word));
  *reinterpret_cast<uint4 *>(to) = word;
}

//===--- Elementary functions ---------------------------------------------===//

__device__ __forceinline__ float reciprocalRoot(float x) {
#ifdef __CUDACC__
  return rsqrtf(x);
#else
  return 1.0f / sqrtf(x);
#endif
}
__device__ __forceinline__ float larger(float a, float b) { return a != a || a > b ? a : b; } ///< NaN wins.
__device__ __forceinline__ float smaller(float a, float b) { return a != a || a < b ? a : b; }
/// a ÷ b for b in [1, 2], within two units of the last place.
__device__ __forceinline__ float quotient(float a, float b) {
#ifdef __CUDACC__
  return __fdividef(a, b);
#else
  return a / b;
#endif
}
__device__ __forceinline__ float sigmoid(float x) {
  float e = expf(-fabsf(x));
  return quotient(x >= 0 ? 1 : e, 1 + e);
}

//===--- Where a thread is, and where elements lie --------------------------===//

/// The index of this thread in the grid's first dimension.
__device__ __forceinline__ int64_t threadOfGrid() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/// index ÷ size and what is left of it, for numbers that are not negative: in 32 bits where they fit, several times
/// faster.
struct Divided {
  int64_t whole, rest;
};
__device__ __forceinline__ Divided divided(int64_t index, int64_t size) {
  if ((index | size) >> 32 == 0) {
    uint32_t whole = static_cast<uint32_t>(index) / static_cast<uint32_t>(size);
    return {whole, static_cast<uint32_t>(index) - whole * static_cast<uint32_t>(size)};
  }
  int64_t whole = index / size;
  return {whole, index - whole * size};
}

/// Where element `index` lies in each of the tensors.
template <int N>
__device__ __forceinline__ void offsetsOf(const Strided<N> &map, int64_t index, int64_t (&offsets)[N]) {
#pragma unroll
  for (int k = 0; k < N; ++k)
    offsets[k] = map.starts[k];
  for (int d = map.rank; d-- > 0;) {
    if (d == 0) { // What is left is the first dim's: nothing to divide, least of all where all dims are joined.
#pragma unroll
      for (int k = 0; k < N; ++k)
        offsets[k] += index * map.strides[k][0];
      return;
    }
    int64_t rest, at;
    if (map.narrow) {
      uint32_t whole = static_cast<uint32_t>(index), size = static_cast<uint32_t>(map.dims[d]);
      rest = whole / size;
      at = whole % size;
    } else {
      rest = index / map.dims[d];
      at = index % map.dims[d];
    }
#pragma unroll
    for (int k = 0; k < N; ++k)
      offsets[k] += at * map.strides[k][d];
    index = rest;
  }
}
__device__ __forceinline__ int64_t offsetOf(const Strided<1> &map, int64_t index) {
  int64_t offsets[1];
  offsetsOf(map, index, offsets);
  return offsets[0];
}

//===--- Failures -----------------------------------------------------------===//

/// Keeps the earliest call's failure at the lowest position, whichever thread comes first. Threads of a warp that wait
/// for each other's lock do so in one loop with its holder.
__device__ void reportFailure(const Report &report, const Failure &found) {
  volatile Failure *kept = report.failure;
  for (bool told = false; !told;) {
    if (atomicCAS(&report.failure->lock, 0u, 1u) != 0u)
      continue;
    if (kept->code == FailureCode::None || (kept->call == report.call && found.position < kept->position)) {
      kept->call = report.call;
      kept->position = found.position;
      kept->index = found.index;
      kept->low = found.low;
      kept->limit = found.limit;
      __threadfence_system(); // Who sees the code sees the rest.
      kept->code = found.code;
    }
    __threadfence_system();
    atomicExch(&report.failure->lock, 0u);
    told = true;
  }
}

/// The index in [0, limit), negative ones counted from the end; −1, and a failure, where there is none.
__device__ __forceinline__ int64_t checkedIndex(const Report &report, int64_t index, int64_t position, int64_t limit) {
  int64_t wrapped = index < 0 ? index + limit : index;
  if (wrapped >= 0 && wrapped < limit)
    return wrapped;
  reportFailure(report, {FailureCode::IndexOutOfRange, 0, 0, 0, position, index, -limit, limit});
  return -1;
}

} // namespace maestro::kernels::cuda
