#include "executor/device/cuda/cuda_queues.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>

namespace maestro::executor {

Result<std::unique_ptr<CudaQueues>> CudaQueues::create(const cuda::Context &context, const DeviceOptions &options,
                                                       Explain explain) {
  MAESTRO_ASSIGN(auto memory, PinnedBlock::create(context, sizeof(Control)));
  MAESTRO_ASSIGN(auto clock, Clock::create(context));
  std::unique_ptr<CudaQueues> created(
      new CudaQueues(context, options, std::move(explain), std::move(memory), std::move(clock)));
  std::array<Courier::Lane, kQueues> lanes;
  for (size_t q = 0; q < kQueues; ++q) {
    MAESTRO_ASSIGN(created->streams[q], Stream::create(context));
    MAESTRO_ASSIGN(auto ring, PinnedBlock::create(context, PinnedRing::kBytes));
    auto &words = created->control->queues[q];
    lanes[q] = {&created->rings[q].emplace(std::move(ring)), &words.reached, &words.sent};
  }
  MAESTRO_ASSIGN(created->asideStream, Stream::create(context));
  created->courier = std::make_unique<Courier>(*created, *created->clock, lanes, options.abort);
  return created;
}

CudaQueues::CudaQueues(const cuda::Context &context, const DeviceOptions &options, Explain explain, PinnedBlock memory,
                       std::unique_ptr<Clock> clock)
    : context(context), options(options), explain(std::move(explain)), controlMemory(std::move(memory)),
      control(new (controlMemory.get()) Control), clock(std::move(clock)) {}

void CudaQueues::finish() {
  for (auto &stream : streams)
    if (stream)
      stream->drain();
  if (courier)
    courier->stop(); // It has had its part in that, and looks at streams.
}

void CudaQueues::lose(Status status) {
  Status failed = std::move(status).withContext(context.name());
  fail(Status(failed.code(), std::string(failed.message()) + "; dmesg has the driver's reason (NVRM: Xid)"));
  if (courier)
    courier->lose();
}

void CudaQueues::mark(Queue queue, const Entry &entry) {
  if (failure)
    return;
  uint64_t number = courier->push(queue, entry);
  submit(queue, [&](CUstream stream) { // Whatever fails now: the courier waits for it.
    auto word = reinterpret_cast<CUdeviceptr>(&control->queues[static_cast<size_t>(queue)].reached);
    return context.driver().check(
        context.driver().cuStreamWriteValue64(stream, word, number, CU_STREAM_WRITE_VALUE_DEFAULT),
        "cuStreamWriteValue64");
  });
}

TimedEvent *CudaQueues::stamp(Queue queue) {
  TimedEvent *event;
  while (!(event = clock->take())) {
    if (failure)
      return nullptr;
    std::this_thread::sleep_for(std::chrono::microseconds(50)); // The courier gives some back.
  }
  submit(queue, [&](CUstream stream) {
    return context.driver().check(context.driver().cuEventRecord(event->event, stream), "cuEventRecord");
  });
  return event;
}

std::optional<PinnedRing::Piece> CudaQueues::takePiece(Queue queue, uint64_t bytes) {
  PinnedRing &ring = *rings[static_cast<size_t>(queue)];
  while (!failure) {
    uint64_t done = courier->done(queue);
    if (auto piece = ring.take(bytes))
      return piece;
    courier->await(queue, done + 1);
  }
  return std::nullopt;
}

Point CudaQueues::record(Queue queue) {
  context.makeCurrent();
  Result<uint64_t> point = streamOf(queue).record();
  if (!point)
    lose(std::move(point).takeStatus());
  return {queue, point ? *point : 0, courier->pushed(queue)};
}

void CudaQueues::await(Queue queue, Point point) {
  context.makeCurrent();
  if (Status status = streamOf(queue).await(streamOf(point.queue), point.count); !status.isOk())
    lose(std::move(status));
  awaitSent(queue, point);
}

void CudaQueues::markSend(Queue queue, const entry::SendDirectly &send) {
  if (failure)
    return;
  mark(queue, send);
  DirectSends &own = direct[static_cast<size_t>(queue)];
  own.entries[own.count++ % own.entries.size()] = courier->pushed(queue);
}

/// What was sent directly before the point. Of more than the ring holds the courier has done the older ones.
void CudaQueues::awaitSent(Queue queue, Point point) {
  const DirectSends &sends = direct[static_cast<size_t>(point.queue)];
  uint64_t before = sends.count, kept = std::min<uint64_t>(sends.count, sends.entries.size());
  while (kept > 0 && sends.entries[(before - 1) % sends.entries.size()] > point.sent)
    --before, --kept;
  transport::Word &sent = control->queues[static_cast<size_t>(point.queue)].sent;
  if (sent.count() < before)
    awaitWord(queue, sent, before,
              {options.rank, transport::Activity::AwaitingNetwork, "what was sent", before, transport::LaneKind::Device,
               false});
}

Status CudaQueues::wait(Point point) {
  context.makeCurrent();
  Stream &stream = streamOf(point.queue);
  if (!stream.hasPassed(point.count) || courier->done(point.queue) < point.sent) {
    sign(DeviceSign::HostAwaits);
    if (Status status = stream.synchronize(point.count); !status.isOk())
      lose(std::move(status));
    courier->await(point.queue, point.sent);
    sign(DeviceSign::HostResumes);
  }
  if (hasFailed())
    courier->cease();
  return failure.status();
}

void CudaQueues::waitForValue(Queue queue, const void *word, uint64_t atLeast) {
  submit(queue, [&](CUstream stream) {
    return context.driver().check(context.driver().cuStreamWaitValue64(stream, reinterpret_cast<CUdeviceptr>(word),
                                                                       atLeast, CU_STREAM_WAIT_VALUE_GEQ),
                                  "cuStreamWaitValue64");
  });
}

/// The entry comes first: from then on the courier ends the wait when the job is aborted.
void CudaQueues::awaitWord(Queue queue, transport::Word &word, uint64_t atLeast, const transport::WaitNote &note) {
  if (failure)
    return;
  uint64_t number = courier->push(queue, entry::Await{&word, atLeast, note});
  waitForValue(queue, &word.value, atLeast);
  submit(queue, [&](CUstream stream) {
    auto reached = reinterpret_cast<CUdeviceptr>(&control->queues[static_cast<size_t>(queue)].reached);
    return context.driver().check(
        context.driver().cuStreamWriteValue64(stream, reached, number, CU_STREAM_WRITE_VALUE_DEFAULT),
        "cuStreamWriteValue64");
  });
}

void CudaQueues::begin(Queue queue, Span &span) {
  if (failure)
    return;
  if (TimedEvent *event = stamp(queue))
    mark(queue, entry::Begin{&span, event});
}

void CudaQueues::end(Queue queue, Span &span) {
  if (failure)
    return;
  if (span.leastNs > 0) {
    auto &rested = control->queues[static_cast<size_t>(queue)].rested;
    uint64_t number = ++rests[static_cast<size_t>(queue)];
    mark(queue, entry::Rest{&span, &rested, number});
    waitForValue(queue, &rested, number);
  }
  if (TimedEvent *event = stamp(queue))
    mark(queue, entry::End{&span, event});
}

bool CudaQueues::hasFailed() {
  if (failure)
    return true;
  if (std::atomic_ref(control->failure.code).load() == kernels::cuda::FailureCode::None)
    return false;
  fail(explain(control->failure));
  return true;
}

void CudaQueues::lookAfterGpu() {
  context.makeCurrent();
  CUresult result = context.driver().cuStreamQuery(streamOf(Queue::Compute).get());
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY)
    lose(context.driver().check(result, "cuStreamQuery"));
}

} // namespace maestro::executor
