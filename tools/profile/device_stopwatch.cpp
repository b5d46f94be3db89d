#include "tools/profile/device_stopwatch.h"

#include "tools/profile/stopwatch.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

namespace maestro::profile {
namespace {

using executor::Address;
using executor::CallDescription;

} // namespace

BusyProcessors::BusyProcessors(int count) {
  for (int i = 0; i < count; ++i)
    threads.emplace_back([this] {
      while (!stops.load(std::memory_order_relaxed)) {
      }
    });
}

BusyProcessors::~BusyProcessors() {
  stops = true;
  for (std::thread &thread : threads)
    thread.join();
}

DeviceStopwatch::DeviceStopwatch(double seconds, int threads, int others)
    : seconds(seconds), threads(threads), others(others), library(kernels::createCpuLibrary()) {
  executor::CpuDeviceOptions options;
  options.threads = threads;
  options.onSign = [signs = std::make_shared<std::atomic<uint64_t>>(0)](executor::DeviceSign) {
    signs->fetch_add(1, std::memory_order_relaxed);
  };
  device = executor::createCpuDevice(library, options);
}

/// Its operands lie behind each other from `offset` on, which moves behind them.
CallDescription DeviceStopwatch::describe(Subject subject, uint64_t &offset) {
  const Subject &kept = subjects.emplace_back(std::move(subject));
  CallDescription call{kept.kernel, kept.attributes, kept.inputs, kept.outputs, {}, {}, {}};
  auto place = [&](const std::vector<kernels::TensorType> &types, std::vector<executor::OperandRef> &operands) {
    for (const kernels::TensorType &type : types) {
      operands.push_back(type.present ? executor::OperandRef{0, offset} : executor::OperandRef{});
      offset += type.present ? (type.bytes() + 63) / 64 * 64 : 0;
    }
  };
  place(call.inputTypes, call.inputs);
  place(call.outputTypes, call.outputs);
  return call;
}

Result<DeviceStopwatch::Loaded> DeviceStopwatch::load(std::span<const CallDescription> calls, uint64_t bytes) {
  Loaded loaded;
  loaded.bases.resize(1);
  MAESTRO_ASSIGN(loaded.bases[0], device->allocate(std::max<uint64_t>(bytes, 64), "operands"));
  MAESTRO_ASSIGN(loaded.program, device->prepare(calls));
  return loaded;
}

/// Products that take together some `wanted` seconds: of all of the device's threads, as most of a task does, or of
/// one.
Result<DeviceStopwatch::Loaded> DeviceStopwatch::loadWork(double wanted, bool ofAllThreads) {
  constexpr int64_t kSmall = 64, kLarge = 192; // Enough for several threads.
  int64_t side = ofAllThreads && threads > 1 ? kLarge : kSmall;
  constexpr size_t kTried = 64;
  uint64_t bytes = 0;
  CallDescription call = describe(product(DType::F32, side, side, side), bytes);
  std::vector<CallDescription> calls(kTried, call);
  MAESTRO_ASSIGN(Loaded loaded, load(calls, bytes));
  double took = 0;
  for (int i = 0; i < 3; ++i) {
    double begin = now();
    device->launch(*loaded.program, loaded.bases, 0);
    MAESTRO_TRY(device->drain());
    took = now() - begin;
  }
  calls.resize(std::clamp<size_t>(static_cast<size_t>(wanted * kTried / took), 1, 100'000), call);
  MAESTRO_ASSIGN(loaded.program, device->prepare(calls));
  return loaded;
}

Result<double> DeviceStopwatch::callSeconds() {
  constexpr size_t kCalls = 256;
  std::array<int64_t, 1> one{1};
  uint64_t bytes = 0;
  kernels::TensorType scalar(DType::F32, one);
  std::vector<CallDescription> calls(kCalls, describe({"add", "add", {}, {scalar, scalar}, {scalar}, {}}, bytes));
  MAESTRO_ASSIGN(Loaded loaded, load(calls, bytes));
  std::vector<double> times;
  for (double begin = now(); now() - begin < seconds || times.size() < 10;) {
    constexpr int kLaunches = 16; // What it takes to begin is little beside them.
    double start = now();
    for (int i = 0; i < kLaunches; ++i)
      device->launch(*loaded.program, loaded.bases, 0);
    MAESTRO_TRY(device->drain());
    times.push_back((now() - start) / (kLaunches * static_cast<double>(kCalls)));
  }
  return undisturbed(std::move(times));
}

Result<double> DeviceStopwatch::taskSeconds() {
  constexpr size_t kTasks = 50, kData = 4096;
  constexpr double kTask = 200e-6;
  MAESTRO_ASSIGN(Loaded work, loadWork(kTask, true));
  BusyProcessors busy(others);
  std::vector<char> data(kData);
  executor::Span stamp;
  float loss = 0;
  std::array<std::vector<double>, 2> times;
  for (double begin = now(); now() - begin < 2 * seconds || times[0].size() < 10;)
    for (bool whole : {false, true}) {
      double start = now();
      for (size_t task = 0; task < kTasks; ++task) {
        if (whole) {
          device->begin(executor::Queue::Compute, stamp);
          device->write(executor::Queue::Compute, work.bases[0], data.data(), kData);
        }
        device->launch(*work.program, work.bases, 0);
        if (!whole)
          continue;
        device->read(executor::Queue::Compute, &loss, work.bases[0], sizeof loss);
        device->end(executor::Queue::Compute, stamp);
        for (uint64_t little : {256, 128}) // Sent; given back.
          device->copy(executor::Queue::Compute, work.bases[0], work.bases[0] + 1024, little);
      }
      MAESTRO_TRY(device->drain());
      times[whole].push_back((now() - start) / kTasks);
    }
  return std::max(0.0, median(std::move(times[1])) - median(std::move(times[0])));
}

Result<double> DeviceStopwatch::stepSeconds() {
  constexpr double kWork = 3e-3; // So long that who waits for it sleeps.
  MAESTRO_ASSIGN(Loaded work, loadWork(kWork, true));
  MAESTRO_ASSIGN(Loaded little, loadWork(1e-6, false));
  BusyProcessors busy(others);
  std::mutex mutex;
  std::condition_variable changed;
  int asked = 0, done = 0;
  bool stops = false;
  Status failure;
  executor::Span span; // The work, on the device's thread.
  std::vector<double> times;
  auto wait = [&] {
    Status status = device->drain();
    if (!status.isOk())
      failure = std::move(status);
  };
  auto launch = [&](const Loaded &what) {
    device->launch(*what.program, what.bases, 0);
    wait();
  };
  std::thread rank([&] {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return asked > done || stops; });
      if (stops)
        return;
      lock.unlock();
      launch(little); // Counts.
      device->begin(executor::Queue::Compute, span);
      device->launch(*work.program, work.bases, 0);
      device->end(executor::Queue::Compute, span);
      wait();
      launch(little); // The norm.
      launch(little); // The update.
      lock.lock();
      ++done;
      changed.notify_all();
    }
  });
  for (double begin = now(); now() - begin < 2 * seconds || times.size() < 10;) {
    double start = now();
    std::unique_lock lock(mutex);
    ++asked;
    changed.notify_all();
    changed.wait(lock, [&] { return done == asked; });
    times.push_back(now() - start - static_cast<double>(span.endNs - span.startNs) * 1e-9);
  }
  {
    std::lock_guard lock(mutex);
    stops = true;
  }
  changed.notify_all();
  rank.join();
  if (!failure.isOk())
    return failure;
  return median(std::move(times));
}

ChannelTiming timeChannel() {
  constexpr size_t kBytes = size_t{4} << 20;
  std::vector<char> from(kBytes, 1), to(kBytes, 0);
  std::vector<double> copies, wakes;
  for (int i = 0; i < 50; ++i) {
    double begin = now();
    std::memcpy(to.data(), from.data(), kBytes);
    asm volatile("" : : "r"(to.data()) : "memory"); // Compilers drop copies that nobody reads.
    copies.push_back(now() - begin);
  }
  std::atomic<int> word{0};
  std::atomic<double> sent{0};
  std::thread sleeper([&] {
    for (int i = 0; i < 200; ++i) {
      word.wait(i);
      wakes.push_back(now() - sent.load());
    }
  });
  for (int i = 0; i < 200; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(500)); // It has gone to sleep.
    sent = now();
    ++word;
    word.notify_one();
  }
  sleeper.join();
  return {static_cast<double>(kBytes) / undisturbed(std::move(copies)), median(std::move(wakes))};
}

} // namespace maestro::profile
