#include "planner/workload/device_file.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace maestro::planner {
namespace {

std::string messageOf(std::string_view text) { return std::string(parseDeviceProfile(text, "device.yaml").status().message()); }

TEST(DeviceFile, WhatIsWrittenIsRead) {
  cost_models::DeviceProfile profile;
  profile.name = "a processor @ 3 GHz: \"fast\"";
  profile.name.erase(std::remove(profile.name.begin(), profile.name.end(), '"'), profile.name.end());
  using namespace cost_models;
  profile.rates = {{1, {FlopsPerSecond(123.4e9), gigabytesPerSecond(45.6), microseconds(0.5), gigabytesPerSecond(7.89),
                        gigabytesPerSecond(12), microseconds(3.5)}},
                   {2, {FlopsPerSecond(240e9), gigabytesPerSecond(80), microseconds(0.7), gigabytesPerSecond(15),
                        gigabytesPerSecond(12), microseconds(3.5)}}};
  profile.measured = {{"matmul f32 1x2x3", 1, 12, 44, 1e-3}};
  auto read = parseDeviceProfile(cost_models::toYaml(profile), "device.yaml");
  ASSERT_TRUE(read.isOk()) << read.status().message();
  EXPECT_EQ(read->name, profile.name);
  ASSERT_EQ(read->rates.size(), 2u);
  const cost_models::DeviceRates &rates = read->rates[0].rates;
  EXPECT_EQ(read->rates[0].threads, 1);
  EXPECT_NEAR(rates.arithmetic.value, 123.4e9, 1e6);
  EXPECT_NEAR(rates.operands.value, 45.6e9, 1e6);
  EXPECT_NEAR(rates.stream.value, 7.89e9, 1e6);
  EXPECT_NEAR(rates.call.value, 0.5e-6, 1e-12);
  EXPECT_NEAR(rates.channel.value, 12e9, 1e6);
  EXPECT_NEAR(rates.wake.value, 3.5e-6, 1e-12);
}

TEST(DeviceFile, WhatIsWrongIsNamed) {
  EXPECT_NE(messageOf("kind: h100\nrates: [{threads: 1, arithmetic: 1 GFLOP/s, operands: 1 GB/s}]").find("'h100'"), std::string::npos);
  EXPECT_NE(messageOf("kind: cpu\nrates: []").find("at least one"), std::string::npos);
  EXPECT_NE(messageOf("kind: cpu\nrates: [{threads: 1, operands: 1 GB/s}]").find("arithmetic"), std::string::npos);
  EXPECT_NE(messageOf("kind: cpu\nrates: [{threads: 1, arithmetic: 0 GFLOP/s, operands: 1 GB/s}]").find("above 0"), std::string::npos);
  EXPECT_NE(messageOf("kind: cpu\nrates: [{threads: 1, arithmetic: 1 GFLOP/s, operands: 1 GB}]").find("write a number with its unit"),
            std::string::npos);
}

} // namespace
} // namespace maestro::planner
