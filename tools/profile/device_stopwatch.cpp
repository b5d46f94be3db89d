#include "tools/profile/device_stopwatch.h"

#include "base/dtype.h"
#include "tools/profile/stopwatch.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>

namespace maestro::profile {
namespace {

using executor::Address;
using executor::CallDescription;
using executor::Queue;

constexpr uint64_t kAlignment = 256; ///< Of operands, as devices like it best.
constexpr uint64_t kNoiseBytes = uint64_t{1} << 20;

/// Of bf16 between −1 and 1: two of them are an f32 between −1 and 1.
std::vector<uint16_t> noiseValues() {
  std::mt19937 random(1);
  std::vector<uint16_t> values(kNoiseBytes / sizeof(uint16_t));
  for (uint16_t &value : values)
    value = BFloat16(std::uniform_real_distribution<float>(-1, 1)(random)).bits;
  return values;
}

/// For so long, and some times at least, but on no device for ever.
bool goesOn(double begin, double seconds, const std::vector<double> &times) {
  constexpr size_t kEnough = 10;
  constexpr double kPatience = 10;
  double passed = now() - begin;
  return times.empty() || passed < seconds || (times.size() < kEnough && passed < kPatience * seconds);
}

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

DeviceStopwatch::DeviceStopwatch(double seconds, std::unique_ptr<executor::Device> device)
    : seconds(seconds), threads(1), others(0), device(std::move(device)) {}

/// Its operands lie behind each other from `offset` on, which moves behind them.
CallDescription DeviceStopwatch::describe(Subject subject, uint64_t &offset) {
  const Subject &kept = subjects.emplace_back(std::move(subject));
  CallDescription call{kept.kernel, kept.attributes, kept.inputs, kept.outputs, {}, {}, {}};
  auto place = [&](const std::vector<kernels::TensorType> &types, std::vector<executor::OperandRef> &operands) {
    for (const kernels::TensorType &type : types) {
      operands.push_back(type.present ? executor::OperandRef{0, offset} : executor::OperandRef{});
      offset += type.present ? (type.bytes() + kAlignment - 1) / kAlignment * kAlignment : 0;
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

/// Nothing is given back: it doubles.
Status DeviceStopwatch::makePool(uint64_t bytes) {
  if (bytes <= poolBytes)
    return Status();
  if (poolBytes == 0) {
    MAESTRO_ASSIGN(noise, device->allocate(kNoiseBytes, "random numbers"));
    std::vector<uint16_t> values = noiseValues();
    device->write(Queue::Compute, noise, values.data(), kNoiseBytes);
    MAESTRO_TRY(device->drain());
  }
  poolBytes = std::max(bytes, 2 * poolBytes);
  MAESTRO_ASSIGN(pool, device->allocate(poolBytes, "operands"));
  return Status();
}

/// What a call before has left is replaced: products of products grow without end. Indices and masks are zero.
void DeviceStopwatch::refresh(const CallDescription &call) {
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    uint64_t bytes = call.inputs[i].region == executor::OperandRef::kAbsent ? 0 : call.inputTypes[i].bytes();
    Address to = pool + call.inputs[i].offset;
    if (bytes > 0 && !isFloat(call.inputTypes[i].dtype))
      device->fillZero(Queue::Compute, to, bytes);
    else
      for (uint64_t at = 0; at < bytes; at += kNoiseBytes)
        device->copy(Queue::Compute, to + at, noise, std::min(kNoiseBytes, bytes - at));
  }
}

Result<double> DeviceStopwatch::secondsOf(const Subject &subject, double secondsEach) {
  constexpr int kRounds = 3;
  constexpr double kMostCalls = 1000;
  uint64_t bytes = 0;
  CallDescription call = describe(subject, bytes);
  MAESTRO_TRY(makePool(bytes));
  std::array<Address, 1> bases{pool};
  MAESTRO_ASSIGN(std::unique_ptr<executor::PreparedProgram> program, device->prepare({&call, 1}));
  refresh(call);
  auto time = [&](double count) -> Result<double> {
    double begin = now();
    for (int i = 0; i < static_cast<int>(count); ++i)
      device->launch(*program, bases, 0);
    MAESTRO_TRY(device->drain());
    return (now() - begin) / count;
  };
  MAESTRO_TRY(time(1).takeStatus());
  MAESTRO_ASSIGN(double once, time(1));
  double count = std::clamp(std::floor(secondsEach / once), 1.0, kMostCalls);
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    MAESTRO_ASSIGN(times.emplace_back(), time(count));
  }
  return median(std::move(times));
}

Result<ChannelTiming> DeviceStopwatch::hostChannel(uint64_t bytes) {
  constexpr int kRounds = 5;
  MAESTRO_ASSIGN(Address memory, device->allocate(bytes, "what passes to and from the host"));
  std::vector<std::byte> host(bytes);
  std::vector<double> there, back, wakes;
  for (int round = 0; round < kRounds; ++round) {
    double begin = now();
    device->write(Queue::Copy, memory, host.data(), bytes);
    MAESTRO_TRY(device->drain());
    there.push_back(now() - begin);
    begin = now();
    device->read(Queue::Copy, host.data(), memory, bytes);
    MAESTRO_TRY(device->drain());
    back.push_back(now() - begin);
    begin = now();
    device->put(Queue::Copy, memory, std::span(host).first(8));
    MAESTRO_TRY(device->drain());
    wakes.push_back(now() - begin);
  }
  double slower = std::max(median(std::move(there)), median(std::move(back)));
  return ChannelTiming{static_cast<double>(bytes) / slower, median(std::move(wakes))};
}

Result<double> DeviceStopwatch::callSeconds() {
  constexpr size_t kCalls = 256;
  std::array<int64_t, 1> one{1};
  uint64_t bytes = 0;
  kernels::TensorType scalar(DType::F32, one);
  std::vector<CallDescription> calls(kCalls, describe({"add", "add", {}, {scalar, scalar}, {scalar}, {}}, bytes));
  MAESTRO_ASSIGN(Loaded loaded, load(calls, bytes));
  std::vector<double> times;
  for (double begin = now(); goesOn(begin, seconds, times);) {
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
  for (double begin = now(); goesOn(begin, 2 * seconds, times[0]);)
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
  for (double begin = now(); goesOn(begin, 2 * seconds, times);) {
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
