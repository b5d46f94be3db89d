// What a step costs beside its kernels' own times: calls in a program, tasks on a device's queue, a step of a rank, and what passes
// between ranks. Measured with the executor's own device.
#pragma once

#include "base/status.h"
#include "executor/device/device.h"
#include "kernels/kernel.h"
#include "tools/profile/subjects.h"

#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace maestro::profile {

/// A copy between two threads' memories, by one of them; and until a sleeping thread runs.
struct ChannelTiming {
  double bytesPerSecond = 0, wakeSeconds = 0;
};
ChannelTiming timeChannel();

class DeviceStopwatch {
public:
  DeviceStopwatch(double seconds, int threads);

  /// A call's own, in a program: of one with almost no work.
  Result<double> callSeconds();
  /// A task's own: its data is written, it is launched and stamped, a loss is read, what it read is given back.
  Result<double> taskSeconds();
  /// A step's own: a rank's threads are woken and wait for each other, with a step's work between.
  Result<double> stepSeconds();

private:
  /// A block with a program's operands, and the program.
  struct Loaded {
    std::vector<executor::Address> bases;
    std::unique_ptr<executor::PreparedProgram> program;
  };
  executor::CallDescription describe(Subject subject, uint64_t &offset);
  Result<Loaded> load(std::span<const executor::CallDescription> calls, uint64_t bytes);
  Result<Loaded> loadWork(double seconds);

  double seconds;
  std::deque<Subject> subjects; ///< Whose names the device's programs keep.
  std::shared_ptr<kernels::Library> library;
  std::unique_ptr<executor::Device> device;
};

} // namespace maestro::profile
