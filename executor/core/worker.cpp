// A rank: its stations, its part of a batch, the counts of the losses.
#include "executor/core/worker.h"

#include "plan/parameter_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace maestro::executor {

namespace fb = plan::fb;
using wavefront::TaskKind;

Worker::Worker(const Context &context, uint32_t rank, const WorkerOptions &options)
    : plan(context.plan), topology(context.topology), world(context.world), batcher(context.batcher), rank(rank),
      options(options), agreement(world, rank, plan->losses()->size()),
      times(topology, world, rank, plan->executables()->size(), options.sleepScale > 0),
      lossCount(plan->losses()->size()), scheduler(context.scheduler), evaluations(context.evaluations),
      order(context.plan, context.topology, rank) {
  skippedSteps = options.skippedSteps;
  scales.resize(lossCount);
  hyper.resize(plan::groupCount(*plan->training()));
  norms.assign(2 * topology.stations.size(), 0);
}

/// What is queued still uses the stations' programs and this worker's contexts.
Worker::~Worker() {
  if (ownDevice)
    (void)ownDevice->drain();
}

Result<std::unique_ptr<Worker>> Worker::create(const Context &context, uint32_t rank, std::unique_ptr<Device> device,
                                               const WorkerOptions &options) {
  std::unique_ptr<Worker> worker(new Worker(context, rank, options));
  worker->ownDevice = std::move(device);
  MAESTRO_TRY(worker->createStations());
  return worker;
}

/// This rank's ends.
Status Worker::openChannels() {
  receivers.resize(topology.rings.size());
  senders.resize(topology.rings.size());
  for (uint32_t r = 0; r < topology.rings.size(); ++r) {
    const RingFacts &ring = topology.rings[r];
    if (options.evaluates && ring.gradient)
      continue;
    if (topology.stations[ring.receiver].rank == rank) {
      MAESTRO_ASSIGN(receivers[r], world.receiver(r, *ownDevice));
    }
    senders[r].resize(ring.senders.size());
    for (uint32_t s = 0; s < ring.senders.size(); ++s)
      if (topology.stations[ring.senders[s]].rank == rank) {
        MAESTRO_ASSIGN(senders[r][s], world.sender(r, s, *ownDevice));
      }
  }
  return Status();
}

/// Rings of edges, and gradients that others add to, are memory that all ranks see.
Result<SharedRegions> Worker::sharedRegions(uint32_t station) {
  SharedRegions shared;
  for (uint32_t r = 0; r < topology.rings.size(); ++r)
    if (topology.rings[r].receiver == station && receivers[r])
      shared[topology.rings[r].region] = {receivers[r]->slots(), receivers[r]->slotStride()};
  if (std::optional<transport::Target> gradients = world.gradients(station)) {
    const auto &regions = *topology.executable(station).regions();
    for (uint32_t r = 0; r < regions.size(); ++r)
      if (regions.Get(r)->kind() == fb::RegionKind::Gradients) {
        MAESTRO_ASSIGN(Address base, ownDevice->adopt(*gradients, regions.Get(r)->bytes()));
        shared[r] = {base, 0};
      }
  }
  return shared;
}

/// How the station's ranks meet inside programs: in one exchange for all stations that they share.
Result<TensorGroup> Worker::tensorGroup(uint32_t station) {
  const StationFacts &facts = topology.stations[station];
  if (facts.members > 1 && !exchange) {
    MAESTRO_ASSIGN(exchange, world.exchange(station, *ownDevice));
  }
  return TensorGroup{facts.member, facts.members, exchange ? &*exchange : nullptr};
}

Status Worker::createStations() {
  MAESTRO_TRY(openChannels());
  stations.resize(topology.stations.size());
  slots.resize(topology.stations.size());
  sent.resize(topology.stations.size());
  for (uint32_t s = 0; s < stations.size(); ++s) {
    if (topology.stations[s].rank != rank)
      continue;
    MAESTRO_ASSIGN(SharedRegions shared, sharedRegions(s));
    MAESTRO_ASSIGN(TensorGroup group, tensorGroup(s));
    MAESTRO_ASSIGN(stations[s], Station::create(plan, topology, s, *ownDevice, batcher, options.growth, shared, group));
    slots[s].assign(stations[s]->instance().slots(), kNone);
    sent[s].assign(slots[s].size(), Point());
  }
  return gradientSums.open(world, topology, rank, *ownDevice);
}

