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
  profile.rates = {{1, {123.4e9, 45.6e9, 0.5e-6, 7.89e9, 12e9, 3.5e-6}}, {2, {240e9, 80e9, 0.7e-6, 15e9, 12e9, 3.5e-6}}};
  profile.measured = {{"matmul f32 1x2x3", 1, 12, 44, 1e-3}};
  auto read = parseDeviceProfile(cost_models::toYaml(profile), "device.yaml");
  ASSERT_TRUE(read.isOk()) << read.status().message();
  EXPECT_EQ(read->name, profile.name);
  ASSERT_EQ(read->rates.size(), 2u);
  const cost_models::DeviceRates &rates = read->rates[0].rates;
  EXPECT_EQ(read->rates[0].threads, 1);
  EXPECT_NEAR(rates.flopsPerSecond, 123.4e9, 1e6);
  EXPECT_NEAR(rates.bytesPerSecond, 45.6e9, 1e6);
  EXPECT_NEAR(rates.streamBytesPerSecond, 7.89e9, 1e6);
  EXPECT_NEAR(rates.callSeconds, 0.5e-6, 1e-12);
  EXPECT_NEAR(rates.channelBytesPerSecond, 12e9, 1e6);
  EXPECT_NEAR(rates.channelLatencySeconds, 3.5e-6, 1e-12);
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
