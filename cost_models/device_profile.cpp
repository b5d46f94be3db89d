#include "cost_models/device_profile.h"

#include "cost_models/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace maestro::cost_models {
namespace {

std::string ratesText(int threads, const DeviceRates &r) {
  return fmt::format("  - {{threads: {}, arithmetic: {:.4g} GFLOP/s, arithmetic_bf16: {:.4g} GFLOP/s, operands: {:.4g} "
                     "GB/s, call: {:.4g} us, "
                     "stream: {:.4g} GB/s, channel: {:.4g} GB/s, wake: {:.4g} us, task: {:.4g} us, step: {:.4g} us, "
                     "host: {:.4g} us, alone: {:.4g}, together: {:.4g}, update: {:.4g}}}\n",
                     threads, r.arithmetic.value * 1e-9, r.arithmeticBf16.value * 1e-9, r.operands.value * 1e-9,
                     r.call.value * 1e6, r.stream.value * 1e-9, r.channel.value * 1e-9, r.wake.value * 1e6,
                     r.task.value * 1e6, r.step.value * 1e6, r.host.value * 1e6, r.alone, r.together, r.update);
}

std::string gridPoints(const KernelCurves::Grid &grid) {
  std::string text;
  size_t place = 0;
  for (double m : grid.m)
    for (double n : grid.n)
      for (double k : grid.k)
        text += fmt::format("{}[{:.6g}, {:.6g}, {:.6g}, {:.4g}]", text.empty() ? "" : ", ", m, n, k,
                            2 * m * n * k / std::exp(grid.logRates[place++]));
  return text;
}

std::string curvesText(int threads, const KernelCurves &curves) {
  std::string text;
  for (const auto &[name, grid] : curves.allGrids())
    text += fmt::format("  - {{kernel: {}, threads: {}, points: [{}]}}\n", name, threads, gridPoints(grid));
  for (const auto &[name, samples] : curves.allCurves()) {
    std::string points;
    for (const CurveSample &sample : samples)
      points += fmt::format("{}[{:.6g}, {:.4g}]", points.empty() ? "" : ", ", sample.bytes, sample.time.value);
    text += fmt::format("  - {{kernel: {}, threads: {}, points: [{}]}}\n", name, threads, points);
  }
  return text;
}

} // namespace

DeviceModel builtInCpu(int threads) {
  DeviceModel device;
  device.name = fmt::format("CPU, {} thread{}", threads, threads == 1 ? "" : "s");
  device.rates = cpuRates(threads);
  device.source = "assumed: 100 GFLOP/s f32, 200 bf16 and 8 GB/s a thread";
  return device;
}

DeviceModel deviceFor(const DeviceProfile &profile, int threads) {
  DeviceModel device = builtInCpu(threads);
  if (profile.devices.empty())
    return device;
  const ProfiledDevice *nearest = &profile.devices.front();
  for (const ProfiledDevice &candidate : profile.devices)
    if (std::abs(candidate.threads - threads) < std::abs(nearest->threads - threads))
      nearest = &candidate;
  double scale = static_cast<double>(threads) / nearest->threads;
  device.rates = nearest->rates;
  device.bf16Products = profile.bf16Products;
  for (FlopsPerSecond *rate : {&device.rates.arithmetic, &device.rates.arithmeticBf16})
    *rate *= scale;
  for (BytesPerSecond *rate : {&device.rates.operands, &device.rates.stream})
    *rate *= scale;
  device.curves = std::make_shared<const KernelCurves>(nearest->curves);
  device.curveScale = 1 / scale;
  device.atOnce = static_cast<uint32_t>(std::max(1, profile.devices.back().threads / threads));
  device.source =
      fmt::format("profile of {} with {} thread{}", profile.name, nearest->threads, nearest->threads == 1 ? "" : "s");
  return device;
}

DeviceModel gpuFor(const DeviceProfile &profile) {
  DeviceModel device;
  device.kind = profile.kind;
  device.name = profile.name;
  device.kept = profile.kept;
  device.memoryBytes = profile.memoryBytes - std::min(device.keptBytes(), profile.memoryBytes);
  device.multiprocessors = profile.multiprocessors;
  device.rates = profile.devices.front().rates;
  if (std::optional<DeviceModel> sheet = builtInDevice(profile.kind)) {
    device.peak = sheet->peak;
    device.peakBf16 = sheet->peakBf16;
  }
  device.curves = std::make_shared<const KernelCurves>(profile.devices.front().curves);
  device.source = "profile of " + profile.name;
  return device;
}

static std::string gpuText(const DeviceProfile &profile) {
  std::string text =
      fmt::format("memory: {} B\nmultiprocessors: {}\nkept: # Of the memory, beside what plans may use.\n",
                  profile.memoryBytes, profile.multiprocessors);
  for (const KeptMemory &own : profile.kept)
    text += fmt::format("  - {{what: \"{}\", memory: {} B}}\n", own.what, own.bytes);
  return text;
}

std::string toYaml(const DeviceProfile &profile) {
  bool isGpu = profile.multiprocessors > 0;
  std::string text = fmt::format("# Written by maestro-profile: what {} of this machine does{}.\n"
                                 "# Use it in cluster.yaml: `device: path/of/this/file`.\n",
                                 isGpu ? "a GPU" : "a device", isGpu ? "" : ", while all cores work");
  text += fmt::format("kind: {}\nname: \"{}\"\n", profile.kind, profile.name);
  text += isGpu
              ? gpuText(profile)
              : fmt::format("bf16_products: {}\n", profile.bf16Products == Bf16Products::Native ? "native" : "widened");
  text += "rates:\n";
  for (const ProfiledDevice &device : profile.devices)
    text += ratesText(device.threads, device.rates);
  text += "# Grids: [m, n, k, seconds], for products m x k by k x n; attention: queries of all heads, keys, depth; "
          "rows: rows, width, 1.\n"
          "# Curves: [bytes, seconds]. Calls, as the plans that were given make them: [m or rows, n or width, k or 1, "
          "bytes, seconds].\ncurves:\n";
  for (const ProfiledDevice &device : profile.devices)
    text += curvesText(device.threads, device.curves);
  for (const ProfiledDevice &device : profile.devices)
    for (const auto &[name, calls] : device.curves.allCalls())
      text += callsLine(device.threads, name, calls.samples);
  return text;
}

std::string callsLine(int threads, const std::string &name, const std::vector<CallSample> &samples) {
  std::string text;
  for (const CallSample &s : samples)
    text += fmt::format("{}[{:.6g}, {:.6g}, {:.6g}, {:.6g}, {:.4g}]", text.empty() ? "" : ", ", s.m, s.n, s.k, s.bytes,
                        s.time.value);
  return fmt::format("  - {{kernel: {}, threads: {}, calls: [{}]}}\n", name, threads, text);
}

bool isCallsLine(std::string_view line) {
  return line.starts_with("  - {kernel: ") && line.find(", calls: [") != std::string_view::npos;
}

} // namespace maestro::cost_models
