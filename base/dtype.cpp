#include "base/dtype.h"

#include <array>

namespace maestro {
namespace {
struct DTypeInfo {
  std::string_view name;
  size_t bytes;
};
constexpr std::array<DTypeInfo, kDTypeCount> kInfo = {{{"f32", 4},
                                                       {"f64", 8},
                                                       {"bf16", 2},
                                                       {"f16", 2},
                                                       {"i64", 8},
                                                       {"i32", 4},
                                                       {"i16", 2},
                                                       {"i8", 1},
                                                       {"u8", 1},
                                                       {"bool", 1}}};
} // namespace

size_t byteSize(DType dtype) { return kInfo[static_cast<size_t>(dtype)].bytes; }

std::string_view name(DType dtype) { return kInfo[static_cast<size_t>(dtype)].name; }

std::optional<DType> dtypeFromName(std::string_view text) {
  for (size_t i = 0; i < kInfo.size(); ++i)
    if (kInfo[i].name == text)
      return static_cast<DType>(i);
  return std::nullopt;
}

bool isFloat(DType dtype) { return dtype <= DType::F16; }

bool isInteger(DType dtype) { return dtype >= DType::I64 && dtype <= DType::U8; }

float halfToFloat(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 0x1fu;
  uint32_t mantissa = bits & 0x3ffu;
  uint32_t word;
  if (exponent == 0x1f) {
    word = sign | 0x7f800000u | (mantissa << 13);
  } else if (exponent != 0) {
    word = sign | ((exponent + 112) << 23) | (mantissa << 13);
  } else {
    float value = static_cast<float>(mantissa) * 0x1p-24f; // Subnormal: exact in float.
    return sign ? -value : value;
  }
  float value;
  std::memcpy(&value, &word, 4);
  return value;
}

uint16_t floatToHalf(float value) {
  uint32_t word;
  std::memcpy(&word, &value, 4);
  uint32_t sign = (word >> 16) & 0x8000u;
  uint32_t magnitude = word & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u)
    return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Subnormal in half: adding 0.5 aligns the mantissa so that the hardware rounds for us.
    float positive;
    std::memcpy(&positive, &magnitude, 4);
    positive += 0.5f;
    uint32_t aligned;
    std::memcpy(&aligned, &positive, 4);
    return static_cast<uint16_t>(sign | (aligned - 0x3f000000u));
  }
  uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

} // namespace maestro
