#include "tools/profile/machine_profile.h"

#include "base/log.h"
#include "tools/profile/bf16_products.h"
#include "tools/profile/device_stopwatch.h"
#include "tools/profile/host_time.h"
#include "tools/profile/stopwatch.h"
#include "tools/profile/subjects.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <thread>
#include <tuple>

namespace maestro::profile {
namespace {

using cost_models::CallSample;
using cost_models::CurveSample;
using cost_models::GridSample;
using cost_models::ProfiledDevice;
using cost_models::Seconds;

/// All numbers of threads together take about so long, where no time is given.
constexpr double kUsualSeconds = 45;
/// For each rate of calls, tasks and steps.
constexpr double kRateSeconds = 0.3;

/// 1, 2, 4 … and all cores.
std::vector<int> threadCounts(int cores) {
  std::vector<int> counts;
  for (int threads = 1; threads < cores; threads *= 2)
    counts.push_back(threads);
  counts.push_back(cores);
  return counts;
}

/// So often is each subject measured, some time apart, where no time is given: the machine's own
/// speed moves meanwhile.
constexpr size_t kRounds = 3;
/// By then they are over, whatever the machine's speed: rates and links are measured in what two
/// minutes leave. A slow machine gets fewer rounds rather than more minutes.
constexpr double kRoundsEnd = 100;

/// Visits after which one is repeated while no other device works.
constexpr size_t kVisitsBetween = 8;
constexpr double kLeastAlone = 0.1, kMostTogether = 4;
constexpr double kLeastUpdate = 0.05, kMostUpdate = 20;
/// For each size of micro-batches of each of a plan's executables, in a round: so many times what a
/// kernel and size have.
constexpr double kProgramsShare = 20;
/// What a kernel and size would have, where calls alone are measured and no time is given.
constexpr double kUsualCallSeconds = 0.02;

void append(std::vector<double> &all, const std::vector<double> &more) {
  all.insert(all.end(), more.begin(), more.end());
}

/// Calls of plans' programs, with one number of threads.
class CallProfiler {
public:
  CallProfiler(double secondsEach, int threads, int groups, const std::vector<PlanPrograms> &plans, bool withAlone)
      : seconds(secondsEach * kProgramsShare), threads(threads), groups(groups), plans(plans), withAlone(withAlone) {}

  Status round() {
    for (const PlanPrograms &plan : plans) {
      MAESTRO_ASSIGN(TimedCalls timed, plan.time(threads, groups, seconds, withAlone));
      append(pulses, timed.pulses);
      append(togetherShares, timed.togetherShares);
      append(aloneShares, timed.aloneShares);
      for (const TimedUpdate &update : timed.updates) {
        updateBytes += update.bytes;
        updatePulses += update.pulses;
      }
      for (const auto &[kernel, list] : timed.kernels)
        for (const TimedCall &call : list)
          add(calls[kernel], call);
    }
    return Status();
  }

  /// By kernel, where a pulse takes so long.
  std::map<std::string, std::vector<CallSample>> samples(double pulse) const {
    std::map<std::string, std::vector<CallSample>> result;
    for (const auto &[kernel, list] : calls)
      for (const Measured &own : list) {
        result[kernel].push_back(own.work);
        result[kernel].back().time = Seconds(median(own.pulses) * pulse);
      }
    return result;
  }

  std::vector<double> pulses; ///< Seconds of each.
  /// Of all times that devices did the plans' programs, as TimedCalls has them.
  std::vector<double> togetherShares, aloneShares;
  double updateBytes = 0, updatePulses = 0; ///< Of all updates together.

private:
  struct Measured {
    CallSample work;
    std::vector<double> pulses; ///< Of each round.
  };

  /// Plans and their executables may make alike calls.
  static void add(std::vector<Measured> &list, const TimedCall &call) {
    const CallSample &work = call.work;
    auto same = std::find_if(list.begin(), list.end(), [&](const Measured &own) {
      return std::tie(own.work.m, own.work.n, own.work.k, own.work.bytes) ==
             std::tie(work.m, work.n, work.k, work.bytes);
    });
    if (same == list.end())
      same = list.insert(list.end(), {work, {}});
    same->pulses.push_back(call.pulses);
  }

