// Times of events on the host's clock.
#pragma once

#include "cuda/context.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace maestro::executor {

/// An event with a time, for one use.
struct TimedEvent {
  CUevent event = nullptr;
  std::atomic<bool> isTaken{false};
};

/// Threads: the host's takes events, the courier's asks for their times and gives them back.
class Clock {
public:
  static Result<std::unique_ptr<Clock>> create(const cuda::Context &context);
  ~Clock();

  /// Null while all are in use.
  TimedEvent *take();
  /// When the event, which has been reached, was reached, in steady-clock nanoseconds; gives it back.
  int64_t timeOf(TimedEvent &event);

private:
  static constexpr size_t kEvents = 1024;
  explicit Clock(const cuda::Context &context) : context(context) {}
  Status synchronize();

  const cuda::Context &context;
  CUstream stream = nullptr; ///< On which nothing else runs.
  CUevent base = nullptr;
  int64_t baseNs = 0;
  std::array<TimedEvent, kEvents> events;
  size_t next = 0;
};

} // namespace maestro::executor
