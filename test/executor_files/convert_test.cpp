#include "base/convert.h"
#include "base/finite.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace maestro {
namespace {
using ::testing::ElementsAre;

template <typename To, typename From> std::vector<To> convert(DType from, std::vector<From> values, DType to) {
  std::vector<To> out(values.size());
  out.resize(convertElements(from, values.data(), to, out.data(), values.size()));
  return out;
}

TEST(ConvertTest, saysWhatAConversionLoses) {
  EXPECT_EQ(conversionKind(DType::I32, DType::I32), Conversion::Same);
  EXPECT_EQ(conversionKind(DType::I32, DType::I64), Conversion::Exact);
  EXPECT_EQ(conversionKind(DType::U8, DType::I16), Conversion::Exact);
  EXPECT_EQ(conversionKind(DType::I8, DType::U8), Conversion::Checked);
  EXPECT_EQ(conversionKind(DType::Bool, DType::U8), Conversion::Exact);
  EXPECT_EQ(conversionKind(DType::I64, DType::I32), Conversion::Checked);
  EXPECT_EQ(conversionKind(DType::I64, DType::Bool), Conversion::Checked);
  EXPECT_EQ(conversionKind(DType::I16, DType::F32), Conversion::Exact);
  EXPECT_EQ(conversionKind(DType::I64, DType::F32), Conversion::Checked);
  EXPECT_EQ(conversionKind(DType::F16, DType::F32), Conversion::Exact);
  EXPECT_EQ(conversionKind(DType::F64, DType::F32), Conversion::Rounding);
  EXPECT_EQ(conversionKind(DType::F16, DType::BF16), Conversion::Rounding);
  EXPECT_EQ(conversionKind(DType::F32, DType::I32), Conversion::Refused);
}

TEST(ConvertTest, integersAreKeptOrRefused) {
  EXPECT_THAT((convert<int32_t, int64_t>(DType::I64, {1, -5, 2147483647}, DType::I32)), ElementsAre(1, -5, 2147483647));
  EXPECT_THAT((convert<int32_t, int64_t>(DType::I64, {1, 2147483648, 3}, DType::I32)), ElementsAre(1));
  EXPECT_THAT((convert<uint8_t, int64_t>(DType::I64, {0, 1, 2}, DType::Bool)), ElementsAre(0, 1));
  EXPECT_THAT((convert<uint8_t, int8_t>(DType::I8, {5, -1}, DType::U8)), ElementsAre(5));
  EXPECT_THAT((convert<float, int64_t>(DType::I64, {16777216, 16777217}, DType::F32)), ElementsAre(16777216.0f));
  EXPECT_THAT((convert<double, int64_t>(DType::I64, {std::numeric_limits<int64_t>::max()}, DType::F64)), ElementsAre());
  EXPECT_THAT((convert<uint8_t, uint8_t>(DType::Bool, {0, 1, 77}, DType::Bool)), ElementsAre(0, 1, 1));
}

TEST(ConvertTest, floatsAreRoundedButNeverOverflow) {
  EXPECT_THAT((convert<float, double>(DType::F64, {0.1, -2.0}, DType::F32)), ElementsAre(0.1f, -2.0f));
  EXPECT_THAT((convert<float, double>(DType::F64, {1.0, 1e300, 2.0}, DType::F32)), ElementsAre(1.0f));
  double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT((convert<float, double>(DType::F64, {infinity}, DType::F32)), ElementsAre(HUGE_VALF));
  EXPECT_THAT((convert<float, uint16_t>(DType::F16, {0x3c00, 0x0001}, DType::F32)), ElementsAre(1.0f, 0x1p-24f));
  EXPECT_THAT((convert<float, uint16_t>(DType::BF16, {0x3f80}, DType::F32)), ElementsAre(1.0f));
  EXPECT_THAT((convert<uint16_t, float>(DType::F32, {1.0f, 70000.0f}, DType::F16)), ElementsAre(0x3c00));
  float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan((convert<double, float>(DType::F32, {nan}, DType::F64))[0]));
  EXPECT_THAT((convert<int32_t, float>(DType::F32, {1.0f}, DType::I32)), ElementsAre());
}

} // namespace
TEST(Finite, OneInfiniteValueAnywhere) {
  for (size_t count : {0u, 1u, 7u, 1023u, 1024u, 1025u, 5000u}) {
    std::vector<float> values(count, 3.0e38f);
    auto bytes = std::as_bytes(std::span<const float>(values));
    EXPECT_TRUE(areFinite(bytes)) << count;
    for (size_t at : {size_t{0}, count / 2, count - 1})
      for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(), std::nanf("")})
        if (at < count) {
          values[at] = bad;
          EXPECT_FALSE(areFinite(bytes)) << count << " values, " << bad << " at " << at;
          values[at] = -std::numeric_limits<float>::denorm_min();
        }
  }
}

} // namespace maestro
