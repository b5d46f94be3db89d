// Which devices take longer than the others, each held against what the plan says of the very tasks that it had: a slow
// machine shows before it is a failure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace maestro::executor {

struct Straggler {
  uint32_t rank = 0;
  double times = 1; ///< As long as the others, for the same planned time.
};

class Stragglers {
public:
  /// Steps after which devices are compared, and comparisons in a row that one must fail.
  static constexpr uint32_t kWindow = 16, kInARow = 3;
  /// One that takes so many times as long as the median is one.
  static constexpr double kLimit = 1.3;

  /// What each rank's device was busy in a step, and what was planned.
  void add(std::span<const double> busySeconds, std::span<const double> plannedSeconds);
  /// Those of the last comparison, by rank.
  std::span<const Straggler> found() const { return list; }

private:
  struct Device {
    double busy = 0, planned = 0; ///< Since the last comparison.
    uint32_t failed = 0;          ///< Comparisons, in a row.
  };
  void compare();

  uint32_t steps = 0;
  std::vector<Device> devices;
  std::vector<double> ratios;
  std::vector<Straggler> list;
};

} // namespace maestro::executor