  double seconds;
  int threads, groups;
  const std::vector<PlanPrograms> &plans;
  bool withAlone;
  std::map<std::string, std::vector<Measured>> calls;
};

/// One number of threads.
class DeviceProfiler {
public:
  /// Rates have `rateSeconds` each, a kernel and size in a round `secondsEach`. `plans`: whose
  /// programs are measured, too.
  DeviceProfiler(Stopwatch &stopwatch, double rateSeconds, double secondsEach, int threads, int groups,
                 const std::vector<PlanPrograms> &plans)
      : stopwatch(stopwatch), seconds(rateSeconds), threads(threads), groups(groups),
        calls(secondsEach, threads, groups, plans, true), subjects(profile::subjects()), relative(subjects.size()),
        bytes(subjects.size()) {}

  /// Each subject once more. Subjects that are alike are far from each other, so that no kernel has
  /// a slow minute to itself.
  Status round() {
    size_t stride = 101, first = rounds++;
    while (std::gcd(stride, subjects.size()) > 1)
      ++stride;
    for (size_t visit = 0; visit < subjects.size(); ++visit) {
      size_t i = (first + visit * stride) % subjects.size();
      MAESTRO_ASSIGN(Timing timing, stopwatch.time(subjects[i], threads, groups));
      relative[i].push_back(timing.seconds / timing.pulse);
      bytes[i] = timing.bytes;
      pulses.push_back(timing.pulse);
      if (groups > 1 && visit % kVisitsBetween == 0) {
        MAESTRO_ASSIGN(Timing alone, stopwatch.time(subjects[i], threads, 1));
        aloneShares.push_back(alone.seconds / timing.seconds);
      }
    }
    return calls.round();
  }

  /// What the rounds say: each time as it is at the mean speed of them all.
  Result<ProfiledDevice> result() {
    device.threads = threads;
    double pulse = middleMean(pulses);
    for (size_t i = 0; i < subjects.size(); ++i)
      keep(subjects[i], bytes[i], Seconds(median(relative[i]) * pulse));
    for (auto &[name, samples] : grids)
      MAESTRO_TRY(device.curves.addGrid(name, std::move(samples)));
    for (auto &[name, samples] : curves)
      MAESTRO_TRY(device.curves.addCurve(name, std::move(samples)));
    for (auto &[name, samples] : calls.samples(pulse))
      MAESTRO_TRY(device.curves.addCalls(name, std::move(samples)));
    MAESTRO_TRY(setRates());
    return std::move(device);
  }

private:
  void keep(const Subject &subject, double bytes, Seconds time) {
    const std::vector<double> &s = subject.sizes;
    if (s.size() == 3)
      grids[subject.curve].push_back({s[0], s[1], s[2], time});
    else
      curves[subject.curve].push_back({s.empty() ? bytes : s[0], time});
  }

  /// For kernels without a curve: the rates of large products and of additions that caches hold in
  /// part.
  Status setRates() {
    constexpr double kLarge = 1024, kOperands = 3 << 20;
    cost_models::DeviceRates &rates = device.rates;
    cost_models::Flops flops(2 * kLarge * kLarge * kLarge);
    rates.arithmetic = flops / *device.curves.gridTime("matmul f32", kLarge, kLarge, kLarge);
    rates.arithmeticBf16 = flops / *device.curves.gridTime("matmul bf16", kLarge, kLarge, kLarge);
    rates.operands = cost_models::Bytes(kOperands) / *device.curves.curveTime("add", kOperands);
    DeviceStopwatch onDevice(seconds, threads, (groups - 1) * threads);
    MAESTRO_ASSIGN(rates.call.value, onDevice.callSeconds());
    MAESTRO_ASSIGN(rates.task.value, onDevice.taskSeconds());
    MAESTRO_ASSIGN(rates.step.value, onDevice.stepSeconds());
    if (const std::vector<double> &shares = calls.aloneShares.empty() ? aloneShares : calls.aloneShares;
        !shares.empty())
      rates.alone = std::clamp(median(shares), kLeastAlone, 1.0);
    if (!calls.togetherShares.empty())
      rates.together = std::clamp(middleMean(calls.togetherShares), 1.0, kMostTogether);
    MAESTRO_ASSIGN(Timing update, stopwatch.time(optimizerStep(), threads, groups));
    rates.stream = cost_models::Bytes(update.bytes) / Seconds(update.seconds);
    if (calls.updateBytes > 0) // At the mean pulse, as all else that is measured in rounds.
      rates.update = std::clamp(calls.updatePulses * middleMean(pulses) * rates.stream.value / calls.updateBytes,
                                kLeastUpdate, kMostUpdate);
    ChannelTiming channel = timeChannel();
    rates.channel = cost_models::BytesPerSecond(channel.bytesPerSecond);
    rates.wake = Seconds(channel.wakeSeconds);
    return Status();
  }

