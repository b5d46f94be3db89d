#include "cost_models/device_profile.h"

#include <gtest/gtest.h>

namespace maestro::cost_models {
namespace {

TEST(DeviceProfile, TheFitFindsTheRatesBehindTimes) {
  DeviceRates rates;
  rates.callSeconds = 2e-6;
  std::vector<Measurement> measured;
  for (double flops : {0.0, 1e6, 1e8, 3e9})
    for (double bytes : {1e4, 1e6, 3e7})
      measured.push_back({"", 2, flops, bytes, flops / 150e9 + bytes / 20e9 + 2e-6});
  measured.push_back({"another number of threads", 1, 1e9, 1e6, 1});
  fitRates(measured, 2, rates);
  EXPECT_NEAR(rates.flopsPerSecond / 150e9, 1, 0.01);
  EXPECT_NEAR(rates.bytesPerSecond / 20e9, 1, 0.01);
  EXPECT_EQ(rates.callSeconds, 2e-6);
}

TEST(DeviceProfile, OtherNumbersOfThreadsAreInProportion) {
  DeviceProfile profile;
  EXPECT_EQ(ratesFor(profile, 3).flopsPerSecond, cpuRates(3).flopsPerSecond); // Nothing measured: built in.
  profile.rates = {{1, {100e9, 10e9, 1e-6, 8e9, 5e9, 1e-5}}, {4, {300e9, 20e9, 3e-6, 16e9, 6e9, 2e-5}}};
  EXPECT_EQ(ratesFor(profile, 1).flopsPerSecond, 100e9);
  EXPECT_EQ(ratesFor(profile, 2).flopsPerSecond, 200e9);
  EXPECT_EQ(ratesFor(profile, 8).flopsPerSecond, 600e9);
  EXPECT_EQ(ratesFor(profile, 8).streamBytesPerSecond, 32e9);
  EXPECT_EQ(ratesFor(profile, 8).callSeconds, 3e-6); // No faster with more threads.
}

} // namespace
} // namespace maestro::cost_models
