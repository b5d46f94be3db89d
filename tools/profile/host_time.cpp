#include "tools/profile/host_time.h"

#include "base/log.h"
#include "executor/core/run.h"
#include "executor/device/device.h"
#include "tools/profile/stopwatch.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace maestro::profile {
namespace {

/// Steps before those that count (shapes are new in them), and those that do: so many, or as many as take so long.
constexpr int kSteps = 12;
constexpr double kSeconds = 1.5;

/// By thread of this process, the devices' left out: seconds that it ran.
std::map<std::string, double> threadSeconds() {
  std::map<std::string, double> result;
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::string name;
    double nanoseconds = 0;
    std::ifstream(entry.path() / "comm") >> name;
    if (name != executor::kCpuDeviceThread && std::ifstream(entry.path() / "schedstat") >> nanoseconds)
      result[entry.path().filename()] = nanoseconds * 1e-9;
  }
  return result;
}

/// Asked at the end of each step.
class HostStopwatch {
public:
  /// Whether that is enough.
  bool isOver() {
    ++steps;
    if (steps < kSteps && now() - begin < kSeconds)
      return false;
    if (counts) {
      for (const auto &[thread, seconds] : threadSeconds())
        if (auto own = before.find(thread); own != before.end())
          total += seconds - own->second;
      return true;
    }
    counts = true;
    before = threadSeconds();
    steps = 0;
    begin = now();
    return false;
  }
  double secondsEach() const { return total / steps; }

private:
  std::map<std::string, double> before;
  bool counts = false;
  int steps = 0;
  double begin = now(), total = 0;
};

} // namespace

Result<double> hostSeconds(const std::string &planPath, const std::vector<std::string> &data) {
  HostStopwatch stopwatch;
  executor::RunOptions options;
  options.planPath = planPath;
  options.data = data;
  options.steps = UINT64_MAX;
  options.quiet = true;
  options.wantsToStop = [&] { return stopwatch.isOver(); };
  setLogQuiet(true);
  Status status = executor::run(options);
  setLogQuiet(false);
  if (status.code() != StatusCode::Interrupted)
    return status;
  return stopwatch.secondsEach();
}

} // namespace maestro::profile
