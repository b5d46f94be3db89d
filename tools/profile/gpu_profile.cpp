#include "tools/profile/gpu_profile.h"

#include "base/log.h"
#include "cost_models/devices.h"
#include "cuda/context.h"
#include "executor/device/cuda/cuda_device.h"
#include "tools/profile/device_stopwatch.h"
#include "tools/profile/stopwatch.h"
#include "tools/profile/subjects.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace maestro::profile {
namespace {

using cost_models::Bytes;
using cost_models::BytesPerSecond;
using cost_models::Flops;
using cost_models::Seconds;

constexpr int kGpu = 0;
constexpr double kUsualSecondsEach = 0.02;
/// No call takes longer than about so many times what is measured for: sizes shrink until that holds.
constexpr double kLongest = 2.5;
/// For each rate of calls, tasks and steps, so many times what a kernel and size have.
constexpr double kRates = 15;
/// Operands take so much memory at most, or a quarter of what is free.
constexpr uint64_t kMaxOperands = uint64_t{4} << 30;
/// What passes to and from the host takes about as long as is measured for, where the bus is no faster than this.
constexpr double kFastBus = 50e9;

double flopsOf(const Subject &subject) {
  return subject.sizes.size() == 3 ? 2 * subject.sizes[0] * subject.sizes[1] * subject.sizes[2] : 0;
}

class GpuProfiler {
public:
  static Result<GpuProfiler> create(double secondsEach) {
    GpuProfiler profiler(secondsEach == 0 ? kUsualSecondsEach : secondsEach);
    MAESTRO_ASSIGN(profiler.context, cuda::Context::open(kGpu));
    executor::CudaDeviceOptions options;
    options.device = kGpu;
    MAESTRO_ASSIGN(auto device, executor::createCudaDevice(options));
    profiler.stopwatch = std::make_unique<DeviceStopwatch>(kRates * profiler.secondsEach, std::move(device));
    return profiler;
  }

  Result<cost_models::DeviceProfile> run() {
    cost_models::DeviceProfile profile;
    MAESTRO_TRY(describe(profile));
    uint64_t room = std::min(kMaxOperands, freeBytes / 4);
    MAESTRO_ASSIGN(int64_t shrink, shrinkToFit());
    for (const Subject &subject : gpuSubjects(shrink))
      if (operandBytes(subject) <= room)
        MAESTRO_TRY(measure(subject));
    cost_models::ProfiledDevice &device = profile.devices.emplace_back();
    for (auto &[name, samples] : grids)
      MAESTRO_TRY(device.curves.addGrid(name, std::move(samples)));
    for (auto &[name, samples] : curves)
      MAESTRO_TRY(device.curves.addCurve(name, std::move(samples)));
    MAESTRO_TRY(setRates(device));
    return profile;
  }

private:
  explicit GpuProfiler(double secondsEach) : secondsEach(secondsEach) {}

