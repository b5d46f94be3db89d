#include "base/convert.h"

#include <cmath>
#include <limits>
#include <type_traits>

namespace maestro {
namespace {

struct Half {
  uint16_t bits;
};
struct Truth {
  uint8_t value;
};

template <typename T> constexpr bool isNarrowFloat = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;
template <typename T> constexpr bool isFloating = std::is_floating_point_v<T> || isNarrowFloat<T>;

template <typename T> T loadAs(const std::byte *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

/// Every element type widens to double or int64_t without loss.
template <typename T> auto widen(T value) {
  if constexpr (std::is_same_v<T, Half>)
    return static_cast<double>(halfToFloat(value.bits));
  else if constexpr (std::is_same_v<T, BFloat16>)
    return static_cast<double>(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, Truth>)
    return static_cast<int64_t>(value.value != 0);
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<double>(value);
  else
    return static_cast<int64_t>(value);
}

template <typename T> double roundTo(double value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else if constexpr (std::is_same_v<T, float>)
    return static_cast<float>(value);
  else if constexpr (std::is_same_v<T, Half>)
    return halfToFloat(floatToHalf(static_cast<float>(value)));
  else
    return static_cast<float>(BFloat16(static_cast<float>(value)));
}

template <typename T> void store(double value, std::byte *at) {
  T narrow;
  if constexpr (std::is_same_v<T, Half>)
    narrow.bits = floatToHalf(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, BFloat16>)
    narrow = BFloat16(static_cast<float>(value));
  else
    narrow = static_cast<T>(value);
  std::memcpy(at, &narrow, sizeof(T));
}

/// Writes one value; false when `To` cannot hold it.
template <typename From, typename To> bool convertOne(const std::byte *from, std::byte *to) {
  auto wide = widen(loadAs<From>(from));
  if constexpr (isFloating<To>) {
    double value = static_cast<double>(wide);
    if constexpr (isFloating<From>) {
      if (sizeof(To) < sizeof(From) || isNarrowFloat<To>)
        if (std::isfinite(value) && !std::isfinite(roundTo<To>(value)))
          return false;
    } else if (std::abs(value) >= 0x1p63 || static_cast<int64_t>(value) != wide || roundTo<To>(value) != value) {
      return false;
    }
    store<To>(value, to);
  } else if constexpr (std::is_same_v<To, Truth>) {
    if (wide != 0 && wide != 1)
      return false;
    Truth truth{static_cast<uint8_t>(wide)};
    std::memcpy(to, &truth, 1);
  } else {
    To narrow = static_cast<To>(wide);
    if (static_cast<int64_t>(narrow) != wide)
      return false;
    std::memcpy(to, &narrow, sizeof(To));
  }
  return true;
}

template <typename From, typename To> size_t convertAll(const std::byte *source, std::byte *target, size_t count) {
  if constexpr (isFloating<From> && !isFloating<To>) {
    return 0;
  } else {
    for (size_t i = 0; i < count; ++i)
      if (!convertOne<From, To>(source + i * sizeof(From), target + i * sizeof(To)))
        return i;
    return count;
  }
}

/// Calls `use` with a value of the C++ type of `dtype`.
template <typename Use> auto withType(DType dtype, Use use) {
  switch (dtype) {
  case DType::F32:
    return use(float{});
  case DType::F64:
    return use(double{});
  case DType::BF16:
    return use(BFloat16{});
  case DType::F16:
    return use(Half{});
  case DType::I64:
    return use(int64_t{});
  case DType::I32:
    return use(int32_t{});
  case DType::I16:
    return use(int16_t{});
  case DType::I8:
    return use(int8_t{});
  case DType::U8:
    return use(uint8_t{});
  case DType::Bool:
    break;
  }
  return use(Truth{});
}

size_t copyTruths(const std::byte *source, std::byte *target, size_t count) {
  for (size_t i = 0; i < count; ++i)
    target[i] = std::byte{source[i] != std::byte{0}};
  return count;
}

/// Bits of the integers that a type holds exactly: all of them for an integer type.
int exactBits(DType dtype) {
  switch (dtype) {
  case DType::F64:
    return 53;
  case DType::F32:
    return 24;
  case DType::F16:
    return 11;
  case DType::BF16:
    return 8;
  case DType::I64:
    return 63;
  case DType::I32:
    return 31;
  case DType::I16:
    return 15;
  case DType::I8:
    return 7;
  case DType::U8:
    return 8;
  case DType::Bool:
    return 1;
  }
  return 0;
}
} // namespace

Conversion conversionKind(DType from, DType to) {
  if (from == to)
    return Conversion::Same;
  if (isFloat(from)) {
    if (!isFloat(to))
      return Conversion::Refused;
    bool widens = to == DType::F64 || (to == DType::F32 && byteSize(from) == 2);
    return widens ? Conversion::Exact : Conversion::Rounding;
  }
  bool losesSign = to == DType::U8 && from != DType::Bool;
  return exactBits(from) <= exactBits(to) && !losesSign ? Conversion::Exact : Conversion::Checked;
}

size_t convertElements(DType from, const void *source, DType to, void *target, size_t count) {
  auto *in = static_cast<const std::byte *>(source);
  auto *out = static_cast<std::byte *>(target);
  if (count == 0)
    return 0;
  if (from == to && from == DType::Bool)
    return copyTruths(in, out, count);
  if (from == to) {
    std::memcpy(out, in, count * byteSize(from));
    return count;
  }
  return withType(from, [&](auto f) {
    return withType(to, [&](auto t) { return convertAll<decltype(f), decltype(t)>(in, out, count); });
  });
}

} // namespace maestro
