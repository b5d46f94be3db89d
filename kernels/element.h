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

/// Element i as f64 or as i64 (bool as 0 or 1), and back.
double readDouble(const void *data, DType dtype, int64_t i);
int64_t readInteger(const void *data, DType dtype, int64_t i);
void writeDouble(void *data, DType dtype, int64_t i, double value);
void writeInteger(void *data, DType dtype, int64_t i, int64_t value);

/// Elements of any type, read as C (double or int64_t).
template <typename C> class Source {
public:
  Source(const void *data, DType dtype) : data(data), dtype(dtype) {}
  C operator[](int64_t i) const {
    if constexpr (std::same_as<C, double>)
      return readDouble(data, dtype, i);
    else
      return readInteger(data, dtype, i);
  }

private:
  const void *data;
  DType dtype;
};

/// Elements of any type, written from C (double or int64_t).
template <typename C> class Sink {
public:
  Sink(void *data, DType dtype) : data(data), dtype(dtype) {}
  void set(int64_t i, C value) const {
    if constexpr (std::same_as<C, double>)
      writeDouble(data, dtype, i, value);
    else
      writeInteger(data, dtype, i, value);
  }

private:
  void *data;
  DType dtype;
};

} // namespace maestro::kernels
