// The tasks of a step, one after the other: what they wait for, run, send and give back.
#include "executor/core/worker.h"

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

/// What the task is the first to read must be there.
Status Worker::queueArrivals(const RankTask &task) {
  for (const Receive &receive : order.receivesOf(task)) {
    bool isNew = task.kind == (topology.rings[receive.ring].gradient ? TaskKind::Backward : TaskKind::Forward);
    if (isNew)
      MAESTRO_TRY(receivers[receive.ring]->awaitArrivals(Queue::Compute, receive.sequence,
                                                         {receive.posts, step, task.microBatch}));
  }
  return Status();
}

/// What is sent lies in the slot or in the station's workspace, until it has left.
void Worker::awaitSent(uint32_t station, uint32_t slot) { ownDevice->await(Queue::Compute, sent[station][slot]); }

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
  MAESTRO_TRY(queueArrivals(task));
  selectCopies(task);
  int64_t planned = plannedNs(task);
  if (options.adapts && !evaluating)
    times.expect(task.station, task.kind == TaskKind::Forward, planned);
  times.begin(*ownDevice, task.station, task.microBatch, spanKind(task.kind), planned);
  MAESTRO_ASSIGN(uint32_t slot, launch(task));
  times.end(*ownDevice);
  MAESTRO_TRY(queueSends(task, slot));
  return queueReleases(task);
}

/// Of the micro-batch's last task that computes losses.
void Worker::readSums(const RankTask &task, uint32_t slot) {
  if (topology.stations[task.station].isLead())
    stations[task.station]->readLosses(fb::BindingKind::LossSum, slot,
                                       {sums.data() + task.microBatch * lossCount, lossCount});
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
    awaitSent(task.station, slot);
    MAESTRO_TRY(station.launchForward(data, options.seed, slot, evaluating));
    if (!hasBackward(task.station)) { // What follows on the queue finds the slot free.
      readSums(task, slot);
      slots[task.station][slot] = kNone;
    }
    return slot;
  }
  uint32_t slot = slotOf(task.station, task.microBatch);
  if (slot == kNone)
    return Status::internal(fmt::format("step {}: micro-batch {} has no slot at station {}; the schedule is wrong",
                                        step, task.microBatch, task.station));
  bool splits = scheduler.planned().sections[topology.stations[task.station].section].splitsBackward;
  awaitSent(task.station, slot);
  if (task.kind == TaskKind::Backward) {
    MAESTRO_TRY(station.launchBackward(data, slot));
    readSums(task, slot);
  } else if (station.program(fb::ProgramKind::WeightGradient)) // Else the stage has nothing that can wait.
    MAESTRO_TRY(station.launchWeightGradient(data, slot));
  if (task.kind == TaskKind::WeightGradient || !splits)
    slots[task.station][slot] = kNone;
  return slot;
}

Status Worker::queueSends(const RankTask &task, uint32_t slot) {
  if (task.sends == 0)
    return Status();
  ExecutableInstance &instance = stations[task.station]->instance();
  ownDevice->await(Queue::Send, ownDevice->record(Queue::Compute));
  for (const Send &send : order.sendsOf(task)) {
    const RingFacts &ring = topology.rings[send.ring];
    uint32_t buffer = instance.boundBuffer(
        ring.gradient ? fb::BindingKind::EdgeGradientOutput : fb::BindingKind::EdgeOutput, ring.edge);
    Sender &sender = *senders[send.ring][send.sender];
    sender.awaitCredit(Queue::Send, send.sequence);
    MAESTRO_TRY(sender.send(Queue::Send, send.sequence, instance.address(buffer, slot), order.boxesOf(send),
                            {step, send.microBatch, send.rows, send.bytes}));
  }
  // A workspace serves all slots.
  std::fill(sent[task.station].begin(), sent[task.station].end(), ownDevice->record(Queue::Send));
  return Status();
}

/// What was read for the last time is cleared, so that whoever comes next finds zeros where nothing arrives (padding),
/// and given back.
Status Worker::queueReleases(const RankTask &task) {
  ExecutableInstance &instance = stations[task.station]->instance();
  for (const Receive &receive : order.receivesOf(task)) {
    if (!receive.last)
      continue;
    const RingFacts &ring = topology.rings[receive.ring];
    uint32_t buffer = instance.boundBuffer(
        ring.gradient ? fb::BindingKind::EdgeGradientInput : fb::BindingKind::EdgeInput, ring.edge);
    Result<BoundShapes *> shapes = instance.bind(dataOf(task.microBatch).dims); // Seen: it was launched.
    if (shapes && !isBetweenStages(*plan->edges()->Get(ring.edge)))             // There padding arrives, too.
      ownDevice->fillZero(Queue::Compute, instance.address(buffer, 0), instance.bytes(buffer, **shapes));
    MAESTRO_TRY(receivers[receive.ring]->release(Queue::Compute, receive.sequence));
  }
  return Status();
}

/// Of data that a kernel refuses. Samples have no part in what else may happen to a device.
Status Worker::withSamples(const Status &status) const {
  std::string text(status.message());
  if (status.code() == StatusCode::InvalidInput && times.running() != kNone) {
    constexpr size_t kMost = 3;
    MicroBatchData data = dataOf(times.running());
    text += "; in a micro-batch of ";
    for (size_t i = 0; i < std::min(data.samples.size(), kMost); ++i)
      text += (i ? ", " : "") + data.samples[i]->describe();
    if (data.samples.size() > kMost)
      text += fmt::format(" and {} more; --pin '*.micro_batch=1' tells which", data.samples.size() - kMost);
  }
  return Status(status.code(), std::move(text));
}

/// Counts leave first: filling the device's queue may take until others, who wait for the counts, have got on.
Status Worker::queueTasks(LossTotals &totals) {
  MAESTRO_TRY(publishCounts(totals));
  for (const RankTask &task : order.tasks())
    MAESTRO_TRY(queueTask(task, totals));
  if (!scalesWritten && !evaluating) // No backward task here; the others' records must be read all the same.
    MAESTRO_TRY(awaitCounts(totals));
  return Status();
}

/// Waits for what is queued, looks at what has arrived, and adds up this rank's losses.
Status Worker::finishTasks(LossTotals &totals) {
  MAESTRO_TRY(ownDevice->drain());
  for (size_t ring = 0; ring < receivers.size(); ++ring)
    if (Receiver *receiver = receivers[ring].get()) {
      MAESTRO_TRY(receiver->checkHeaders());
      world.counters().rings[ring].store(static_cast<int64_t>(receiver->bytesReceived()), std::memory_order_relaxed);
    }
  for (size_t m = 0; m < now->schedule.microBatches.size(); ++m)
    for (uint32_t k = 0; k < lossCount; ++k)
      totals.sums[k] += sums[m * lossCount + k];
  return Status();
}

} // namespace maestro::executor
