#include "executor/device/command_queue.h"

#include <algorithm>
#include <sys/prctl.h>

namespace maestro::executor {

bool touchesMemory(const Command &command) {
  return !std::holds_alternative<command::Await>(command) && !std::holds_alternative<command::AwaitWord>(command) &&
         !std::holds_alternative<command::Signal>(command) && !std::holds_alternative<command::Begin>(command) &&
         !std::holds_alternative<command::End>(command);
}

void CommandQueue::stop() {
  if (!thread.joinable())
    return;
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  arrived.notify_one();
  thread.join();
}

void CommandQueue::push(const Command &command, std::span<std::byte *const> pointers) {
  if (!thread.joinable())
    thread = std::thread([this] { serve(); });
  reserveRow(pointers.size());
  if (pushedCount >= kRingSize)
    awaitCompleted(pushedCount - kRingSize + 1);
  {
    std::lock_guard lock(mutex);
    std::copy(pointers.begin(), pointers.end(), rowOf(pushedCount));
    ring[pushedCount % kRingSize] = command;
    ++pushedCount;
  }
  arrived.notify_one();
}

void CommandQueue::reserveRow(size_t count) {
  if (count <= rowLength)
    return;
  awaitCompleted(pushedCount); // The thread uses the rows that are about to be replaced.
  rows.resize(kRingSize * count);
  rowLength = count;
}

bool CommandQueue::hasCompleted(uint64_t count) {
  std::lock_guard lock(mutex);
  return completed >= count;
}

/// Woken when it is reached, not before: most commands take less than a wake-up.
void CommandQueue::awaitCompleted(uint64_t count) {
  std::unique_lock lock(mutex);
  while (completed < count) {
    awaited = std::min(awaited, count);
    progressed.wait(lock);
  }
}

void CommandQueue::serve() {
  ::prctl(PR_SET_NAME, kCpuDeviceThread); // For ps and top; threads that kernels start are called the same.
  Command command;
  for (uint64_t next = 0; take(next, command); ++next) {
    runner.run(*this, command, {rowOf(next), rowLength});
    runner.beforeCompletion(*this, command, next);
    bool isAwaited;
    {
      std::lock_guard lock(mutex);
      completed = next + 1;
      isAwaited = completed >= awaited;
      if (isAwaited)
        awaited = kNobody; // Who waits for more says so again.
    }
    if (isAwaited)
      progressed.notify_all();
  }
}

/// The next command when it is there; false: no more will be.
bool CommandQueue::take(uint64_t next, Command &command) {
  std::unique_lock lock(mutex);
  if (pushedCount <= next && !stopping) {
    runner.sign(*this, DeviceSign::Idle);
    arrived.wait(lock, [&] { return pushedCount > next || stopping; });
    runner.sign(*this, DeviceSign::Busy);
  }
  if (pushedCount <= next)
    return false;
  command = ring[next % kRingSize];
  return true;
}

} // namespace maestro::executor
