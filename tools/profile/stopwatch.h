// Times of kernels on a group of threads while all cores do the same.
//
// A device is a group of threads; as many groups as there is room for run the same kernel at once, since they share
// memory when a plan runs. A processor that is shared changes its speed by tens of per cent within seconds, so that
// each time has a pulse beside it. Operands come from a pool that is larger than a core's own caches, and other kernels
// run in between: as in a step.
#pragma once

#include "tools/profile/subjects.h"

#include <memory>
#include <vector>

namespace maestro::profile {

struct Timing {
  double seconds = 0;
  double bytes = 0; ///< Of operands and results.
  double pulse =
      0; ///< Seconds of a product that is always the same, between these calls: how slow the processor is just now.
};

struct Surroundings;

class Stopwatch {
public:
  /// `secondsEach`: so long is measured for a time, and at least once.
  explicit Stopwatch(double secondsEach);
  ~Stopwatch();

  /// The time of a call in the first of `groups` groups of `threads` threads that work at once.
  Result<Timing> time(const Subject &subject, int threads, int groups);
  /// Times of several threads, so far, that other programs disturbed whenever they were measured.
  size_t disturbedTimes() const { return disturbed; }

private:
  Status surround(int threads, int groups);

  double secondsEach;
  size_t disturbed = 0;
  std::shared_ptr<kernels::Library> library;
  std::vector<std::unique_ptr<Surroundings>> surroundings; ///< By group,
  int surrounded = 0;                                      ///< of so many threads.
};

/// Seconds of a clock that only goes on.
double now();
double median(std::vector<double> values);
/// Without the lowest and the highest twentieth: of the moments at which something was measured, not of its accidents.
double middleMean(std::vector<double> values);
/// Of the lower tenth the highest: what other programs on the machine add is none of the kernel's time.
double undisturbed(std::vector<double> values);

} // namespace maestro::profile
