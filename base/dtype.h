// Element types of tensors, shared by the plan format, kernels, data files and the planner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace maestro {

/// Numbered once and for all: the plan format stores these values.
enum class DType : uint8_t {
  F32 = 0,
  F64 = 1,
  BF16 = 2,
  F16 = 3,
  I64 = 4,
  I32 = 5,
  I16 = 6,
  I8 = 7,
  U8 = 8,
  Bool = 9, ///< One byte, 0 or 1.
};
inline constexpr int kDTypeCount = 10;

/// Bytes of one element.
size_t byteSize(DType dtype);
/// "f32", "bf16", "i64", "bool" …
std::string_view name(DType dtype);
/// The inverse of name(); nothing for other text.
std::optional<DType> dtypeFromName(std::string_view text);
bool isFloat(DType dtype);
bool isInteger(DType dtype); ///< Bool is not an integer.

/// bfloat16 stored in 16 bits; arithmetic goes through float. Rounds to nearest even; NaN stays NaN.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) {
    uint32_t word;
    std::memcpy(&word, &value, 4);
    if ((word & 0x7fffffffu) > 0x7f800000u)
      bits = static_cast<uint16_t>((word >> 16) | 0x40u);
    else
      bits = static_cast<uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  explicit operator float() const {
    uint32_t word = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
};

/// IEEE 754 half precision to and from float (round to nearest even).
float halfToFloat(uint16_t bits);
uint16_t floatToHalf(float value);

} // namespace maestro
