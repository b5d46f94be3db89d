// Times of kernels on a group of threads while all cores do the same.
//
// A device is a group of threads; as many groups as there is room for run the same kernel at once, since they share memory when a plan
// runs. Operands come from a pool that is larger than a core's own caches: in a step, too, other operators ran since they were written.
#pragma once

#include "tools/profile/subjects.h"

namespace maestro::profile {

struct Timing {
  double seconds = 0;
  double bytes = 0; ///< Of operands and results.
};

class Stopwatch {
public:
  /// `secondsEach`: so long is measured for a time, and at least three times.
  explicit Stopwatch(double secondsEach) : secondsEach(secondsEach), library(kernels::createCpuLibrary()) {}

  /// The time of a call in the first of `groups` groups of `threads` threads.
  Result<Timing> time(const Subject &subject, int threads, int groups) const;

  /// Beyond the time of each product by itself, in the first of the groups: what it takes where they run in turn.
  Result<double> productCallSeconds(int threads, int groups) const;
  /// Of a call in a device's program, with almost no work: its own time.
  Result<double> callSeconds(int threads) const;

private:
  double secondsEach;
  std::shared_ptr<kernels::Library> library;
};

/// A copy between two threads' memories, by one of them; and until a waiting thread sees a word change.
struct ChannelTiming {
  double bytesPerSecond = 0, wakeSeconds = 0;
};
ChannelTiming timeChannel();

} // namespace maestro::profile
