#include "tools/profile/stopwatch.h"

#include "executor/device/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <thread>
#include <unistd.h>

namespace maestro::profile {
namespace {

double secondsOf(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Free {
  void operator()(void *memory) const { std::free(memory); }
};

/// A prepared call with sets of operands, taken in turn: zeros, which every kernel accepts.
class Call {
public:
  static Result<Call> prepare(const kernels::Library &library, const Subject &subject, int threads) {
    Call call;
    MAESTRO_ASSIGN(call.kernel, library.prepare({subject.kernel, kernels::Attributes(subject.attributes), subject.inputs,
                                                 subject.outputs, threads}));
    if (!call.kernel)
      return Status::internal("no kernel '" + subject.kernel + "'");
    for (const auto *list : {&subject.inputs, &subject.outputs})
      for (const kernels::TensorType &type : *list)
        call.bytes += type.present ? type.bytes() : 0;
    call.sets.resize(std::clamp<size_t>(poolBytes(threads) / std::max<size_t>(call.bytes, 1), 1, kMostSets));
    for (Set &set : call.sets) {
      for (const kernels::TensorType &type : subject.inputs)
        set.inputs.push_back(call.add(type));
      for (const kernels::TensorType &type : subject.outputs)
        set.outputs.push_back(call.add(type));
    }
    call.scratch = call.block(call.kernel->scratchBytes());
    return call;
  }

  void run() { // The operands are valid, so that it cannot fail.
    Set &set = sets[next++ % sets.size()];
    if (!kernel->run(set.inputs, set.outputs, scratch).isOk())
      std::abort();
  }
  size_t setCount() const { return sets.size(); }
  size_t operandBytes() const { return bytes; }

private:
  static constexpr size_t kMostSets = 64;
  struct Set {
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
  };

  static size_t poolBytes(int threads) {
    long cache = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
    return static_cast<size_t>(cache > 0 ? cache : 1 << 20) * 2 * static_cast<size_t>(threads);
  }
  void *block(size_t size) {
    blocks.emplace_back(std::aligned_alloc(64, (size + 127) & ~size_t{63}));
    std::memset(blocks.back().get(), 0, size);
    return blocks.back().get();
  }
  void *add(const kernels::TensorType &type) { return type.present ? block(type.bytes()) : nullptr; }

  std::unique_ptr<kernels::Kernel> kernel;
  std::vector<std::unique_ptr<void, Free>> blocks;
  std::vector<Set> sets;
  void *scratch = nullptr;
  size_t bytes = 0, next = 0;
};

/// Of the lower tenth the highest: what other programs on the machine add is none of the kernel's time.
double undisturbed(std::vector<double> values) {
  auto place = values.begin() + static_cast<ptrdiff_t>(values.size() / 10);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

} // namespace

Result<Timing> Stopwatch::time(const Subject &subject, int threads, int groups) const {
  std::vector<Call> calls;
  for (int group = 0; group < groups; ++group) {
    MAESTRO_ASSIGN(Call call, Call::prepare(*library, subject, threads));
    calls.push_back(std::move(call));
  }
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (size_t group = 1; group < calls.size(); ++group)
    others.emplace_back([&, group] {
      while (!stop.load(std::memory_order_relaxed))
        calls[group].run();
    });
  // One thread's own time leaves out what other programs take; several threads wait for each other on the clock.
  clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  calls[0].run();
  std::vector<double> times;
  size_t turns = std::max<size_t>(calls[0].setCount(), 1);
  double begin = now();
  for (double last = secondsOf(clock); now() - begin < secondsEach || times.size() < 3;) {
    for (size_t turn = 0; turn < turns; ++turn)
      calls[0].run();
    double end = secondsOf(clock);
    times.push_back((end - last) / static_cast<double>(turns));
    last = end;
  }
  stop = true;
  for (std::thread &other : others)
    other.join();
  return Timing{undisturbed(std::move(times)), static_cast<double>(calls[0].operandBytes())};
}

Result<double> Stopwatch::productCallSeconds(int threads, int groups) const {
  std::vector<std::vector<Call>> calls(static_cast<size_t>(groups));
  for (std::vector<Call> &list : calls)
    for (const Subject &subject : productsInTurn()) {
      MAESTRO_ASSIGN(Call call, Call::prepare(*library, subject, threads));
      list.push_back(std::move(call));
    }
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (size_t group = 1; group < calls.size(); ++group)
    others.emplace_back([&, group] {
      for (size_t next = 0; !stop.load(std::memory_order_relaxed); ++next)
        calls[group][next % calls[group].size()].run();
    });
  constexpr size_t kRepeats = 8;
  clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  size_t runs = kRepeats * calls[0].size();
  std::vector<double> inTurn, alone;
  double begin = now();
  while (now() - begin < 2 * secondsEach || alone.size() < 10)
    for (bool turns : {true, false}) {
      double start = secondsOf(clock);
      for (size_t i = 0; i < runs; ++i)
        calls[0][turns ? i % calls[0].size() : i / kRepeats].run();
      (turns ? inTurn : alone).push_back((secondsOf(clock) - start) / static_cast<double>(runs));
    }
  stop = true;
  for (std::thread &other : others)
    other.join();
  return std::max(0.0, undisturbed(std::move(inTurn)) - undisturbed(std::move(alone)));
}

Result<double> Stopwatch::callSeconds(int threads) const {
  constexpr size_t kCalls = 256;
  executor::CpuDeviceOptions options;
  options.threads = threads;
  std::atomic<uint64_t> signs{0};
  options.onKernel = [&signs] { signs.fetch_add(1, std::memory_order_relaxed); };
  auto device = executor::createCpuDevice(library, options);
  std::vector<executor::Address> bases(1);
  MAESTRO_ASSIGN(bases[0], device->allocate(256, "a call's operands"));
  std::array<int64_t, 1> one{1};
  executor::CallDescription add{"add", {}, std::vector(2, kernels::TensorType(DType::F32, one)),
                                {kernels::TensorType(DType::F32, one)}, {{0, 0}, {0, 64}}, {{0, 128}}, {}};
  std::vector<executor::CallDescription> calls(kCalls, add);
  MAESTRO_ASSIGN(auto program, device->prepare(calls));
  std::vector<double> times;
  double begin = now();
  while (now() - begin < secondsEach || times.size() < 10) {
    constexpr int kLaunches = 16; // What it takes to begin is little beside them.
    double start = now();
    for (int i = 0; i < kLaunches; ++i)
      device->launch(*program, bases, 0);
    MAESTRO_TRY(device->wait(device->record()));
    times.push_back((now() - start) / (kLaunches * static_cast<double>(kCalls)));
  }
  return undisturbed(std::move(times));
}

ChannelTiming timeChannel() {
  constexpr size_t kBytes = size_t{4} << 20;
  std::vector<char> from(kBytes, 1), to(kBytes, 0);
  std::vector<double> copies, wakes;
  for (int i = 0; i < 50; ++i) {
    double begin = now();
    std::memcpy(to.data(), from.data(), kBytes);
    copies.push_back(now() - begin);
  }
  std::atomic<int> word{0};
  std::thread echo([&] {
    for (int i = 0; i < 200; ++i) {
      word.wait(2 * i);
      word.store(2 * i + 2);
      word.notify_one();
    }
  });
  for (int i = 0; i < 200; ++i) {
    double begin = now();
    word.store(2 * i + 1);
    word.notify_one();
    word.wait(2 * i + 1);
    wakes.push_back((now() - begin) / 2);
  }
  echo.join();
  return {static_cast<double>(kBytes) / undisturbed(std::move(copies)), undisturbed(std::move(wakes))};
}

} // namespace maestro::profile
