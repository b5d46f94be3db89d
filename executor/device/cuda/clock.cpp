#include "executor/device/cuda/clock.h"

#include "transport/progress.h"

#include <algorithm>

namespace maestro::executor {

Result<std::unique_ptr<Clock>> Clock::create(const cuda::Context &context) {
  const cuda::Driver &driver = context.driver();
  context.makeCurrent();
  std::unique_ptr<Clock> created(new Clock(context));
  MAESTRO_CUDA_TRY(driver, cuStreamCreate, &created->stream, CU_STREAM_NON_BLOCKING);
  MAESTRO_CUDA_TRY(driver, cuEventCreate, &created->base, CU_EVENT_BLOCKING_SYNC);
  for (TimedEvent &each : created->events)
    MAESTRO_CUDA_TRY(driver, cuEventCreate, &each.event, CU_EVENT_DEFAULT);
  MAESTRO_TRY(created->synchronize());
  return created;
}

Clock::~Clock() {
  const cuda::Driver &driver = context.driver();
  context.makeCurrent();
  if (stream)
    (void)driver.cuStreamDestroy(stream);
  if (base)
    (void)driver.cuEventDestroy(base);
  for (TimedEvent &each : events)
    if (each.event)
      (void)driver.cuEventDestroy(each.event);
}

TimedEvent *Clock::take() {
  TimedEvent &event = events[next % kEvents];
  if (event.isTaken)
    return nullptr;
  event.isTaken = true;
  ++next;
  return &event;
}

/// What the host sees is later than what it sees of.
Status Clock::synchronize() {
  const cuda::Driver &driver = context.driver();
  MAESTRO_CUDA_TRY(driver, cuEventRecord, base, stream);
  MAESTRO_CUDA_TRY(driver, cuEventSynchronize, base);
  baseNs = transport::nowNs();
  return Status();
}

int64_t Clock::timeOf(TimedEvent &event) {
  constexpr int64_t kFreshNs = 2'000'000'000; // 24 bits of milliseconds are then exact to a quarter of a microsecond.
  context.makeCurrent();
  if (transport::nowNs() - baseNs > kFreshNs)
    (void)synchronize(); // Where it fails, the queues' next operation says so.
  float milliseconds = 0;
  (void)context.driver().cuEventElapsedTime(&milliseconds, base, event.event);
  event.isTaken = false;
  return std::min(baseNs + static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6), transport::nowNs());
}

} // namespace maestro::executor
