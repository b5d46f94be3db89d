// maestro-profile: measures what a device of this machine does, and writes device.yaml for
// cluster.yaml's `device`.
#include "base/log.h"
#include "cost_models/device_profile.h"
#include "tools/arguments.h"
#include "tools/bound_spinning.h"
#ifdef MAESTRO_CUDA
#include "tools/profile/gpu_profile.h"
#endif
#include "tools/profile/machine_profile.h"
#include "tools/profile/stopwatch.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace maestro;
using cost_models::ProfiledDevice;
using profile::now;
using profile::PlanPrograms;
using profile::processorName;

namespace {

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
    return Status::invalidInput(
        fmt::format("{}: cannot be written: {}; name a file in a folder that can be", path, std::strerror(errno)));
  std::filesystem::remove(aside, error);
  return Status();
}

Result<std::vector<PlanPrograms>> programsOf(const std::vector<std::string> &paths) {
  std::vector<PlanPrograms> plans;
  int most = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (const std::string &path : paths) {
    MAESTRO_ASSIGN(PlanPrograms plan, PlanPrograms::load(path));
    if (size_t left = plan.leftOut(most))
      logInfo(fmt::format("{}: programs of {} of its sections' stages are not measured everywhere: "
                          "they need more memory than this machine has for that, or share tensors",
                          path, left));
    plans.push_back(std::move(plan));
  }
  return plans;
}

/// Of a GPU where there is one and the user does not say otherwise.
Result<cost_models::DeviceProfile> profileGpuInto(const std::string &path, double secondsEach) {
  MAESTRO_TRY(checkOutput(path));
#ifdef MAESTRO_CUDA
  MAESTRO_ASSIGN(cost_models::DeviceProfile profile, profile::profileGpu(secondsEach));
  MAESTRO_TRY(writeProfile(cost_models::toYaml(profile), path));
  return profile;
#else
  return Status::unavailable("--device gpu: this maestro-profile was built without a CUDA toolkit; build it with one");
#endif
}

bool findsGpu() {
#ifdef MAESTRO_CUDA
  return profile::hasGpu();
#else
  return false;
#endif
}

Result<cost_models::DeviceProfile> profileInto(const std::string &path, double secondsEach,
                                               const std::vector<std::string> &plans,
                                               const std::vector<std::string> &data) {
  MAESTRO_TRY(checkOutput(path));
  MAESTRO_ASSIGN(std::vector<PlanPrograms> programs, programsOf(plans));
  MAESTRO_ASSIGN(cost_models::DeviceProfile profile, profile::profileMachine(secondsEach, programs, data));
  MAESTRO_TRY(writeProfile(cost_models::toYaml(profile), path));
  return profile;
}

/// A profile of this machine, without the calls that it has.
Result<std::string> readBase(const std::string &path) {
  std::ifstream file(path);
  std::string text;
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
    return Status::invalidInput(fmt::format("--base {}: is of another processor than this one, "
                                            "'{}'; leave --base out and measure this one",
                                            path, processorName()));
  return text;
}

/// All but plans' calls from an earlier profile.
Status profileCallsInto(const std::string &path, double secondsEach, const std::vector<std::string> &plans,
                        const std::string &base) {
  MAESTRO_TRY(checkOutput(path));
  MAESTRO_ASSIGN(std::string text, readBase(base));
  MAESTRO_ASSIGN(std::vector<PlanPrograms> programs, programsOf(plans));
  MAESTRO_ASSIGN(std::string calls, profile::profileCalls(secondsEach, programs));
  return writeProfile(text + calls, path);
}

} // namespace

int main(int argc, char **argv) {
  boundSpinning(argv);
  CLI::App app{"Measures this machine for maestro-plan, in about two minutes.", "maestro-profile"};
  app.footer("Example:\n  maestro-profile -o device.yaml\n  maestro-plan kd.yaml --set "
             "cluster.device=device.yaml -o kd.mpl\n"
             "and, for predictions that are nearer, with the calls of that plan's programs:\n  "
             "maestro-profile kd.mpl -o device.yaml");
  app.set_version_flag("--version", "maestro-profile " MAESTRO_VERSION);
  std::string output;
  std::vector<std::string> plans;
  double seconds = 0;
  CLI::Option *plansOption =
      app.add_option("plans", plans, "Plans whose programs are measured, too, for predictions that are nearer");
  app.add_option("-o,--output", output, "Where to write the profile")->required();
  std::string base;
  app.add_option("--base", base,
                 "An earlier profile of this machine: all but the plans' programs is taken from "
                 "it, which takes seconds")
      ->needs(plansOption);
  std::vector<std::string> data;
  app.add_option("--data", data,
                 "WebDataset tar shards of the plans' samples, as maestro-run takes them, for the "
                 "time that a job's own threads take; without it synthetic samples")
      ->needs(plansOption);
  app.add_option("--seconds", seconds,
                 "For each kernel, size and number of threads; by itself it takes what fits two minutes")
      ->check(CLI::Range(0.001, 10.0));
  std::string device;
  app.add_option("--device", device,
                 "What is measured: gpu, the first of this machine's, or cpu. By itself a GPU where the driver finds "
                 "one and no plans are given")
      ->check(CLI::IsMember({"cpu", "gpu"}));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return endParsing(app, error);
  }
  std::signal(SIGXFSZ, SIG_IGN); // As on a full disk.
  double started = now();
  if (!base.empty()) {
    Status status = profileCallsInto(output, seconds, plans, base);
    if (!status.isOk())
      logError(status.message());
    else
      logInfo(fmt::format("wrote {} in {:.1f} s", output, now() - started));
    return status.exitStatus();
  }
  bool ofGpu = device == "gpu" || (device.empty() && plans.empty() && findsGpu());
  if (ofGpu && !plans.empty()) {
    logError("--device gpu: plans' programs are measured on processors alone; leave the plans out");
    return Status::invalidInput("").exitStatus();
  }
  Result<cost_models::DeviceProfile> profile =
      ofGpu ? profileGpuInto(output, seconds) : profileInto(output, seconds, plans, data);
  if (!profile) {
    logError(profile.status().message());
    return profile.status().exitStatus();
  }
  for (const ProfiledDevice &device : profile->devices) {
    const cost_models::DeviceRates &r = device.rates;
    logInfo(
        fmt::format("{} threads: {:.3g} GFLOP/s, in bf16 {:.3g}, operands {:.3g} GB/s, stream "
                    "{:.3g} GB/s, call {:.3g} us, channel "
                    "{:.3g} GB/s and {:.3g} us, a task {:.3g} us, a step {:.3g} us and {:.3g} us of the host, alone "
                    "{:.2f} of the time, together {:.2f}, an update {:.2f} of its stream",
                    device.threads, r.arithmetic.value * 1e-9, r.arithmeticBf16.value * 1e-9, r.operands.value * 1e-9,
                    r.stream.value * 1e-9, r.call.value * 1e6, r.channel.value * 1e-9, r.wake.value * 1e6,
                    r.task.value * 1e6, r.step.value * 1e6, r.host.value * 1e6, r.alone, r.together, r.update));
  }
  logInfo(fmt::format("wrote {} in {:.1f} s", output, now() - started));
  return 0;
}
