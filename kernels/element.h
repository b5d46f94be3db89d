// Reading and writing elements whose type is known only at run time, as f64 or as i64: the simplest
// thing that serves every element type. Slow, and meant for reference kernels and rare calls.
#pragma once

#include "base/dtype.h"

#include <cmath>
#include <concepts>
#include <limits>

namespace maestro::kernels {

/// Conversion with a defined result for every value: float to integer truncates, saturates at the
/// limits of i64 and maps NaN to 0; narrower integers wrap; anything to bool is ≠ 0.
template <typename To, typename From> To convert(From value) {
  if constexpr (std::same_as<To, From>) {
    return value;
  } else if constexpr (std::same_as<To, bool>) {
    return value != From(0);
  } else if constexpr (std::integral<To> && std::floating_point<From>) {
    if (std::isnan(value))
      return To(0);
    if (value >= From(9223372036854775808.0))
      return static_cast<To>(std::numeric_limits<int64_t>::max());
    if (value <= From(-9223372036854775808.0))
      return static_cast<To>(std::numeric_limits<int64_t>::min());
    return static_cast<To>(static_cast<int64_t>(value));
  } else {
    return static_cast<To>(value);
  }
}

/// Elements of any type, read as C (double or int64_t).
template <typename C> class Source {
public:
  Source(const void *data, DType dtype) : data(data), dtype(dtype) {}

  C operator[](int64_t i) const {
    switch (dtype) {
    case DType::F32:
      return convert<C>(at<float>(i));
    case DType::F64:
      return convert<C>(at<double>(i));
    case DType::BF16:
      return convert<C>(static_cast<float>(at<BFloat16>(i)));
    case DType::F16:
      return convert<C>(halfToFloat(at<uint16_t>(i)));
    case DType::I64:
      return convert<C>(at<int64_t>(i));
    case DType::I32:
      return convert<C>(at<int32_t>(i));
    case DType::I16:
      return convert<C>(at<int16_t>(i));
    case DType::I8:
      return convert<C>(at<int8_t>(i));
    case DType::U8:
    case DType::Bool:
      return convert<C>(at<uint8_t>(i));
    }
    return C(0);
  }

private:
  template <typename T> T at(int64_t i) const { return static_cast<const T *>(data)[i]; }
  const void *data;
  DType dtype;
};

/// Elements of any type, written from C (double or int64_t).
template <typename C> class Sink {
public:
  Sink(void *data, DType dtype) : data(data), dtype(dtype) {}

  void set(int64_t i, C value) const {
    switch (dtype) {
    case DType::F32:
      return put(i, static_cast<float>(value));
    case DType::F64:
      return put(i, static_cast<double>(value));
    case DType::BF16:
      return put(i, BFloat16(static_cast<float>(value)));
    case DType::F16:
      return put(i, floatToHalf(static_cast<float>(value)));
    case DType::I64:
      return put(i, convert<int64_t>(value));
    case DType::I32:
      return put(i, static_cast<int32_t>(convert<int64_t>(value)));
    case DType::I16:
      return put(i, static_cast<int16_t>(convert<int64_t>(value)));
    case DType::I8:
      return put(i, static_cast<int8_t>(convert<int64_t>(value)));
    case DType::U8:
      return put(i, static_cast<uint8_t>(convert<int64_t>(value)));
    case DType::Bool:
      return put(i, static_cast<uint8_t>(value != C(0)));
    }
  }

private:
  template <typename T> void put(int64_t i, T value) const { static_cast<T *>(data)[i] = value; }
  void *data;
  DType dtype;
};

} // namespace maestro::kernels
