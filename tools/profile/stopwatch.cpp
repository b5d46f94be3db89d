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

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Free {
  void operator()(void *memory) const { std::free(memory); }
};

/// A prepared call with sets of operands, taken in turn: zeros, which every kernel accepts, and masks.
class Call {
public:
  static Result<Call> prepare(const kernels::Library &library, const Subject &subject, int threads, size_t mostSets = 64) {
    Call call;
    MAESTRO_ASSIGN(call.kernel, library.prepare({subject.kernel, kernels::Attributes(subject.attributes), subject.inputs,
                                                 subject.outputs, threads}));
    if (!call.kernel)
      return Status::internal("no kernel '" + subject.kernel + "'");
    for (const auto *list : {&subject.inputs, &subject.outputs})
      for (const kernels::TensorType &type : *list)
        call.bytes += type.present ? type.bytes() : 0;
    call.sets.resize(std::clamp<size_t>(poolBytes(threads) / std::max<size_t>(call.bytes, 1), 1, mostSets));
    for (Set &set : call.sets) {
      for (const kernels::TensorType &type : subject.inputs)
        set.inputs.push_back(call.add(type, subject.ordered));
      for (const kernels::TensorType &type : subject.outputs)
        set.outputs.push_back(call.add(type, false));
    }
    call.scratch = call.block(call.kernel->scratchBytes());
    return call;
  }

  void run() { // The operands are valid, so that it cannot fail.
    Set &set = sets[next++ % sets.size()];
    if (!kernel->run(set.inputs, set.outputs, scratch).isOk())
      std::abort();
  }
  size_t operandBytes() const { return bytes; }

private:
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
  void *add(const kernels::TensorType &type, bool ordered) {
    void *data = type.present ? block(type.bytes()) : nullptr;
    if (data && ordered && type.dtype == DType::Bool)
      orderMask(static_cast<char *>(data), type.bytes(), static_cast<size_t>(type.shape().back()));
    return data;
  }
  static void orderMask(char *flags, size_t count, size_t keys) {
    for (size_t row = 0; row < count / keys; ++row)
      std::memset(flags + row * keys, 1, row % keys + 1);
  }

  std::unique_ptr<kernels::Kernel> kernel;
  std::vector<std::unique_ptr<void, Free>> blocks;
  std::vector<Set> sets;
  void *scratch = nullptr;
  size_t bytes = 0, next = 0;
};

/// Share of a time that threads may wait for processors.
constexpr double kDisturbed = 0.05;

/// Other kernels that run in between, as they do in a step: their code and operands push those of the kernel out of the inner caches.
class Company {
public:
  static Result<Company> prepare(const kernels::Library &library, int threads) {
    Company company;
    for (const Subject &subject : companions()) {
      MAESTRO_ASSIGN(Call call, Call::prepare(library, subject, threads, 1));
      company.calls.push_back(std::move(call));
    }
    return company;
  }
  void run() {
    for (size_t i = 0; i < kBetween; ++i)
      calls[next++ % calls.size()].run();
  }

private:
  static constexpr size_t kBetween = 8; // About a layer's part, as what a kernel reads was mostly written by the last few.
  std::vector<Call> calls;
  size_t next = 0;
};

/// Longer calls fetch their code and operands in a small part of their time.
constexpr double kLong = 500e-6;

struct Runner {
  Call call;
  Company company;
  bool isLong = false;

  /// The time of one call, or, of long ones, its part of the time of some.
  double timed(clockid_t clock) {
    if (!isLong)
      company.run();
    double begin = secondsOf(isLong ? clock : CLOCK_MONOTONIC);
    call.run();
    return secondsOf(isLong ? clock : CLOCK_MONOTONIC) - begin;
  }
};

double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

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

double undisturbed(std::vector<double> values) {
  auto place = values.begin() + static_cast<ptrdiff_t>(values.size() / 10);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

Result<Timing> Stopwatch::time(const Subject &subject, int threads, int groups) {
  std::vector<Runner> runners;
  for (int group = 0; group < groups; ++group) {
    MAESTRO_ASSIGN(Call call, Call::prepare(*library, subject, threads));
    MAESTRO_ASSIGN(Company company, Company::prepare(*library, threads));
    runners.push_back({std::move(call), std::move(company)});
  }
  // One thread's own time leaves out what other programs take; several threads wait for each other on the clock.
  clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  runners[0].call.run();
  double begin = now();
  runners[0].call.run();
  bool isLong = now() - begin > kLong;
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (Runner &runner : runners)
    runner.isLong = isLong;
  for (size_t group = 1; group < runners.size(); ++group)
    others.emplace_back([&, group] {
      while (!stop.load(std::memory_order_relaxed))
        runners[group].timed(clock);
    });
  // Several threads that wait for a processor wait for each other, too: the time is another's then.
  constexpr int kAttempts = 5;
  double leastWaited = INFINITY;
  std::vector<double> times;
  for (int attempt = 0; attempt < (threads == 1 ? 1 : kAttempts) && leastWaited > kDisturbed; ++attempt) {
    std::vector<double> own;
    double waitedBefore = waitedSeconds();
    for (begin = now(); now() - begin < secondsEach || own.size() < 3;)
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
  return Timing{seconds, static_cast<double>(runners[0].call.operandBytes())};
}

} // namespace maestro::profile
