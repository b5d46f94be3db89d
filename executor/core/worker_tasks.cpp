// The tasks of a step, one after the other: what they wait for, run, send and give back.
#include "executor/core/worker.h"

#include "executor/core/worker_work.h"
#include "executor/metrics/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace maestro::executor {

namespace fb = plan::fb;
using wavefront::TaskKind;

namespace {
int64_t taskNs(const wavefront::Problem &problem, const StationFacts &facts, TaskKind kind, const int64_t *dims) {
  const wavefront::Stage &stage = problem.sections[facts.section].stages[facts.stage];
  return wavefront::evaluate(kind == TaskKind::Forward    ? stage.forward
                             : kind == TaskKind::Backward ? stage.backward
                                                          : stage.weightGradient,
                             dims);
}

TaskSpan::Kind spanKind(TaskKind kind) {
  return kind == TaskKind::Forward    ? TaskSpan::Kind::Forward
         : kind == TaskKind::Backward ? TaskSpan::Kind::Backward
                                      : TaskSpan::Kind::WeightGradient;
}
} // namespace

int64_t Worker::plannedNs(const RankTask &task) const {
  return taskNs(scheduler.planned(), topology.stations[task.station], task.kind, dataOf(task.microBatch).dims.data());
}

/// The plan's prediction for a task that is about to run.
void Worker::expectTime(const RankTask &task) {
  const StationFacts &facts = topology.stations[task.station];
  expectedNs[2 * facts.executable + (task.kind == TaskKind::Forward ? 0 : 1)] +=
      static_cast<double>(taskNs(scheduler.planned(), facts, task.kind, dataOf(task.microBatch).dims.data()));
}

uint32_t Worker::takeSlot(uint32_t station, uint32_t microBatch) {
  auto &owners = slots[station];
  auto free = std::find(owners.begin(), owners.end(), kNone);
  if (free == owners.end())
    return kNone;
  *free = microBatch;
  return static_cast<uint32_t>(free - owners.begin());
}

uint32_t Worker::slotOf(uint32_t station, uint32_t microBatch) const {
  const auto &owners = slots[station];
  auto own = std::find(owners.begin(), owners.end(), microBatch);
  return own == owners.end() ? kNone : static_cast<uint32_t>(own - owners.begin());
}

/// In the device's queue: waits for what the task reads, and for places for what it will send.
Status Worker::runAwait(void *context, std::span<std::byte *const>) {
  auto &work = *static_cast<AwaitWork *>(context);
  Worker &worker = *work.worker;
  const RankTask &task = *work.task;
  for (const Receive &receive : worker.order.receivesOf(task)) {
    bool isNew = task.kind == (worker.topology.rings[receive.ring].gradient ? TaskKind::Backward : TaskKind::Forward);
    if (!isNew)
      continue;
    transport::Receiver &receiver = *worker.wiring.channels[receive.ring].receiver;
    if (Status status = receiver.awaitArrivals(receive.sequence, {receive.posts, worker.step, task.microBatch},
                                               *worker.wiring.abort);
        !status.isOk())
      return worker.fail(status);
  }
  for (const Send &send : worker.order.sendsOf(task))
    if (Status status =
            worker.wiring.channels[send.ring].senders[send.sender]->awaitCredit(send.sequence, *worker.wiring.abort);
        !status.isOk())
      return worker.fail(status);
  return Status();
}

void Worker::queueAwait(const RankTask &task) {
  if (task.receives + task.sends == 0)
    return;
  AwaitWork &work = awaitWork[awaitsUsed++];
  work = {this, &task};
  ownDevice->call(runAwait, &work, {});
}

/// Which slot of each ring the task's programs read.
void Worker::selectCopies(const RankTask &task) {
  for (const Receive &receive : order.receivesOf(task)) {
    const RingFacts &ring = topology.rings[receive.ring];
    stations[task.station]->instance().selectCopy(ring.region, static_cast<uint32_t>(receive.sequence % ring.slots));
  }
}

Status Worker::queueTask(const RankTask &task, LossTotals &totals) {
  if (task.kind != TaskKind::Forward && !hasBackward(task.station))
    return Status(); // A stage whose parameters are all frozen.
  report(metrics::kTaskNames[static_cast<size_t>(spanKind(task.kind))].data(), task.microBatch);
  if (task.kind == TaskKind::Backward && !scalesWritten)
    MAESTRO_TRY(awaitCounts(totals));
  queueAwait(task);
  selectCopies(task);
  StampWork &stamp = startSpan(task.station, task.microBatch, spanKind(task.kind), plannedNs(task));
  if (options.adapts)
    expectTime(task);
  MAESTRO_ASSIGN(uint32_t slot, launch(task));
  endSpan(stamp);
  queueSends(task, slot);
  queueReleases(task);
  return Status();
}

