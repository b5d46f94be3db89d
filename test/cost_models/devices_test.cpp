// Built-in accelerators against numbers of their data sheets, and products in waves of tiles.
#include "cost_models/devices.h"
#include "cost_models/operator_time.h"

#include <gtest/gtest.h>

namespace maestro::cost_models {
namespace {

KernelWork product(double m, double n, double k, bool bf16) {
  return {"matmul", bf16, Flops(2 * m * n * k), Bytes((m * k + n * k + m * n) * (bf16 ? 2 : 4)), m, n, k};
}

TEST(Devices, AreBetweenHalfAndAllOfTheirDataSheets) {
  struct {
    const char *name;
    double memoryGb, bf16Tflops, f32Tflops, memoryGbps, linkGbps;
  } sheets[] = {{"a100-40gb", 40, 312, 19.5, 1555, 300}, {"a100-80gb", 80, 312, 19.5, 2039, 300},
                {"h100-sxm", 80, 989, 67, 3350, 450},    {"h200", 141, 989, 67, 4800, 450},
                {"b200", 180, 2250, 75, 7700, 900},      {"l40s", 48, 362, 91.6, 864, 32}};
  EXPECT_EQ(builtInDevices().size(), std::size(sheets));
  for (const auto &sheet : sheets) {
    auto device = builtInDevice(sheet.name);
    ASSERT_TRUE(device) << sheet.name;
    EXPECT_EQ(device->kind, sheet.name);
    EXPECT_NEAR(static_cast<double>(device->memoryBytes + device->keptBytes()), sheet.memoryGb * 1e9, 1e6);
    EXPECT_FALSE(device->source.empty());
    // No product or copy beats the sheet; large ones reach more than half of it.
    double bf16 = 2 * 8192.0 * 8192 * 8192 / operatorTime(product(8192, 8192, 8192, true), *device).time.value;
    double f32 = 2 * 8192.0 * 8192 * 8192 / operatorTime(product(8192, 8192, 8192, false), *device).time.value;
    double copied = 2e9 / operatorTime({"copy", false, Flops(0), Bytes(2e9)}, *device).time.value;
    for (auto [reached, stated] :
         {std::pair{bf16, sheet.bf16Tflops * 1e12}, {f32, sheet.f32Tflops * 1e12}, {copied, sheet.memoryGbps * 1e9}}) {
      EXPECT_LT(reached, stated) << sheet.name;
      EXPECT_GT(reached, 0.5 * stated) << sheet.name;
    }
    EXPECT_EQ(builtInNodeLink(sheet.name).bandwidth, gigabytesPerSecond(sheet.linkGbps));
  }
  EXPECT_FALSE(builtInDevice("h100"));
}

TEST(OperatorTime, TheLastWaveOfTilesTakesAsLongAsAFullOne) {
  DeviceModel device = *builtInDevice("a100-80gb"); // 108 multiprocessors.
  auto seconds = [&](double m, double n, double k) {
    return (operatorTime(product(m, n, k, true), device).time - device.rates.call).value;
  };
  // 128 x 256 tiles: 9 x 12 of them are one wave.
  double one = seconds(9 * 128, 12 * 256, 4096);
  EXPECT_NEAR(one, 2.0 * 9 * 128 * 12 * 256 * 4096 / device.rates.arithmeticBf16.value, one * 1e-9);
  EXPECT_GT(seconds(9 * 128 + 1, 12 * 256, 4096),
            1.05 * one); // A row more takes another wave, of smaller tiles at best.
  EXPECT_LE(seconds(9 * 128 - 1, 12 * 256, 4096), one);
  EXPECT_NEAR(seconds(9 * 128, 12 * 256, 8192), 2 * one, one * 1e-9);
  // A product that fills few multiprocessors is far from the peak; a tiny one is bound by its call.
  EXPECT_GT(seconds(128, 128, 4096), 0.004 * one);
  EXPECT_LT(operatorTime(product(8, 8, 8, true), device).time, device.rates.call * 1.5);
}

TEST(OperatorTime, SmallIntensityIsBoundByMemory) {
  DeviceModel device = *builtInDevice("h100-sxm");
  OperatorTime thin = operatorTime(product(8192, 8192, 16, true), device);
  EXPECT_FALSE(thin.byFlops);
  EXPECT_NEAR((thin.time - device.rates.call).value,
              (2 * 8192.0 * 16 + 8192.0 * 8192) * 2 / device.rates.operands.value, 1e-9);
  EXPECT_TRUE(operatorTime(product(8192, 8192, 8192, true), device).byFlops);
  // Attention on tensor cores, slower than products and far faster than elementwise arithmetic.
  OperatorTime attention =
      operatorTime({"attention", true, Flops(4 * 524288.0 * 4096 * 128), Bytes(1e8), 524288, 4096, 128}, device);
  EXPECT_GT(attention.time, Flops(4 * 524288.0 * 4096 * 128) / device.rates.arithmeticBf16);
  EXPECT_LT(attention.time, Flops(4 * 524288.0 * 4096 * 128) / device.rates.arithmetic);
}

} // namespace
} // namespace maestro::cost_models