Status Worker::prepareParameters() {
  for (auto &station : stations)
    if (station)
      MAESTRO_TRY(station->prepareParameters());
  return ownDevice->drain();
}

bool Worker::hasBackward(uint32_t station) const {
  return !evaluating && topology.program(station, fb::ProgramKind::Backward);
}

// ---- the batch
// --------------------------------------------------------------------------------------------------------

Status Worker::planBatch(const data::SampleBatch &batch, uint64_t batchStep) {
  step = batchStep;
  report("schedule of step", step);
  MAESTRO_ASSIGN(now, (evaluating ? *evaluations : scheduler).of(batch, step));
  bool isRecorded = !evaluating || options.evaluates;
  if (isRecorded && times.collects())
    batches.push_back({step, now->problem.sizes});
  MAESTRO_TRY(order.build(now->problem, now->schedule, evaluating));
  times.beginStep(step, isRecorded);
  sums.assign(now->schedule.microBatches.size() * lossCount, 0);
  counts.assign(sums.size(), 0);
  return Status();
}

MicroBatchData Worker::dataOf(uint32_t microBatch) const {
  const wavefront::Schedule &schedule = now->schedule;
  const wavefront::MicroBatch &group = schedule.microBatches[microBatch];
  MicroBatchData data;
  data.number = microBatch;
  data.samples = {now->samples.data() + group.firstSample, group.samples};
  data.dims = {schedule.dims.data() + group.firstDim, now->problem.dims.size()};
  data.step = step;
  return data;
}

// ---- losses
// -----------------------------------------------------------------------------------------------------------

/// Queues the counts of this rank's micro-batches.
Status Worker::queueCounts() {
  const wavefront::Schedule &schedule = now->schedule;
  for (uint32_t m = 0; m < schedule.microBatches.size(); ++m) {
    const wavefront::MicroBatch &group = schedule.microBatches[m];
    for (uint32_t s = 0; s < stations.size(); ++s) {
      const StationFacts &facts = topology.stations[s];
      if (!stations[s] || !facts.isLead() || facts.section != group.section || facts.replica != group.replica ||
          !stations[s]->program(fb::ProgramKind::Count))
        continue;
      MAESTRO_TRY(stations[s]->launchCount(dataOf(m), options.seed));
      stations[s]->readLosses(fb::BindingKind::LossCount, 0, {counts.data() + m * lossCount, lossCount});
    }
  }
  counted = ownDevice->record(Queue::Compute);
  scalesWritten = false;
  return Status();
}

/// This rank's counts, once; others are told.
Status Worker::publishCounts(LossTotals &totals) {
  MAESTRO_TRY(ownDevice->wait(counted));
  for (size_t i = 0; i < counts.size(); ++i)
    totals.counts[i % lossCount] += counts[i];
  return evaluating ? Status() : agreement.publishCounts(step, wavefront::hash(now->schedule), totals.counts);
}

/// The losses' global counts; then the scales: weight ÷ count.
Status Worker::awaitCounts(const LossTotals &totals) {
  allCounts = totals.counts;
  MAESTRO_TRY(agreement.awaitCounts(step, allCounts));
  for (uint32_t k = 0; k < lossCount; ++k) {
    const fb::Loss &loss = *plan->losses()->Get(k);
    double weight = loss.weight() * loss.term_weight();
    double count = divisor(loss, allCounts[k]);
    scales[k] = count != 0 ? static_cast<float>(weight / count) : 0.0f;
  }
  for (auto &station : stations)
    if (station)
      station->writeScales(scales);
  scalesWritten = true;
  return Status();
}

} // namespace maestro::executor