  Stopwatch &stopwatch;
  double seconds;
  int threads, groups;
  CallProfiler calls;
  std::vector<Subject> subjects;
  size_t rounds = 0;
  std::vector<std::vector<double>> relative; ///< By subject, of each round: its time over the pulse beside it.
  std::vector<double> bytes, pulses, aloneShares;
  ProfiledDevice device;
  std::map<std::string, std::vector<GridSample>> grids;
  std::map<std::string, std::vector<CurveSample>> curves;
};

/// Of those plans that this machine can run, on average; of all, where their data is named.
Result<Seconds> hostTime(const std::vector<PlanPrograms> &plans, const std::vector<std::string> &data) {
  double total = 0;
  int count = 0;
  for (const PlanPrograms &plan : plans) {
    Result<double> seconds = hostSeconds(plan.file(), data);
    if (seconds) {
      total += *seconds;
      ++count;
    } else if (!data.empty()) {
      return std::move(seconds).takeStatus();
    } else {
      logInfo(fmt::format("{}: what its job's own threads take is not measured: {}", plan.file(),
                          seconds.status().message()));
    }
  }
  return Seconds(count > 0 ? total / count : 0);
}

} // namespace

std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  return "cpu";
}

Result<cost_models::DeviceProfile> profileMachine(double secondsEach, const std::vector<PlanPrograms> &plans,
                                                  const std::vector<std::string> &data) {
  cost_models::DeviceProfile result;
  result.name = processorName();
  MAESTRO_ASSIGN(result.bf16Products, bf16Products());
  MAESTRO_ASSIGN(Seconds host, hostTime(plans, data)); // First: the data may not be there.
  int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<int> counts = threadCounts(cores);
  size_t rounds = secondsEach == 0 ? kRounds : 1;
  if (secondsEach == 0)
    secondsEach =
        std::clamp(kUsualSeconds / static_cast<double>(counts.size() * subjects().size() * kRounds), 0.003, 0.2);
  Stopwatch stopwatch(secondsEach);
  std::vector<DeviceProfiler> profilers;
  for (int threads : counts)
    profilers.emplace_back(stopwatch, kRateSeconds, secondsEach, threads, cores / threads, plans);
  // Numbers of threads take turns, so that none has a slow minute to itself.
  double begin = now();
  for (size_t round = 0;
       round < rounds &&
       (round == 0 || (now() - begin) * static_cast<double>(round + 1) / static_cast<double>(round) < kRoundsEnd);
       ++round)
    for (size_t i = 0; i < counts.size(); ++i) {
      logInfo(fmt::format("round {} of {}: {} thread{}, {} at once", round + 1, rounds, counts[i],
                          counts[i] == 1 ? "" : "s", cores / counts[i]));
      MAESTRO_TRY(profilers[i].round());
    }
  for (DeviceProfiler &profiler : profilers) {
    MAESTRO_ASSIGN(ProfiledDevice device, profiler.result());
    result.devices.push_back(std::move(device));
  }
  for (ProfiledDevice &device : result.devices)
    device.rates.host = host;
  if (stopwatch.disturbedTimes() > 0)
    logWarning(fmt::format("other programs took processors during {} of the times of several "
                           "threads, which say too much then; measure again "
                           "while nothing else runs",
                           stopwatch.disturbedTimes()));
  return result;
}

Result<std::string> profileCalls(double secondsEach, const std::vector<PlanPrograms> &plans) {
  int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::string text;
  for (int threads : threadCounts(cores)) {
    CallProfiler calls(secondsEach == 0 ? kUsualCallSeconds : secondsEach, threads, cores / threads, plans, false);
    for (size_t round = 0; round < (secondsEach == 0 ? kRounds : 1); ++round)
      MAESTRO_TRY(calls.round());
    if (!calls.pulses.empty())
      for (const auto &[kernel, samples] : calls.samples(middleMean(calls.pulses)))
        text += cost_models::callsLine(threads, kernel, samples);
  }
  return text;
}

} // namespace maestro::profile
