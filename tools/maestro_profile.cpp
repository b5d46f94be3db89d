// maestro-profile: measures what a device of this machine does, and writes device.yaml for cluster.yaml's `device`.
#include "base/log.h"
#include "cost_models/device_profile.h"
#include "tools/arguments.h"
#include "tools/bound_spinning.h"
#include "tools/profile/device_stopwatch.h"
#include "tools/profile/plan_programs.h"
#include "tools/profile/stopwatch.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <thread>
#include <tuple>

using namespace maestro;
using cost_models::CallSample;
using cost_models::GridSample;
using cost_models::ProfiledDevice;
using cost_models::Seconds;
using cost_models::CurveSample;
using profile::PlanPrograms;
using profile::Subject;
using profile::Timing;

namespace {

/// All numbers of threads together take about so long, where no time is given.
constexpr double kUsualSeconds = 45;
/// For each rate of calls, tasks and steps.
constexpr double kRateSeconds = 0.3;

/// For pulses beside other programs: a three-hundredth of a processor.
constexpr std::chrono::milliseconds kBetweenPulses(50);

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  return "cpu";
}

/// 1, 2, 4 … and all cores.
std::vector<int> threadCounts(int cores) {
  std::vector<int> counts;
  for (int threads = 1; threads < cores; threads *= 2)
    counts.push_back(threads);
  counts.push_back(cores);
  return counts;
}

/// So often is each subject measured, some time apart, where no time is given: the machine's own speed moves meanwhile.
constexpr size_t kRounds = 3;
/// By then they are over, whatever the machine's speed: rates and links are measured in what two minutes leave. A slow machine gets fewer
/// rounds rather than more minutes.
constexpr double kRoundsEnd = 100;

/// Visits after which one is repeated while no other device works.
constexpr size_t kVisitsBetween = 8;
constexpr double kLeastAlone = 0.1, kMostTogether = 4;
/// Visits over which speeds of processors are compared: about a second.
constexpr size_t kWindow = 16;

/// For each size of micro-batches of each of a plan's executables, in a round: so many times what a kernel and size have.
constexpr double kProgramsShare = 20;
/// What a kernel and size would have, where calls alone are measured and no time is given.
constexpr double kUsualCallSeconds = 0.02;

/// Calls of plans' programs, with one number of threads.
class CallProfiler {
public:
  CallProfiler(double secondsEach, int threads, int groups, const std::vector<PlanPrograms> &plans)
      : seconds(secondsEach * kProgramsShare), threads(threads), groups(groups), plans(plans) {}

  Status round() {
    for (const PlanPrograms &plan : plans) {
      MAESTRO_ASSIGN(profile::TimedCalls timed, plan.time(threads, groups, seconds));
      pulses.insert(pulses.end(), timed.pulses.begin(), timed.pulses.end());
      for (const auto &[kernel, list] : timed.kernels)
        for (const profile::TimedCall &call : list)
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
        result[kernel].back().time = Seconds(profile::median(own.pulses) * pulse);
      }
    return result;
  }

  std::vector<double> pulses; ///< Seconds of each.

private:
  struct Measured {
    CallSample work;
    std::vector<double> pulses; ///< Of each round.
  };

  /// Plans and their executables may make alike calls.
  static void add(std::vector<Measured> &list, const profile::TimedCall &call) {
    const CallSample &work = call.work;
    auto same = std::find_if(list.begin(), list.end(), [&](const Measured &own) {
      return std::tie(own.work.m, own.work.n, own.work.k, own.work.bytes) == std::tie(work.m, work.n, work.k, work.bytes);
    });
    if (same == list.end())
      same = list.insert(list.end(), {work, {}});
    same->pulses.push_back(call.pulses);
  }

  double seconds;
  int threads, groups;
  const std::vector<PlanPrograms> &plans;
  std::map<std::string, std::vector<Measured>> calls;
};

/// One number of threads.
class DeviceProfiler {
public:
  /// Rates have `rateSeconds` each, a kernel and size in a round `secondsEach`. `plans`: whose programs are measured, too.
  DeviceProfiler(profile::Stopwatch &stopwatch, double rateSeconds, double secondsEach, int threads, int groups, const std::vector<PlanPrograms> &plans)
      : stopwatch(stopwatch), seconds(rateSeconds), threads(threads), groups(groups), calls(secondsEach, threads, groups, plans), subjects(profile::subjects()),
        relative(subjects.size()), bytes(subjects.size()) {}

