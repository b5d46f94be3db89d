#include "cost_models/device_profile.h"

#include <gtest/gtest.h>

namespace maestro::cost_models {
namespace {

TEST(DeviceProfile, TheFitFindsTheRatesBehindTimes) {
  DeviceRates rates;
  rates.call = microseconds(2);
  std::vector<Measurement> measured;
  for (double flops : {0.0, 1e6, 1e8, 3e9})
    for (double bytes : {1e4, 1e6, 3e7})
      measured.push_back({"", 2, flops, bytes, flops / 150e9 + bytes / 20e9 + 2e-6});
  measured.push_back({"another number of threads", 1, 1e9, 1e6, 1});
  fitRates(measured, 2, rates);
  EXPECT_NEAR(ratio(rates.arithmetic, FlopsPerSecond(150e9)), 1, 0.01);
  EXPECT_NEAR(ratio(rates.operands, gigabytesPerSecond(20)), 1, 0.01);
  EXPECT_EQ(rates.call, microseconds(2));
}

TEST(DeviceProfile, OtherNumbersOfThreadsAreInProportion) {
  DeviceProfile profile;
  EXPECT_EQ(ratesFor(profile, 3).arithmetic, cpuRates(3).arithmetic); // Nothing measured: built in.
  profile.rates = {{1, {FlopsPerSecond(100e9), gigabytesPerSecond(10), microseconds(1), gigabytesPerSecond(8)}},
                   {4, {FlopsPerSecond(300e9), gigabytesPerSecond(20), microseconds(3), gigabytesPerSecond(16)}}};
  EXPECT_EQ(ratesFor(profile, 1).arithmetic, FlopsPerSecond(100e9));
  EXPECT_EQ(ratesFor(profile, 2).arithmetic, FlopsPerSecond(200e9));
  EXPECT_EQ(ratesFor(profile, 8).arithmetic, FlopsPerSecond(600e9));
  EXPECT_EQ(ratesFor(profile, 8).stream, gigabytesPerSecond(32));
  EXPECT_EQ(ratesFor(profile, 8).call, microseconds(3)); // No faster with more threads.
}

} // namespace
} // namespace maestro::cost_models
