// A bounded ring of commands and the thread that runs them in order. Neither side allocates once rows are long enough.
//
// Both sides meet at two counters, and take the mutex only where one of them sleeps: a store of one's own counter comes
// before the look at whether the other sleeps, and who goes to sleep says so before it looks at the counter again.
#pragma once

#include "executor/device/command.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace maestro::executor {

/// What a queue's thread does with its commands.
class CommandRunner {
public:
  virtual ~CommandRunner() = default;
  virtual void run(CommandQueue &queue, const Command &command, std::span<std::byte *const> pointers) = 0;
  /// Before a command's completion becomes visible.
  virtual void beforeCompletion(CommandQueue &queue, const Command &command, uint64_t number) = 0;
  virtual void sign(CommandQueue &queue, DeviceSign what) = 0;
};

class CommandQueue {
public:
  explicit CommandQueue(CommandRunner &runner) : runner(runner), ring(kRingSize) {}
  /// Runs what is queued to its end.
  void stop();
  ~CommandQueue() { stop(); }

  /// Host's thread. `pointers` are the command's own until it has completed.
  void push(const Command &command, std::span<std::byte *const> pointers = {});
  /// Host's thread: commands pushed so far, a point behind them.
  uint64_t pushed() const { return pushedCount.load(); }
  /// Any thread: returns when so many have completed.
  void awaitCompleted(uint64_t count);
  bool hasCompleted(uint64_t count) const { return completed.load() >= count; }

  /// What this thread's waits for words have learnt.
  transport::Spin spin;

private:
  static constexpr size_t kRingSize = 256;
  static constexpr uint64_t kNobody = ~uint64_t{0};

  void serve();
  /// Whether command `next` is there; false: no more will be.
  bool take(uint64_t next);
  void reserveRow(size_t count);
  std::byte **rowOf(uint64_t command) { return rows.data() + command % kRingSize * rowLength; }

  CommandRunner &runner;
  std::vector<Command> ring;
  size_t rowLength = 16;
  /// Pointers, a row per place in the ring; replaced by the host's thread while the queue is empty.
  std::vector<std::byte *> rows = std::vector<std::byte *>(kRingSize * rowLength);

  // All sequentially consistent: see above.
  alignas(64) std::atomic<uint64_t> pushedCount{0}; ///< The host's thread writes.
  std::atomic<bool> isIdle{false};                  ///< The queue's thread is about to sleep, or sleeps.
  alignas(64) std::atomic<uint64_t> completed{0};   ///< The queue's thread writes.
  std::atomic<uint64_t> awaited{kNobody};           ///< The least that somebody waits for; under the mutex.

  std::mutex mutex;
  std::condition_variable arrived, progressed;
  bool stopping = false; ///< Under the mutex.
  std::thread thread;
};

} // namespace maestro::executor