  /// Each subject once more. Subjects that are alike are far from each other, so that no kernel has a slow minute to itself.
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
      window.push_back(std::move(timing.groups));
      if (window.size() == kWindow)
        closeWindow();
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
    double pulse = profile::middleMean(pulses);
    for (size_t i = 0; i < subjects.size(); ++i)
      keep(subjects[i], bytes[i], Seconds(profile::median(relative[i]) * pulse));
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
  /// How much longer than in the mean group calls took in the slowest.
  void closeWindow() {
    std::vector<double> sums(static_cast<size_t>(groups), 0);
    for (const std::vector<double> &own : window)
      for (size_t group = 0; own.size() == sums.size() && group < sums.size(); ++group)
        sums[group] += own[group] / std::accumulate(own.begin(), own.end(), 0.0);
    window.clear();
    double all = std::accumulate(sums.begin(), sums.end(), 0.0);
    if (all > 0)
      slowest.push_back(*std::max_element(sums.begin(), sums.end()) * static_cast<double>(groups) / all);
  }

  void keep(const Subject &subject, double bytes, Seconds time) {
    const std::vector<double> &s = subject.sizes;
    if (s.size() == 3)
      grids[subject.curve].push_back({s[0], s[1], s[2], time});
    else
      curves[subject.curve].push_back({s.empty() ? bytes : s[0], time});
  }

  /// For kernels without a curve: the rates of large products and of additions that caches hold in part.
  Status setRates() {
    constexpr double kLarge = 1024, kOperands = 3 << 20;
    cost_models::DeviceRates &rates = device.rates;
    cost_models::Flops flops(2 * kLarge * kLarge * kLarge);
    rates.arithmetic = flops / *device.curves.gridTime("matmul f32", kLarge, kLarge, kLarge);
    rates.arithmeticBf16 = flops / *device.curves.gridTime("matmul bf16", kLarge, kLarge, kLarge);
    rates.operands = cost_models::Bytes(kOperands) / *device.curves.curveTime("add", kOperands);
    profile::DeviceStopwatch onDevice(seconds, threads, (groups - 1) * threads);
    MAESTRO_ASSIGN(rates.call.value, onDevice.callSeconds());
    MAESTRO_ASSIGN(rates.task.value, onDevice.taskSeconds());
    MAESTRO_ASSIGN(rates.step.value, onDevice.stepSeconds());
    if (!aloneShares.empty())
      rates.alone = std::clamp(profile::median(aloneShares), kLeastAlone, 1.0);
    if (groups > 1 && !slowest.empty())
      rates.together = std::clamp(profile::middleMean(slowest), 1.0, kMostTogether);
    MAESTRO_ASSIGN(Timing update, stopwatch.time(profile::optimizerStep(), threads, groups));
    rates.stream = cost_models::Bytes(update.bytes) / Seconds(update.seconds);
    profile::ChannelTiming channel = profile::timeChannel();
    rates.channel = cost_models::BytesPerSecond(channel.bytesPerSecond);
    rates.wake = Seconds(channel.wakeSeconds);
    return Status();
  }

  profile::Stopwatch &stopwatch;
  double seconds;
  int threads, groups;
  CallProfiler calls;
  std::vector<Subject> subjects;
  size_t rounds = 0;
  std::vector<std::vector<double>> relative; ///< By subject, of each round: its time over the pulse beside it.
  std::vector<double> bytes, pulses, aloneShares;
  std::vector<std::vector<double>> window; ///< Visits: a call in each group.
  std::vector<double> slowest; ///< Of windows: calls in the slowest group over those in the mean one.
  ProfiledDevice device;
  std::map<std::string, std::vector<GridSample>> grids;
  std::map<std::string, std::vector<CurveSample>> curves;
};

