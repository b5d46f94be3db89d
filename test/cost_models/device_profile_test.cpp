// Devices made of profiles, curves of kernels, and the times that follow.
#include "cost_models/device_profile.h"
#include "cost_models/operator_time.h"

#include <gtest/gtest.h>

#include <cmath>

namespace maestro::cost_models {
namespace {

/// 100 GFLOP/s for small products, twice that where k is 1,024; additions at 10 GB/s up to 1 MB and at 5 beyond 100 MB.
KernelCurves curves() {
  KernelCurves made;
  std::vector<GridSample> products;
  for (double m : {64.0, 1024.0})
    for (double n : {64.0, 1024.0})
      for (double k : {64.0, 1024.0})
        products.push_back({m, n, k, Seconds(2 * m * n * k / (k == 64 ? 100e9 : 200e9))});
  EXPECT_TRUE(made.addGrid("matmul f32", products).isOk());
  EXPECT_TRUE(made.addCurve("add", {{1e8, Seconds(1e8 / 5e9)}, {1e6, Seconds(1e6 / 10e9)}}).isOk());
  return made;
}

DeviceProfile profileOf() {
  DeviceProfile profile;
  profile.name = "a processor";
  ProfiledDevice one{1, cpuRates(1), curves()}, four{4, cpuRates(4), {}};
  one.rates.call = microseconds(1);
  four.rates.call = microseconds(3);
  profile.devices = {one, four};
  return profile;
}

TEST(KernelCurves, AreExactAtTheirPointsAndBetweenThemInLogarithms) {
  KernelCurves made = curves();
  EXPECT_NEAR(made.gridTime("matmul f32", 1024, 64, 1024)->value, 2.0 * 1024 * 64 * 1024 / 200e9, 1e-12);
  EXPECT_NEAR(made.gridTime("matmul f32", 300, 300, 256)->value, 2.0 * 300 * 300 * 256 / (100e9 * std::sqrt(2.0)),
              1e-9);
  EXPECT_NEAR(made.gridTime("matmul f32", 1e5, 8, 1e5)->value, 2.0 * 1e5 * 8 * 1e5 / 200e9, 1e-6); // The grid's edge.
  EXPECT_FALSE(made.gridTime("matmul bf16", 64, 64, 64));
  EXPECT_NEAR(made.curveTime("add", 1e7)->value, std::sqrt(1e-4 * 2e-2), 1e-12);
  EXPECT_NEAR(made.curveTime("add", 1e9)->value, 0.2, 1e-12); // In proportion beyond the largest.
  EXPECT_FALSE(made.curveTime("gelu", 1e6));
}

TEST(KernelCurves, CallsSayWhatGridsDoNot) {
  KernelCurves made;
  std::vector<GridSample> grid;
  for (double m : {32, 2048})
    for (double n : {32, 128, 512})
      for (double k : {32, 128, 512})
        grid.push_back({m, n, k, Seconds(2 * m * n * k / 50e9)});
  EXPECT_NE(made.addCalls("matmul", {{1, 1, 1, 1, Seconds(1)}}).message().find("no grid or curve stands for it"),
            std::string::npos);
  ASSERT_TRUE(made.addGrid("matmul f32", grid).isOk());
  auto call = [](double m, double n, double k, double rate) {
    return CallSample{m, n, k, 4 * (m * n + n * k + k * m), Seconds(2 * m * n * k / rate)};
  };
  auto rateAt = [&](double m, double n, double k) {
    return 2 * m * n * k / made.time("matmul", false, call(m, n, k, 1))->value * 1e-9;
  };
  EXPECT_NEAR(rateAt(512, 96, 96), 50, 0.1);
  ASSERT_TRUE(made.addCalls("matmul", {call(512, 96, 96, 75e9)}).isOk());
  EXPECT_NEAR(rateAt(512, 96, 96), 75, 0.2);
  EXPECT_NEAR(rateAt(64, 96, 96), 58, 5);    // Fewer rows: of the same kind,
  EXPECT_NEAR(rateAt(512, 256, 256), 50, 5); // while other matrices are the grid's,
  EXPECT_NEAR(rateAt(512, 512, 32), 50, 3);
  EXPECT_NEAR(2e-9 * 512 * 96 * 96 / made.time("matmul transposed", false, call(512, 96, 96, 1))->value, 50,
              0.1); // and other kernels, too.
  ASSERT_TRUE(made.addCalls("matmul", {call(512, 96, 96, 75e9), call(64, 96, 96, 75e9)}).isOk());
  EXPECT_GT(rateAt(256, 96, 96), 70); // And between two of one kind it is theirs.
  EXPECT_NE(made.addCalls("matmul", {call(1, 1, 1, INFINITY)}).message().find("not above 0"), std::string::npos);
}

TEST(KernelCurves, CallsTellKernelsApartThatShareACurve) {
  KernelCurves made;
  ASSERT_TRUE(made.addCurve("add", {{1e3, Seconds(1e-6)}, {1e6, Seconds(1e-3)}}).isOk());
  ASSERT_TRUE(made.addCalls("where", {{100, 100, 1, 1e5, Seconds(3e-4)}}).isOk());
  ASSERT_TRUE(made.addCalls("cast bf16", {{100, 100, 1, 1e5, Seconds(5e-5)}}).isOk());
  CallSample work{100, 100, 1, 1e5, Seconds(0)};
  EXPECT_NEAR(made.time("less", false, work)->value, 1e-4, 1e-9);
  EXPECT_NEAR(made.time("where", false, work)->value, 3e-4, 2e-6);
  EXPECT_NEAR(made.time("cast", true, work)->value, 5e-5, 1e-6);
  EXPECT_NEAR(made.time("cast", false, work)->value, 1e-4, 1e-9);
}

TEST(KernelCurves, RefuseWhatIsNoGrid) {
  KernelCurves made;
  EXPECT_NE(made.addGrid("p", {{1, 1, 1, Seconds(1)}, {2, 2, 1, Seconds(1)}}).message().find("no grid of 2 x 2 x 1"),
            std::string::npos);
  EXPECT_NE(made.addGrid("p", {{1, 1, 1, Seconds(0)}}).message().find("not above 0"), std::string::npos);
  EXPECT_NE(made.addGrid("p", {{1, 1, 1, Seconds(1)}, {1, 1, 1, Seconds(1)}}).message().find("no grid"),
            std::string::npos);
  EXPECT_NE(made.addCurve("c", {}).message().find("no points"), std::string::npos);
  EXPECT_NE(made.addCurve("c", {{5, Seconds(1)}, {5, Seconds(2)}}).message().find("twice"), std::string::npos);
}

TEST(DeviceProfile, OtherNumbersOfThreadsAreInProportion) {
  EXPECT_EQ(deviceFor({}, 3).rates.arithmetic, cpuRates(3).arithmetic); // Nothing measured: built in.
  DeviceModel one = deviceFor(profileOf(), 1), two = deviceFor(profileOf(), 2), eight = deviceFor(profileOf(), 8);
  EXPECT_EQ(one.rates.arithmetic, FlopsPerSecond(100e9));
  EXPECT_EQ(two.rates.arithmetic, FlopsPerSecond(200e9));
  EXPECT_EQ(eight.rates.stream, cpuRates(4).stream * 2);
  EXPECT_EQ(eight.rates.call, microseconds(3)); // No faster with more threads.
  KernelWork add{"add", false, Flops(1e5), Bytes(1e6)};
  EXPECT_EQ(operatorTime(add, one).provenance, Provenance::Measured);
  EXPECT_EQ(operatorTime(add, two).provenance, Provenance::Scaled);
  auto work = [&](const DeviceModel &device) { return operatorTime(add, device).time - device.rates.call; };
  EXPECT_NEAR(ratio(work(one), work(two)), 2, 1e-9);
}

TEST(OperatorTime, ACpuWithoutCurvesComputesAndThenMoves) {
  DeviceModel cpu = builtInCpu(2);
  OperatorTime time = operatorTime({"matmul", false, Flops(2e9), Bytes(16e6), 1000, 1000, 1000}, cpu);
  EXPECT_NEAR(time.time.value, 2e9 / 200e9 + 16e6 / 16e9 + 1e-6, 1e-12);
  EXPECT_NE(sourceOf(cpu, time.provenance).find("assumed: 100 GFLOP/s"), std::string::npos);
}

TEST(OperatorTime, MeasuredKernelsAreTakenFromTheirCurves) {
  DeviceModel device = deviceFor(profileOf(), 1); // Calls take 1 us.
  EXPECT_NEAR(operatorTime({"matmul", false, Flops(), Bytes(), 1024, 64, 1024, 3}, device).time.value,
              3 * 2.0 * 1024 * 64 * 1024 / 200e9 + 1e-6, 1e-9);
  EXPECT_NEAR(operatorTime({"mul", false, Flops(), Bytes(1e6)}, device).time.value, 1e-4 + 1e-6,
              1e-12); // As additions.
  EXPECT_EQ(operatorTime({"matmul transposed", false, Flops(), Bytes(), 1024, 64, 1024, 3}, device)
                .time, // Of its kind nothing is known.
            operatorTime({"matmul", false, Flops(), Bytes(), 1024, 64, 1024, 3}, device).time);
  EXPECT_EQ(operatorTime({"gelu", false, Flops(8e5), Bytes(1e6)}, device).provenance, Provenance::BuiltIn);
}

TEST(OperatorTime, ProfilesThatLackACurveAnswerWithWhatStoodForItBefore) {
  KernelCurves older, newer;
  for (KernelCurves *made : {&older, &newer}) {
    ASSERT_TRUE(made->addCurve("gelu", {{1e6, Seconds(1e-4)}}).isOk());
    ASSERT_TRUE(made->addGrid("rms_norm", {{64, 64, 1, Seconds(1e-5)}}).isOk());
  }
  ASSERT_TRUE(newer.addCurve("silu", {{1e6, Seconds(3e-4)}}).isOk());
  ASSERT_TRUE(newer.addGrid("layer_norm_grad", {{64, 64, 1, Seconds(7e-5)}}).isOk());
  auto seconds = [](const KernelCurves &curves, std::string_view kernel) {
    DeviceModel device = deviceFor({"cpu", "a processor", {{1, cpuRates(1), curves}}}, 1);
    OperatorTime time = operatorTime({kernel, false, Flops(), Bytes(1e6), 64, 64}, device);
    return time.provenance == Provenance::Measured ? (time.time - device.rates.call).value : -1;
  };
  EXPECT_NEAR(seconds(older, "silu_grad"), 1e-4, 1e-12); // By silu's, which is not there, by gelu's.
  EXPECT_NEAR(seconds(newer, "silu_grad"), 3e-4, 1e-12);
  EXPECT_NEAR(seconds(older, "layer_norm"), 1e-5, 1e-12);
  EXPECT_EQ(seconds(older, "layer_norm_grad"), -1); // rms_norm_grad is not there.
  EXPECT_NEAR(seconds(newer, "layer_norm_grad"), 7e-5, 1e-12);
}

} // namespace
} // namespace maestro::cost_models
