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
  uint64_t next = pushedCount.load();
  if (next >= kRingSize && !hasCompleted(next - kRingSize + 1))
    awaitCompleted(next - kRingSize / 2); // One wake-up for many commands.
  std::copy(pointers.begin(), pointers.end(), rowOf(next));
  ring[next % kRingSize] = command;
  pushedCount.store(next + 1);
  if (!isIdle.load())
    return;
  { std::lock_guard lock(mutex); } // The thread sleeps by now, or sees the command.
  arrived.notify_one();
}

void CommandQueue::reserveRow(size_t count) {
  if (count <= rowLength)
    return;
  awaitCompleted(pushedCount.load()); // The thread uses the rows that are about to be replaced.
  rows.resize(kRingSize * count);
  rowLength = count;
}

/// Woken when it is reached, not before: most commands take less than a wake-up.
void CommandQueue::awaitCompleted(uint64_t count) {
  if (completed.load() >= count)
    return;
  std::unique_lock lock(mutex);
  while (true) {
    awaited.store(std::min(awaited.load(), count));
    if (completed.load() >= count)
      return;
    progressed.wait(lock);
  }
}

void CommandQueue::serve() {
  ::prctl(PR_SET_NAME, kCpuDeviceThread); // For ps and top; threads that kernels start are called the same.
  for (uint64_t next = 0; take(next); ++next) {
    const Command &command = ring[next % kRingSize]; // Stays until it has completed.
    runner.run(*this, command, {rowOf(next), rowLength});
    runner.beforeCompletion(*this, command, next);
    completed.store(next + 1);
    if (next + 1 < awaited.load())
      continue;
    {
      std::lock_guard lock(mutex);
      awaited.store(kNobody); // Who waits for more says so again.
    }
    progressed.notify_all();
  }
}

bool CommandQueue::take(uint64_t next) {
  if (pushedCount.load() > next)
    return true;
  std::unique_lock lock(mutex);
  runner.sign(*this, DeviceSign::Idle);
  isIdle.store(true);
  arrived.wait(lock, [&] { return pushedCount.load() > next || stopping; });
  isIdle.store(false);
  runner.sign(*this, DeviceSign::Busy);
  return pushedCount.load() > next;
}

} // namespace maestro::executor