Result<cost_models::DeviceProfile> profileMachine(double secondsEach, const std::vector<PlanPrograms> &plans) {
  cost_models::DeviceProfile result;
  result.name = processorName();
  int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<int> counts = threadCounts(cores);
  size_t rounds = secondsEach == 0 ? kRounds : 1;
  if (secondsEach == 0)
    secondsEach = std::clamp(kUsualSeconds / static_cast<double>(counts.size() * profile::subjects().size() * kRounds), 0.003, 0.2);
  profile::Stopwatch stopwatch(secondsEach);
  std::vector<DeviceProfiler> profilers;
  for (int threads : counts)
    profilers.emplace_back(stopwatch, kRateSeconds, secondsEach, threads, cores / threads, plans);
  // Numbers of threads take turns, so that none has a slow minute to itself.
  double begin = now();
  for (size_t round = 0; round < rounds && (round == 0 || (now() - begin) * static_cast<double>(round + 1) / static_cast<double>(round) < kRoundsEnd); ++round)
    for (size_t i = 0; i < counts.size(); ++i) {
      logInfo(fmt::format("round {} of {}: {} thread{}, {} at once", round + 1, rounds, counts[i], counts[i] == 1 ? "" : "s", cores / counts[i]));
      MAESTRO_TRY(profilers[i].round());
    }
  for (DeviceProfiler &profiler : profilers) {
    MAESTRO_ASSIGN(ProfiledDevice device, profiler.result());
    result.devices.push_back(std::move(device));
  }
  if (stopwatch.disturbedTimes() > 0)
    logWarning(fmt::format("other programs took processors during {} of the times of several threads, which say too much then; measure again "
                           "while nothing else runs", stopwatch.disturbedTimes()));
  return result;
}

std::string asideOf(const std::string &path) { return path + ".unfinished"; }

Status writeProfile(const std::string &text, const std::string &path) {
  std::string aside = asideOf(path);
  std::ofstream file(aside);
  file << text;
  file.close();
  if (file && std::rename(aside.c_str(), path.c_str()) == 0)
    return Status();
  Status status = Status::unavailable(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  std::remove(aside.c_str());
  return status;
}

/// Before minutes are spent on what could not be kept.
Status checkOutput(const std::string &path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return Status::invalidInput(path + ": is a folder; name the file, for example device.yaml");
  std::string aside = asideOf(path);
  if (!std::ofstream(aside))
    return Status::invalidInput(fmt::format("{}: cannot be written: {}; name a file in a folder that can be", path, std::strerror(errno)));
  std::filesystem::remove(aside, error);
  return Status();
}

Result<std::vector<PlanPrograms>> programsOf(const std::vector<std::string> &paths) {
  std::vector<PlanPrograms> plans;
  int most = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (const std::string &path : paths) {
    MAESTRO_ASSIGN(PlanPrograms plan, PlanPrograms::load(path));
    if (size_t left = plan.leftOut(most))
      logInfo(fmt::format("{}: programs of {} of its sections' stages are not measured everywhere: they need more memory than this machine has for that, or share tensors", path, left));
    plans.push_back(std::move(plan));
  }
  return plans;
}

Result<cost_models::DeviceProfile> profileInto(const std::string &path, double secondsEach, const std::vector<std::string> &plans) {
  MAESTRO_TRY(checkOutput(path));
  MAESTRO_ASSIGN(std::vector<PlanPrograms> programs, programsOf(plans));
  MAESTRO_ASSIGN(cost_models::DeviceProfile profile, profileMachine(secondsEach, programs));
  MAESTRO_TRY(writeProfile(cost_models::toYaml(profile), path));
  return profile;
}

/// A profile of this machine, without the calls that it has.
Result<std::string> readBase(const std::string &path) {
  std::ifstream file(path);
  std::string text, head;
  bool isOurs = false, isOfThis = false;
  for (std::string line; std::getline(file, line);) {
    isOurs |= line.starts_with("# Written by maestro-profile");
    isOfThis |= line == fmt::format("name: \"{}\"", processorName());
    if (!cost_models::isCallsLine(line))
      text += line + '\n';
  }
  if (!isOurs)
    return Status::invalidInput(fmt::format("--base {}: is no profile; name a file that maestro-profile wrote", path));
  if (!isOfThis)
    return Status::invalidInput(fmt::format("--base {}: is of another processor than this one, '{}'; leave --base out and measure this one", path, processorName()));
  return text;
}

/// All but plans' calls from an earlier profile.
Status profileCallsInto(const std::string &path, double secondsEach, const std::vector<std::string> &plans, const std::string &base) {
  MAESTRO_TRY(checkOutput(path));
  MAESTRO_ASSIGN(std::string text, readBase(base));
  MAESTRO_ASSIGN(std::vector<PlanPrograms> programs, programsOf(plans));
  int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (int threads : threadCounts(cores)) {
    CallProfiler calls(secondsEach == 0 ? kUsualCallSeconds : secondsEach, threads, cores / threads, programs);
    for (size_t round = 0; round < (secondsEach == 0 ? kRounds : 1); ++round)
      MAESTRO_TRY(calls.round());
    if (!calls.pulses.empty())
      for (const auto &[kernel, samples] : calls.samples(profile::middleMean(calls.pulses)))
        text += cost_models::callsLine(threads, kernel, samples);
  }
  return writeProfile(text, path);
}

/// Until it is ended: the time (of the clock that never jumps) and how long the pulse takes, a line each.
Status watchSpeed() {
  MAESTRO_ASSIGN(profile::Pulse pulse, profile::Pulse::prepare());
  for (;; std::this_thread::sleep_for(kBetweenPulses)) {
    double seconds = pulse.beat();
    fmt::print("{:.3f} {:.4g}\n", now(), seconds);
    if (std::fflush(stdout) != 0)
      return Status::unavailable(fmt::format("standard output: cannot be written: {}", std::strerror(errno)));
  }
}

} // namespace

