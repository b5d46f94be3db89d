// What a step costs beside its kernels' own times: calls in a program, tasks on a device's queue, a step of a rank, and
// what passes between ranks. Measured with the executor's own device.
#pragma once

#include "base/status.h"
#include "executor/device/device.h"
#include "kernels/kernel.h"
#include "tools/profile/subjects.h"

#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace maestro::profile {

/// A copy between two threads' memories, by one of them; and until a sleeping thread runs.
struct ChannelTiming {
  double bytesPerSecond = 0, wakeSeconds = 0;
};
ChannelTiming timeChannel();

/// Processors that other devices use: who hands work over and waits for it finds no idle one.
class BusyProcessors {
public:
  explicit BusyProcessors(int count);
  ~BusyProcessors();

private:
  std::atomic<bool> stops{false};
  std::vector<std::thread> threads;
};

class DeviceStopwatch {
public:
  /// Of a CPU device of so many threads; `others` more processors work meanwhile.
  DeviceStopwatch(double seconds, int threads, int others);
  /// Of any device.
  DeviceStopwatch(double seconds, std::unique_ptr<executor::Device> device);

  /// A call's own, in a program: of one with almost no work.
  Result<double> callSeconds();
  /// A task's own: its data is written, it is launched and stamped, a loss is read, what it read is given back.
  Result<double> taskSeconds();
  /// Of a call among others like it, on random operands: as fast as the device takes them. For so long, in each of some
  /// rounds.
  Result<double> secondsOf(const Subject &subject, double secondsEach);
  /// From the host's memory to the device's and back, the slower way; and until the host knows of a little.
  Result<ChannelTiming> hostChannel(uint64_t bytes);
  uint64_t allocatedBytes() const { return device->allocatedBytes(); }

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
  Result<Loaded> loadWork(double wanted, bool ofAllThreads);
  Status makePool(uint64_t bytes);
  void refresh(const executor::CallDescription &call);

  double seconds;
  int threads, others;
  std::deque<Subject> subjects; ///< Whose names the device's programs keep.
  std::shared_ptr<kernels::Library> library;
  std::unique_ptr<executor::Device> device;
  executor::Address pool, noise; ///< Operands of secondsOf(); random numbers to fill them with.
  uint64_t poolBytes = 0;
};

} // namespace maestro::profile