  /// Name, memory, and what of it is taken before a rank has any.
  Status describe(cost_models::DeviceProfile &profile) {
    const cuda::Driver &driver = context->driver();
    std::array<char, 256> name{};
    MAESTRO_CUDA_TRY(driver, cuDeviceGetName, name.data(), static_cast<int>(name.size()), context->device());
    profile.name = name.data();
    std::optional<std::string> kind = cost_models::builtInOf(profile.name);
    if (!kind)
      return Status::invalidInput(fmt::format("{}: plans are made for {} alone; --device cpu measures the processors",
                                              context->name(), fmt::join(cost_models::builtInDevices(), ", ")));
    profile.kind = *kind;
    profile.multiprocessors = static_cast<uint32_t>(context->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
    MAESTRO_TRY(stopwatch->secondsOf(product(DType::BF16, 256, 256, 256), secondsEach).takeStatus()); // It loads late.
    size_t free = 0, total = 0;
    context->makeCurrent();
    MAESTRO_CUDA_TRY(driver, cuMemGetInfo, &free, &total);
    freeBytes = free;
    profile.memoryBytes = total;
    uint64_t taken = total - free - std::min<uint64_t>(stopwatch->allocatedBytes(), total - free);
    profile.kept = {{"context, kernels and product library", std::max<uint64_t>(taken, 1), "measured"}};
    return Status();
  }

  static uint64_t operandBytes(const Subject &subject) {
    uint64_t bytes = 0;
    for (const auto &list : {subject.inputs, subject.outputs})
      for (const kernels::TensorType &type : list)
        bytes += type.present ? (type.bytes() + 255) / 256 * 256 : 0;
    return bytes;
  }

  /// By how much all sizes shrink, so that the longest product of f32 and the longest addition take no longer than they
  /// may.
  Result<int64_t> shrinkToFit() {
    constexpr int64_t kMost = 1024, kFirst = 16, kLast = 4096;
    double flops = 0, bytes = 0, most = kLongest * secondsEach, flopRate = 0, byteRate = 0, took = 0;
    for (const Subject &subject : gpuSubjects(1)) {
      flops = std::max(flops, flopsOf(subject));
      bytes = std::max(bytes, subject.kernel == "add" ? static_cast<double>(exactBytes(subject)) : 0);
    }
    for (int64_t size = kFirst; size <= kLast && took < most; size *= 4) { // Larger as long as that is little work.
      MAESTRO_ASSIGN(took, stopwatch->secondsOf(product(DType::F32, size, size, size), secondsEach));
      flopRate = std::max(flopRate, 2 * std::pow(static_cast<double>(size), 3) / took);
    }
    took = 0;
    for (int64_t size = kFirst; size <= kLast && took < most; size *= 4) {
      Subject subject = addition(size, size);
      MAESTRO_ASSIGN(took, stopwatch->secondsOf(subject, secondsEach));
      byteRate = std::max(byteRate, static_cast<double>(exactBytes(subject)) / took);
    }
    int64_t shrink = 1;
    auto isLonger = [&](double by) {
      return flops / (by * by * by) > flopRate * most || bytes / (by * by) > byteRate * most;
    };
    while (isLonger(static_cast<double>(shrink)) && shrink < kMost)
      shrink *= 2;
    return shrink;
  }

  Status measure(const Subject &subject) {
    MAESTRO_ASSIGN(double seconds, stopwatch->secondsOf(subject, secondsEach));
    const std::vector<double> &s = subject.sizes;
    if (s.size() == 3)
      grids[subject.curve].push_back({s[0], s[1], s[2], Seconds(seconds)});
    else
      curves[subject.curve].push_back({s.empty() ? static_cast<double>(exactBytes(subject)) : s[0], Seconds(seconds)});
    return Status();
  }

  static uint64_t exactBytes(const Subject &subject) {
    uint64_t bytes = 0;
    for (const auto &list : {subject.inputs, subject.outputs})
      for (const kernels::TensorType &type : list)
        bytes += type.present ? type.bytes() : 0;
    return bytes;
  }

  /// For kernels without a curve: the best rate of products, and that of additions of the largest tensors.
  Status setRates(cost_models::ProfiledDevice &device) {
    cost_models::DeviceRates &rates = device.rates;
    auto best = [&](const char *name) {
      double most = 0;
      for (double rate : device.curves.allGrids().at(name).logRates)
        most = std::max(most, std::exp(rate));
      return cost_models::FlopsPerSecond(most);
    };
    rates.arithmetic = best("matmul f32");
    rates.arithmeticBf16 = best("matmul bf16");
    const cost_models::CurveSample &largest = device.curves.allCurves().at("add").back();
    rates.operands = rates.stream = Bytes(largest.bytes) / largest.time;
    MAESTRO_ASSIGN(rates.call.value, stopwatch->callSeconds());
    MAESTRO_ASSIGN(rates.task.value, stopwatch->taskSeconds());
    MAESTRO_ASSIGN(rates.step.value, stopwatch->stepSeconds());
    MAESTRO_ASSIGN(ChannelTiming channel, stopwatch->hostChannel(static_cast<uint64_t>(kFastBus * secondsEach)));
    rates.channel = BytesPerSecond(channel.bytesPerSecond);
    rates.wake = Seconds(channel.wakeSeconds);
    return Status();
  }

  double secondsEach;
  uint64_t freeBytes = 0;
  std::unique_ptr<cuda::Context> context;
  std::unique_ptr<DeviceStopwatch> stopwatch;
  std::map<std::string, std::vector<cost_models::GridSample>> grids;
  std::map<std::string, std::vector<cost_models::CurveSample>> curves;
};

} // namespace

bool hasGpu() { return cuda::loadDriver().isOk() && cuda::Context::count().isOk(); }

Result<cost_models::DeviceProfile> profileGpu(double secondsEach) {
  MAESTRO_ASSIGN(GpuProfiler profiler, GpuProfiler::create(secondsEach));
  return profiler.run();
}

} // namespace maestro::profile