int main(int argc, char **argv) {
  boundSpinning(argv);
  CLI::App app{"Measures this machine for maestro-plan, in about two minutes.", "maestro-profile"};
  app.footer("Example:\n  maestro-profile -o device.yaml\n  maestro-plan kd.yaml --set cluster.device=device.yaml -o kd.mpl\n"
             "and, for predictions that are nearer, with the calls of that plan's programs:\n  maestro-profile kd.mpl -o device.yaml");
  app.set_version_flag("--version", "maestro-profile " MAESTRO_VERSION);
  std::string output;
  std::vector<std::string> plans;
  double seconds = 0;
  CLI::Option *plansOption = app.add_option("plans", plans, "Plans whose programs are measured, too, for predictions that are nearer");
  CLI::Option *written = app.add_option("-o,--output", output, "Where to write the profile");
  bool watches = false;
  app.add_flag("--watch", watches, "Profiles nothing: prints the time and how long a product takes that is always the same, 20 times a second until it is ended. A shared machine's "
                                               "speed moves; this says by how much while something else runs")->excludes(written);
  std::string base;
  app.add_option("--base", base, "An earlier profile of this machine: all but the plans' programs is taken from it, which takes seconds")->needs(plansOption);
  app.add_option("--seconds", seconds, "For each kernel, size and number of threads; by itself it takes what fits two minutes")
      ->check(CLI::Range(0.001, 10.0));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return endParsing(app, error);
  }
  std::signal(SIGXFSZ, SIG_IGN); // As on a full disk.
  if (!watches && written->count() == 0) {
    logError("--output is required; see maestro-profile --help");
    return 1;
  }
  if (watches) {
    Status status = watchSpeed();
    logError(status.message());
    return status.exitStatus();
  }
  double started = now();
  if (!base.empty()) {
    Status status = profileCallsInto(output, seconds, plans, base);
    if (!status.isOk())
      logError(status.message());
    else
      logInfo(fmt::format("wrote {} in {:.1f} s", output, now() - started));
    return status.exitStatus();
  }
  Result<cost_models::DeviceProfile> profile = profileInto(output, seconds, plans);
  if (!profile) {
    logError(profile.status().message());
    return profile.status().exitStatus();
  }
  for (const ProfiledDevice &device : profile->devices) {
    const cost_models::DeviceRates &r = device.rates;
    logInfo(fmt::format("{} threads: {:.3g} GFLOP/s, in bf16 {:.3g}, operands {:.3g} GB/s, stream {:.3g} GB/s, call {:.3g} us, channel "
                        "{:.3g} GB/s and {:.3g} us, a task {:.3g} us, a step {:.3g} us, alone {:.2f} of the time, together {:.2f}", device.threads, r.arithmetic.value * 1e-9, r.arithmeticBf16.value * 1e-9,
                        r.operands.value * 1e-9, r.stream.value * 1e-9, r.call.value * 1e6, r.channel.value * 1e-9, r.wake.value * 1e6,
                        r.task.value * 1e6, r.step.value * 1e6, r.alone, r.together));
  }
  logInfo(fmt::format("wrote {} in {:.1f} s", output, now() - started));
  return 0;
}
