#include "cost_models/device_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace maestro::cost_models {

namespace {

double predict(const Measurement &m, const DeviceRates &rates) {
  return (Flops(m.flops) / rates.arithmetic + Bytes(m.bytes) / rates.operands + rates.call).value;
}

double squaredError(const std::vector<Measurement> &measured, int threads, const DeviceRates &rates) {
  double error = 0;
  for (const Measurement &m : measured)
    if (m.threads == threads && m.seconds > 0) {
      double ratio = std::log(predict(m, rates) / m.seconds);
      error += ratio * ratio;
    }
  return error;
}

} // namespace

/// Two numbers: tried on a grid, which is then made finer around the best.
void fitRates(const std::vector<Measurement> &measured, int threads, DeviceRates &rates) {
  constexpr int kHalf = 24;
  double flops = std::sqrt(1e8 * 1e15), bytes = std::sqrt(1e8 * 1e14), span = 9; // Decades around the middle are e^±9.
  for (int round = 0; round < 8; ++round, span *= 0.25) {
    DeviceRates best = rates;
    double least = std::numeric_limits<double>::infinity();
    for (int i = -kHalf; i <= kHalf; ++i)
      for (int j = -kHalf; j <= kHalf; ++j) {
        DeviceRates tried = rates;
        tried.arithmetic = FlopsPerSecond(flops * std::exp(span * i / kHalf));
        tried.operands = BytesPerSecond(bytes * std::exp(span * j / kHalf));
        double error = squaredError(measured, threads, tried);
        if (error < least) {
          least = error;
          best = tried;
        }
      }
    rates = best;
    flops = best.arithmetic.value;
    bytes = best.operands.value;
  }
}

DeviceRates ratesFor(const DeviceProfile &profile, int threads) {
  if (profile.rates.empty())
    return cpuRates(threads);
  const ProfiledRates *nearest = &profile.rates.front();
  for (const ProfiledRates &candidate : profile.rates)
    if (std::abs(candidate.threads - threads) < std::abs(nearest->threads - threads))
      nearest = &candidate;
  DeviceRates rates = nearest->rates;
  double scale = static_cast<double>(threads) / nearest->threads;
  rates.arithmetic *= scale;
  rates.operands *= scale;
  rates.stream *= scale;
  return rates;
}

std::string toYaml(const DeviceProfile &profile) {
  std::string text = "# Written by maestro-profile: what a device of this machine does, while all cores work.\n"
                     "# Use it in cluster.yaml: `device: path/of/this/file`.\n";
  text += fmt::format("kind: {}\nname: \"{}\"\nrates:\n", profile.kind, profile.name);
  for (const ProfiledRates &entry : profile.rates) {
    const DeviceRates &r = entry.rates;
    text += fmt::format("  - {{threads: {}, arithmetic: {:.4g} GFLOP/s, operands: {:.4g} GB/s, call: {:.4g} us, "
                        "stream: {:.4g} GB/s, channel: {:.4g} GB/s, wake: {:.4g} us}}\n",
                        entry.threads, r.arithmetic.value * 1e-9, r.operands.value * 1e-9, r.call.value * 1e6,
                        r.stream.value * 1e-9, r.channel.value * 1e-9, r.wake.value * 1e6);
  }
  text += "measured:\n";
  for (const Measurement &m : profile.measured) {
    DeviceRates rates = ratesFor(profile, m.threads);
    text += fmt::format("  - {{what: \"{}\", threads: {}, seconds: {:.4g}, predicted: {:.4g}}}\n", m.what, m.threads, m.seconds,
                        predict(m, rates));
  }
  return text;
}

} // namespace maestro::cost_models