/// Returns the slot that the task ran on, which it may have given back.
Result<uint32_t> Worker::launch(const RankTask &task) {
  Station &station = *stations[task.station];
  MicroBatchData data = dataOf(task.microBatch);
  if (task.kind == TaskKind::Forward) {
    uint32_t slot = takeSlot(task.station, task.microBatch);
    if (slot == kNone)
      return Status::internal(
          fmt::format("step {}: micro-batch {} finds no free slot at station {}; the schedule is wrong", step,
                      task.microBatch, task.station));
    MAESTRO_TRY(station.launchForward(data, options.seed, slot, options.evaluates));
    if (topology.stations[task.station].isLead())
      station.readLosses(fb::BindingKind::LossSum, slot, {sums.data() + task.microBatch * lossCount, lossCount});
    if (!hasBackward(task.station)) // What follows on the queue finds the slot free.
      slots[task.station][slot] = kNone;
    return slot;
  }
  uint32_t slot = slotOf(task.station, task.microBatch);
  if (slot == kNone)
    return Status::internal(fmt::format("step {}: micro-batch {} has no slot at station {}; the schedule is wrong",
                                        step, task.microBatch, task.station));
  bool splits = scheduler.planned().sections[topology.stations[task.station].section].splitsBackward;
  if (task.kind == TaskKind::Backward)
    MAESTRO_TRY(station.launchBackward(data, slot));
  else if (station.program(fb::ProgramKind::WeightGradient)) // Else the stage has nothing that can wait.
    MAESTRO_TRY(station.launchWeightGradient(data, slot));
  if (task.kind == TaskKind::WeightGradient || !splits)
    slots[task.station][slot] = kNone;
  return slot;
}

Status Worker::fail(const Status &status) {
  wiring.abort->raise(rank, status);
  return Status(status.code(), std::string(status.message()));
}

Status Worker::runSend(void *context, std::span<std::byte *const> pointers) {
  auto &work = *static_cast<SendWork *>(context);
  Worker &worker = *work.worker;
  const Send &send = *work.send;
  transport::Sender &sender = *worker.wiring.channels[send.ring].senders[send.sender];
  for (transport::Box box : worker.order.boxesOf(send)) {
    box.source = pointers[0] + reinterpret_cast<uintptr_t>(box.source);
    if (Status status = sender.write(send.sequence, {&box, 1}); !status.isOk())
      return worker.fail(status);
  }
  if (Status status = sender.post(send.sequence, {worker.step, send.microBatch, send.rows, send.bytes}); !status.isOk())
    return worker.fail(status);
  return Status();
}

void Worker::queueSends(const RankTask &task, uint32_t slot) {
  ExecutableInstance &instance = stations[task.station]->instance();
  for (const Send &send : order.sendsOf(task)) {
    const RingFacts &ring = topology.rings[send.ring];
    uint32_t buffer = instance.boundBuffer(
        ring.gradient ? fb::BindingKind::EdgeGradientOutput : fb::BindingKind::EdgeOutput, ring.edge);
    SendWork &work = sendWork[sendsUsed++];
    work = {this, &send};
    Address address = instance.address(buffer, slot); // Sent before the next task of the queue.
    ownDevice->call(runSend, &work, {&address, 1});
  }
}

Status Worker::runRelease(void *context, std::span<std::byte *const>) {
  auto &work = *static_cast<ReleaseWork *>(context);
  Status status = work.worker->wiring.channels[work.ring].receiver->release(work.sequence);
  return status.isOk() ? Status() : work.worker->fail(status);
}

/// What was read for the last time is cleared, so that whoever comes next finds zeros where nothing arrives (padding),
/// and given back.
void Worker::queueReleases(const RankTask &task) {
  ExecutableInstance &instance = stations[task.station]->instance();
  for (const Receive &receive : order.receivesOf(task)) {
    if (!receive.last)
      continue;
    const RingFacts &ring = topology.rings[receive.ring];
    uint32_t buffer = instance.boundBuffer(
        ring.gradient ? fb::BindingKind::EdgeGradientInput : fb::BindingKind::EdgeInput, ring.edge);
    Result<BoundShapes *> shapes = instance.bind(dataOf(task.microBatch).dims); // Seen: it was launched.
    if (shapes && !isBetweenStages(*plan->edges()->Get(ring.edge)))             // There padding arrives, too.
      ownDevice->fillZero(instance.address(buffer, 0), instance.bytes(buffer, **shapes));
    ReleaseWork &work = releaseWork[releasesUsed++];
    work = {this, receive.ring, receive.sequence};
    ownDevice->call(runRelease, &work, {});
  }
}

