#include "planner/workload/device_file.h"

#include <gtest/gtest.h>

namespace maestro::planner {
namespace {

using namespace cost_models;

std::string messageOf(std::string_view text) {
  return std::string(parseDeviceProfile(text, "device.yaml").status().message());
}

TEST(DeviceFile, WhatIsWrittenIsRead) {
  DeviceProfile profile;
  profile.name = "a processor @ 3 GHz: fast";
  DeviceRates rates = cpuRates(1);
  rates.arithmetic = FlopsPerSecond(123.4e9);
  rates.arithmeticBf16 = FlopsPerSecond(246.8e9);
  rates.operands = gigabytesPerSecond(45.6);
  rates.stream = gigabytesPerSecond(7.89);
  rates.call = microseconds(0.5);
  rates.channel = gigabytesPerSecond(12);
  rates.wake = microseconds(3.5);
  rates.task = microseconds(6.5);
  rates.step = microseconds(250);
  rates.host = microseconds(1750);
  rates.alone = 0.875;
  rates.together = 1.125;
  rates.update = 2.375;
  profile.devices = {{1, rates, {}}, {2, cpuRates(2), {}}};
  profile.bf16Products = Bf16Products::Native;
  ASSERT_TRUE(profile.devices[0].curves.addCurve("add", {{1000, microseconds(2)}, {8e6, microseconds(900)}}).isOk());
  ASSERT_TRUE(profile.devices[0]
                  .curves.addGrid("matmul f32", {{32, 64, 64, microseconds(3)}, {512, 64, 64, microseconds(40)}})
                  .isOk());
  ASSERT_TRUE(profile.devices[0].curves.addCalls("matmul", {{96, 64, 64, 65536, microseconds(20)}}).isOk());
  ASSERT_TRUE(profile.devices[0].curves.addCalls("cast bf16", {{96, 64, 1, 36864, microseconds(7)}}).isOk());
  auto between = [](const cost_models::KernelCurves &curves) {
    return curves.time("matmul", false, {96, 64, 64, 65536, cost_models::Seconds(0)})->value;
  };
  auto read = parseDeviceProfile(toYaml(profile), "device.yaml");
  ASSERT_TRUE(read.isOk()) << read.status().message();
  EXPECT_EQ(read->name, profile.name);
  EXPECT_EQ(read->bf16Products, Bf16Products::Native);
  ASSERT_EQ(read->devices.size(), 2u);
  const DeviceRates &again = read->devices[0].rates;
  EXPECT_EQ(read->devices[0].threads, 1);
  EXPECT_NEAR(again.arithmetic.value, 123.4e9, 1e6);
  EXPECT_NEAR(again.arithmeticBf16.value, 246.8e9, 1e6);
  EXPECT_NEAR(again.operands.value, 45.6e9, 1e6);
  EXPECT_NEAR(again.stream.value, 7.89e9, 1e6);
  EXPECT_NEAR(again.call.value, 0.5e-6, 1e-12);
  EXPECT_NEAR(again.channel.value, 12e9, 1e6);
  EXPECT_NEAR(again.wake.value, 3.5e-6, 1e-12);
  EXPECT_NEAR(again.task.value, 6.5e-6, 1e-12);
  EXPECT_NEAR(again.step.value, 250e-6, 1e-12);
  EXPECT_NEAR(again.host.value, 1750e-6, 1e-12);
  EXPECT_NEAR(again.alone, 0.875, 1e-12);
  EXPECT_NEAR(again.together, 1.125, 1e-12);
  EXPECT_NEAR(again.update, 2.375, 1e-12);
  EXPECT_EQ(read->devices[1].rates.alone, 1);
  EXPECT_EQ(read->devices[1].rates.together, 1);
  EXPECT_EQ(read->devices[1].rates.update, 1);
  EXPECT_NEAR(read->devices[0].curves.curveTime("add", 1000)->value, 2e-6, 1e-12);
  EXPECT_NEAR(between(read->devices[0].curves), between(profile.devices[0].curves), 1e-9);
  EXPECT_NEAR(between(profile.devices[0].curves), 20e-6, 1e-6);
  EXPECT_NEAR(read->devices[0].curves.time("cast", true, {96, 64, 1, 36864, cost_models::Seconds(0)})->value, 7e-6,
              1e-7);
  EXPECT_TRUE(read->devices[1].curves.isEmpty());
}

TEST(DeviceFile, AGpusProfileIsReadAsWritten) {
  cost_models::DeviceProfile profile;
  profile.kind = "h200";
  profile.name = "NVIDIA H200";
  profile.memoryBytes = 150'000'000'000;
  profile.multiprocessors = 132;
  profile.kept = {{"context, kernels and libraries", 900'000'000, "measured"}};
  profile.devices.emplace_back();
  profile.devices[0].rates.arithmetic = cost_models::teraflopsPerSecond(50);
  profile.devices[0].rates.operands = profile.devices[0].rates.stream = cost_models::gigabytesPerSecond(4000);
  profile.devices[0].rates.channel = cost_models::gigabytesPerSecond(50);
  profile.devices[0].rates.arithmeticBf16 = cost_models::teraflopsPerSecond(700);
  ASSERT_TRUE(profile.devices[0].curves.addCurve("add", {{1e6, cost_models::Seconds(1e-6)}}).isOk());
  auto read = parseDeviceProfile(cost_models::toYaml(profile), "device.yaml");
  ASSERT_TRUE(read.isOk()) << read.status().message();
  cost_models::DeviceModel device = cost_models::gpuFor(*read);
  EXPECT_EQ(device.kind, "h200");
  EXPECT_EQ(device.memoryBytes, 149'100'000'000u);
  ASSERT_EQ(device.kept.size(), 1u);
  EXPECT_EQ(device.kept[0].what, "context, kernels and libraries");
  EXPECT_EQ(device.multiprocessors, 132u);
  EXPECT_NEAR(device.rates.arithmeticBf16.value, 7e14, 1e11);
  EXPECT_NEAR(device.curves->curveTime("add", 1e6)->value, 1e-6, 1e-12);

  const std::string head = "kind: h200\n", rates = "rates: [{threads: 1, arithmetic: 1 GFLOP/s, operands: 1 GB/s}]\n";
  EXPECT_NE(messageOf(head + rates).find("multiprocessors"), std::string::npos);
  EXPECT_NE(messageOf(head + "multiprocessors: 132\nmemory: 1 GB\nkept: [{what: x}]\n" + rates).find("kept[0]"),
            std::string::npos);
}

TEST(DeviceFile, WhatIsWrongIsNamed) {
  const std::string rates = "kind: cpu\nrates: [{threads: 1, arithmetic: 1 GFLOP/s, operands: 1 GB/s}]\n";
  auto curve = [&](std::string text) { return messageOf(rates + "curves: [{" + text + "}]"); };
  EXPECT_NE(messageOf("kind: h100\nrates: [{threads: 1, arithmetic: 1 GFLOP/s, operands: 1 GB/s}]").find("'h100'"),
            std::string::npos);
  EXPECT_NE(messageOf("kind: cpu\nrates: []").find("at least one"), std::string::npos);
  std::string products =
      messageOf("kind: cpu\nbf16_products: fast\nrates: [{threads: 1, arithmetic: 1 GFLOP/s, operands: 1 GB/s}]");
  EXPECT_NE(products.find("'fast'; must be native"), std::string::npos) << products;
  EXPECT_NE(messageOf("kind: cpu\nrates: [{threads: 1, operands: 1 GB/s}]").find("arithmetic"), std::string::npos);
  EXPECT_NE(messageOf("kind: cpu\nrates: [{threads: 1, arithmetic: 0 GFLOP/s, operands: 1 GB/s}]").find("above 0"),
            std::string::npos);
  EXPECT_NE(messageOf("kind: cpu\nrates: [{threads: 1, arithmetic: 1 GFLOP/s, operands: 1 GB}]")
                .find("write a number with its unit"),
            std::string::npos);
  EXPECT_NE(curve("kernel: add, threads: 2, points: [[1, 1]]").find("rates say nothing"), std::string::npos);
  EXPECT_NE(curve("kernel: add, threads: 1, points: [[1, 1, 1]]").find("2 numbers"), std::string::npos);
  EXPECT_NE(curve("kernel: add, threads: 1, calls: [[1, 1, 1, 1]]").find("5 numbers"), std::string::npos);
  EXPECT_NE(curve("kernel: add, threads: 1, points: [[1, 0]]").find("points[0]"), std::string::npos);
  EXPECT_NE(curve("kernel: matmul f32, threads: 1, points: [[1, 1, 1, 1], [2, 2, 2, 1]]").find("no grid"),
            std::string::npos);
  EXPECT_NE(curve("kernel: matmul, threads: 1, calls: [[1, 1, 1, 1, 1]]").find("no grid or curve stands for it before"),
            std::string::npos);
}

} // namespace
} // namespace maestro::planner
