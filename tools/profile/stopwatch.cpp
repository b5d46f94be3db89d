#include "tools/profile/stopwatch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>
#include <unistd.h>

namespace maestro::profile {
namespace {

double secondsOf(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// How long this process's threads have waited for a processor which others had.
double waitedSeconds() {
  double waited = 0;
  std::error_code error;
  for (const auto &thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(thread.path() / "schedstat");
    double ran = 0, waits = 0;
    if (file >> ran >> waits)
      waited += waits * 1e-9;
  }
  return waited;
}

struct Free {
  void operator()(void *memory) const { std::free(memory); }
};

void *zeros(size_t size) {
  void *memory = std::aligned_alloc(64, (size + 127) & ~size_t{63});
  std::memset(memory, 0, size);
  return memory;
}

/// A group's memory for what lies far away. Inputs stay zero, so that every subject may have them.
struct FarMemory {
  /// So much is used in turn: more than a processor's last cache leaves to a core (what systems say of that cache is of
  /// no use: 32 and 384 MiB were seen on one machine).
  static constexpr size_t kUsed = size_t{48} << 20;

  struct Part {
    std::unique_ptr<void, Free> memory;
    size_t size = 0, taken = 0;

    void begin(size_t bytes) {
      taken = 0;
      if (bytes > size) {
        memory.reset(zeros(bytes));
        size = bytes;
      }
    }
    void *take(size_t bytes) { return static_cast<char *>(memory.get()) + std::exchange(taken, taken + bytes); }
  };
  Part inputs, outputs;

  void begin(size_t inputBytes, size_t outputBytes) {
    inputs.begin(inputBytes);
    outputs.begin(outputBytes);
  }
};

/// Far operands have so many places at most, near ones so many: about as many calls of a like size pass in a step
/// before the same memory is used again, so that small ones find what they need in the inner caches.
constexpr size_t kSets = 32, kNearSets = 16;

/// A prepared call with sets of operands, taken in turn: zeros, which every kernel accepts, and masks.
class Call {
public:
  static Result<Call> prepare(const kernels::Library &library, const Subject &subject, int threads, FarMemory *far,
                              size_t setCount = kSets) {
    Call call;
    MAESTRO_ASSIGN(call.kernel, library.prepare({subject.kernel, kernels::Attributes(subject.attributes),
                                                 subject.inputs, subject.outputs, threads}));
    if (!call.kernel)
      return Status::internal("no kernel '" + subject.kernel + "'");
    for (const auto *list : {&subject.inputs, &subject.outputs})
      for (const kernels::TensorType &type : *list)
        call.bytes += type.present ? type.bytes() : 0;
    call.sets.resize(setCount);
    size_t farInputs = far ? bytesOf(subject.inputs, subject.farInputs) : 0,
           farOutputs = far ? bytesOf(subject.outputs, subject.farOutputs) : 0;
    size_t near = call.near =
        placesIn(poolBytes(threads), call.bytes - farInputs - farOutputs, std::min(setCount, kNearSets));
    size_t away = placesIn(FarMemory::kUsed, farInputs + farOutputs, setCount);
    if (far)
      far->begin(away * farInputs, away * farOutputs);
    for (size_t i = 0; i < subject.inputs.size(); ++i) {
      FarMemory::Part *part = far && isFar(subject.farInputs, i) ? &far->inputs : nullptr;
      call.place(&Set::inputs, subject.inputs[i], subject.ordered, part, part ? away : near);
    }
    for (size_t i = 0; i < subject.outputs.size(); ++i) {
      FarMemory::Part *part = far && isFar(subject.farOutputs, i) ? &far->outputs : nullptr;
      call.place(&Set::outputs, subject.outputs[i], false, part, part ? away : near);
    }
    call.scratch = call.block(call.kernel->scratchBytes());
    return call;
  }

  void run() { // The operands are valid, so that it cannot fail.
    Set &set = sets[next++ % sets.size()];
    inputs.assign(set.inputs.begin(), set.inputs.end());
    if (!kernel->run(inputs, set.outputs, scratch).isOk())
      std::abort();
  }
  /// Calls after which what lies near is as near as it will be.
  size_t callsToWarm() const { return near; }
  size_t operandBytes() const { return bytes; }

private:
  struct Set {
    std::vector<void *> inputs, outputs;
  };
  static bool isFar(uint32_t operands, size_t i) { return operands >> i & 1; }
  static size_t bytesOf(const std::vector<kernels::TensorType> &types, uint32_t operands) {
    size_t sum = 0;
    for (size_t i = 0; i < types.size(); ++i)
      sum += isFar(operands, i) && types[i].present ? types[i].bytes() : 0;
    return sum;
  }
  static size_t placesIn(size_t pool, size_t bytes, size_t most) {
    return std::clamp<size_t>(pool / std::max<size_t>(bytes, 1), 1, most);
  }

  static size_t poolBytes(int threads) {
    long cache = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
    return static_cast<size_t>(cache > 0 ? cache : 1 << 20) * 2 * static_cast<size_t>(threads);
  }
  void *block(size_t size) { return blocks.emplace_back(zeros(size)).get(); }
  /// An operand of every set: they have `count` places in turn.
  void place(std::vector<void *> Set::*list, const kernels::TensorType &type, bool ordered, FarMemory::Part *far,
             size_t count) {
    std::vector<void *> places;
    for (size_t i = 0; i < count; ++i) {
      places.push_back(!type.present ? nullptr : far ? far->take(type.bytes()) : block(type.bytes()));
      if (places.back() && ordered && type.dtype == DType::Bool)
        orderMask(static_cast<char *>(places.back()), type.bytes(), static_cast<size_t>(type.shape().back()));
    }
    for (size_t i = 0; i < sets.size(); ++i)
      (sets[i].*list).push_back(places[i % count]);
  }
  static void orderMask(char *flags, size_t count, size_t keys) {
    for (size_t row = 0; row < count / keys; ++row)
      std::memset(flags + row * keys, 1, row % keys + 1);
  }

  std::unique_ptr<kernels::Kernel> kernel;
  std::vector<std::unique_ptr<void, Free>> blocks;
  std::vector<Set> sets;
  std::vector<const void *> inputs; ///< As kernels take them.
  void *scratch = nullptr;
  size_t bytes = 0, next = 0, near = 1;
};

/// Share of a time that threads may wait for processors: a median leaves out the calls that others interrupted as long
/// as they are few.
constexpr double kDisturbed = 0.2;

/// Other kernels that run in between, as they do in a step: their code and operands push those of the kernel out of the
/// inner caches.
class Company {
public:
  static Result<Company> prepare(const kernels::Library &library, int threads) {
    Company company;
    for (const Subject &subject : companions()) {
      MAESTRO_ASSIGN(Call call, Call::prepare(library, subject, threads, nullptr, 1));
      company.calls.push_back(std::move(call));
    }
    return company;
  }
  void run() {
    for (size_t i = 0; i < kBetween; ++i)
      calls[next++ % calls.size()].run();
  }

private:
  static constexpr size_t kBetween =
      8; // About a layer's part, as what a kernel reads was mostly written by the last few.
  std::vector<Call> calls;
  size_t next = 0;
};

} // namespace

/// What surrounds the kernels that a group of threads runs.
struct Surroundings {
  Company company;
  Call pulse;
  FarMemory far;
};

Stopwatch::Stopwatch(double secondsEach) : secondsEach(secondsEach), library(kernels::createCpuLibrary()) {}
Stopwatch::~Stopwatch() = default;

Status Stopwatch::surround(int threads, int groups) {
  if (surrounded != threads)
    surroundings.clear();
  surrounded = threads;
  while (surroundings.size() < static_cast<size_t>(groups)) {
    MAESTRO_ASSIGN(Company company, Company::prepare(*library, threads));
    MAESTRO_ASSIGN(Call pulse, Call::prepare(*library, pulseProduct(), threads, nullptr, 1));
    surroundings.push_back(std::make_unique<Surroundings>(Surroundings{std::move(company), std::move(pulse), {}}));
  }
  return Status();
}

namespace {

/// Longer calls fetch their code and operands in a small part of their time.
constexpr double kLong = 500e-6;

struct Runner {
  Call call;
  Company &company;
  Call &pulse;
  bool isLong = false;
  std::vector<double> pulses = {};

