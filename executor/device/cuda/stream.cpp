#include "executor/device/cuda/stream.h"

namespace maestro::executor {

Result<std::unique_ptr<Stream>> Stream::create(const cuda::Context &context) {
  const cuda::Driver &driver = context.driver();
  context.makeCurrent();
  std::unique_ptr<Stream> created(new Stream(context));
  MAESTRO_CUDA_TRY(driver, cuStreamCreate, &created->stream, CU_STREAM_NON_BLOCKING);
  for (CUevent &event : created->events)
    MAESTRO_CUDA_TRY(driver, cuEventCreate, &event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
  return created;
}

Stream::~Stream() {
  const cuda::Driver &driver = context.driver();
  context.makeCurrent();
  if (stream)
    (void)driver.cuStreamDestroy(stream);
  for (CUevent event : events)
    if (event)
      (void)driver.cuEventDestroy(event);
}

void Stream::drain() {
  context.makeCurrent();
  (void)context.driver().cuStreamSynchronize(stream); // What fails has been said, or matters no longer.
}

Status Stream::makeRoom() {
  if (operations - operationsAt[recorded % kPoints] >= kOperationsPerPoint)
    if (Result<uint64_t> point = record(); !point)
      return std::move(point).takeStatus();
  while (operations - operationsAt[passed % kPoints] >= kMaxOperations && passed < recorded)
    MAESTRO_TRY(synchronize(passed + 1));
  ++operations;
  return Status();
}

Result<uint64_t> Stream::record() {
  if (operations == operationsAt[recorded % kPoints])
    return recorded;           // Nothing has come since.
  if (recorded + 1 >= kPoints) // Whoever still asks for the point whose event this was need not wait.
    MAESTRO_TRY(synchronize(recorded + 1 - kPoints + 1));
  const cuda::Driver &driver = context.driver();
  MAESTRO_CUDA_TRY(driver, cuEventRecord, eventOf(recorded + 1), stream);
  operationsAt[++recorded % kPoints] = operations;
  return recorded;
}

bool Stream::hasPassed(uint64_t point) {
  if (point <= passed)
    return true;
  if (context.driver().cuEventQuery(eventOf(point)) != CUDA_SUCCESS)
    return false;
  passed = point;
  return true;
}

Status Stream::synchronize(uint64_t point) {
  if (point <= passed)
    return Status();
  const cuda::Driver &driver = context.driver();
  MAESTRO_CUDA_TRY(driver, cuEventSynchronize, eventOf(point));
  passed = point;
  return Status();
}

Status Stream::await(Stream &other, uint64_t point) {
  if (&other == this || other.hasPassed(point))
    return Status();
  const cuda::Driver &driver = context.driver();
  MAESTRO_TRY(makeRoom());
  MAESTRO_CUDA_TRY(driver, cuStreamWaitEvent, stream, other.eventOf(point), CU_EVENT_WAIT_DEFAULT);
  return Status();
}

} // namespace maestro::executor