Worker::StampWork &Worker::startSpan(uint32_t station, uint32_t microBatch, TaskSpan::Kind kind, int64_t plannedNs) {
  StampWork &stamp = stampWork[stampsUsed++];
  stamp = {this, {station, microBatch, kind, step, 0, 0}, options.sleepScale > 0 ? plannedNs : 0, plannedNs, false};
  ownDevice->call(runStamp, &stamp, {});
  return stamp;
}

void Worker::endSpan(StampWork &stamp) { ownDevice->call(runStamp, &stamp, {}); }

Status Worker::runStamp(void *context, std::span<std::byte *const>) {
  auto &work = *static_cast<StampWork *>(context);
  Worker &worker = *work.worker;
  if (!work.started) {
    work.started = true;
    worker.running = work.span.kind <= TaskSpan::Kind::WeightGradient ? work.span.microBatch : kNone;
    worker.reportTask(work);
    work.span.startNs = nowNs();
    return Status();
  }
  if (int64_t left = work.span.startNs + work.leastNs - nowNs(); left > 0)
    std::this_thread::sleep_for(std::chrono::nanoseconds(left));
  work.span.endNs = nowNs();
  worker.running = kNone;
  worker.account(work.span);
  return Status();
}

/// To whoever watches: which task runs, and how long each of its kernels may take.
void Worker::reportTask(const StampWork &stamp) const {
  if (topology.ranks < 2)
    return;
  const transport::Progress &progress = wiring.abort->progress();
  progress.expect(rank, transport::LaneKind::Device, stamp.plannedNs);
  progress.report(rank, transport::LaneKind::Device, transport::Activity::Running,
                  metrics::kTaskNames[static_cast<size_t>(stamp.span.kind)].data(), stamp.span.microBatch);
}

/// On the device's thread.
void Worker::account(const TaskSpan &span) {
  int64_t ns = span.endNs - span.startNs;
  wiring.busyNs.devices[rank].fetch_add(ns, std::memory_order_relaxed);
  if (span.kind <= TaskSpan::Kind::WeightGradient) {
    wiring.busyNs.stations[span.station].fetch_add(ns, std::memory_order_relaxed);
    size_t kind = span.kind == TaskSpan::Kind::Forward ? 0 : 1;
    measuredNs[2 * topology.stations[span.station].executable + kind] += static_cast<double>(ns);
  }
  if (spans.size() < spans.capacity())
    spans.push_back(span);
}

Status Worker::withSamples(const Status &status) const {
  std::string text(status.message());
  if (running != kNone) {
    constexpr size_t kMost = 3;
    MicroBatchData data = dataOf(running);
    text += "; in a micro-batch of ";
    for (size_t i = 0; i < std::min(data.samples.size(), kMost); ++i)
      text += (i ? ", " : "") + data.samples[i]->describe();
    if (data.samples.size() > kMost)
      text += fmt::format(" and {} more; --pin '*.micro_batch=1' tells which", data.samples.size() - kMost);
  }
  return Status(status.code(), std::move(text));
}

/// Counts leave once there is a task for the device to go on with: filling its queue further may take until others, who
/// wait for the counts, have got on.
Status Worker::queueTasks(LossTotals &totals) {
  for (const RankTask &task : order.tasks()) {
    MAESTRO_TRY(queueTask(task, totals));
    MAESTRO_TRY(publishCounts(totals));
  }
  MAESTRO_TRY(publishCounts(totals));
  if (!scalesWritten && !options.evaluates) // No backward task here; the others' records must be read all the same.
    MAESTRO_TRY(awaitCounts(totals));
  return Status();
}

/// Waits for what is queued, and adds up this rank's losses.
Status Worker::finishTasks(LossTotals &totals) {
  MAESTRO_TRY(ownDevice->wait(ownDevice->record()));
  for (size_t m = 0; m < now->schedule.microBatches.size(); ++m)
    for (uint32_t k = 0; k < lossCount; ++k)
      totals.sums[k] += sums[m * lossCount + k];
  return Status();
}

} // namespace maestro::executor