  /// The time of one call, or, of long ones, its part of the time of some.
  double timed(clockid_t clock) {
    beat();
    if (!isLong)
      company.run();
    double begin = secondsOf(isLong ? clock : CLOCK_MONOTONIC);
    call.run();
    return secondsOf(isLong ? clock : CLOCK_MONOTONIC) - begin;
  }

private:
  void beat() {
    pulse.run();             // Its code and operands come near.
    double least = INFINITY; // What interrupts the thread is no slow processor.
    for (int i = 0; i < 3; ++i) {
      double begin = secondsOf(CLOCK_MONOTONIC);
      pulse.run();
      least = std::min(least, secondsOf(CLOCK_MONOTONIC) - begin);
    }
    pulses.push_back(least);
  }
};

/// Reading the clock.
double clockSeconds() {
  std::vector<double> times;
  for (int i = 0; i < 100; ++i) {
    double begin = secondsOf(CLOCK_MONOTONIC);
    times.push_back(secondsOf(CLOCK_MONOTONIC) - begin);
  }
  return median(std::move(times));
}

} // namespace

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double middleMean(std::vector<double> values) {
  size_t away = values.size() / 20;
  std::sort(values.begin(), values.end());
  return std::accumulate(values.begin() + static_cast<ptrdiff_t>(away), values.end() - static_cast<ptrdiff_t>(away),
                         0.0) /
         static_cast<double>(values.size() - 2 * away);
}

double undisturbed(std::vector<double> values) {
  auto place = values.begin() + static_cast<ptrdiff_t>(values.size() / 10);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

Result<Timing> Stopwatch::time(const Subject &subject, int threads, int groups) {
  std::vector<Runner> runners;
  MAESTRO_TRY(surround(threads, groups));
  for (size_t group = 0; group < static_cast<size_t>(groups); ++group) {
    Surroundings &around = *surroundings[group];
    MAESTRO_ASSIGN(Call call, Call::prepare(*library, subject, threads, &around.far));
    runners.push_back({std::move(call), around.company, around.pulse});
  }
  // One thread's own time leaves out what other programs take; several threads wait for each other on the clock.
  clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  runners[0].call.run();
  double begin = now();
  runners[0].call.run();
  bool isLong = now() - begin > kLong;
  for (size_t i = 0; !isLong && i < runners[0].call.callsToWarm(); ++i)
    runners[0].call.run();
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (Runner &runner : runners)
    runner.isLong = isLong;
  for (size_t group = 1; group < runners.size(); ++group)
    others.emplace_back([&, group] {
      while (!stop.load(std::memory_order_relaxed))
        (void)runners[group].timed(clock);
    });
  // Several threads that wait for a processor wait for each other, too: the time is another's then.
  constexpr int kAttempts = 3;
  double leastWaited = INFINITY;
  std::vector<double> times;
  for (int attempt = 0; attempt < (threads == 1 ? 1 : kAttempts) && leastWaited > kDisturbed; ++attempt) {
    std::vector<double> own;
    double waitedBefore = waitedSeconds();
    for (begin = now(); now() - begin < secondsEach || own.empty();)
      own.push_back(runners[0].timed(clock));
    if (double waited = (waitedSeconds() - waitedBefore) / (now() - begin); waited < leastWaited) {
      leastWaited = waited;
      times = std::move(own);
    }
  }
  if (threads > 1 && leastWaited > kDisturbed)
    ++disturbed;
  stop = true;
  for (std::thread &other : others)
    other.join();
  double seconds = std::max(median(std::move(times)) - clockSeconds(), 1e-9);
  return Timing{seconds, static_cast<double>(runners[0].call.operandBytes()), median(std::move(runners[0].pulses))};
}

} // namespace maestro::profile
