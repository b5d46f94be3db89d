#include "executor/core/worker.h"

#include "executor/core/hyper_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <thread>

namespace maestro::executor {

namespace fb = plan::fb;
using wavefront::TaskKind;

namespace {
int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Of this thread: what a busy machine makes it wait does not count.
int64_t processorNs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}
} // namespace

struct Worker::SendWork {
  Worker *worker = nullptr;
  const Send *send = nullptr;
};
struct Worker::ReleaseWork {
  Worker *worker = nullptr;
  uint32_t ring = 0;
  uint64_t sequence = 0;
};
/// Start and end of one task; the end accounts.
struct Worker::StampWork {
  Worker *worker = nullptr;
  TaskSpan span;
  int64_t leastNs = 0; ///< It sleeps until it has taken so long.
  bool started = false;
};
struct Worker::ReduceWork {
  transport::local::Reduction::Member *member = nullptr;
  Worker *worker = nullptr;
  uint64_t turn = 0;
  bool gathers = false;
  uint32_t station = 0;
};

Worker::Worker(const Context &context, uint32_t rank, const WorkerOptions &options)
    : plan(context.plan), topology(context.topology), wiring(context.wiring), batcher(context.batcher), rank(rank),
      options(options), sampleSymbol(findSampleSymbol(context.plan)), lossCount(context.plan->losses()->size()),
      problem(makeProblem(context.plan, context.topology, {options.evaluates, options.onePiece})),
      order(context.plan, context.topology, rank) {
  scales.resize(lossCount);
  if (options.sleepScale > 0)
    scaleTasks(problem, options.sleepScale);
  updateNs = longestUpdateNs(problem);
  norms.assign(2 * topology.stations.size(), 0);
  auto &members = wiring.trainingRanks;
  if (options.adapts) {
    planned = problem;
    factors.assign(2 * plan->executables()->size(), 1.0);
  }
  measuredNs.assign(2 * plan->executables()->size(), 0);
  expectedNs.assign(measuredNs.size(), 0);
  if (auto self = std::find(members.begin(), members.end(), rank); wiring.board && self != members.end())
    board = wiring.board->member(static_cast<uint32_t>(self - members.begin()));
}

/// What is queued still uses the stations' programs and this worker's contexts.
Worker::~Worker() {
  if (ownDevice)
    (void)ownDevice->wait(ownDevice->record());
}

Result<std::unique_ptr<Worker>> Worker::create(const Context &context, uint32_t rank, std::unique_ptr<Device> device,
                                               const WorkerOptions &options) {
  std::unique_ptr<Worker> worker(new Worker(context, rank, options));
  worker->ownDevice = std::move(device);
  MAESTRO_TRY(worker->createStations());
  return worker;
}

/// Rings of edges, and gradients that others add to, are memory that all ranks see.
Result<SharedRegions> Worker::sharedRegions(uint32_t station) {
  SharedRegions shared;
  for (uint32_t r = 0; r < topology.rings.size(); ++r) {
    const RingFacts &ring = topology.rings[r];
    transport::Receiver *receiver = wiring.channels[r].receiver.get();
    if (ring.receiver != station || !receiver)
      continue;
    auto *first = static_cast<std::byte *>(receiver->slot(0));
    auto stride = static_cast<uint64_t>(ring.slots > 1 ? static_cast<std::byte *>(receiver->slot(1)) - first : 0);
    MAESTRO_ASSIGN(Address base, ownDevice->adopt(first, stride * (ring.slots - 1) + ring.slotBytes * options.growth));
    shared[ring.region] = {base, stride};
  }
  if (void *gradients = wiring.gradients[station]) {
    const auto &regions = *topology.executable(station).regions();
    for (uint32_t r = 0; r < regions.size(); ++r)
      if (regions.Get(r)->kind() == fb::RegionKind::Gradients) {
        MAESTRO_ASSIGN(Address base, ownDevice->adopt(gradients, regions.Get(r)->bytes()));
        shared[r] = {base, 0};
      }
  }
  return shared;
}

/// How the station's ranks meet inside programs: in one exchange for all stations that they share.
TensorGroup Worker::tensorGroup(uint32_t station) {
  const StationFacts &facts = topology.stations[station];
  if (facts.members > 1 && !exchange)
    exchange = wiring.exchanges[topology.deviceOf[rank]].member(facts.member);
  return {facts.member, facts.members, exchange ? &*exchange : nullptr, &*wiring.abort};
}

Status Worker::createStations() {
  stations.resize(topology.stations.size());
  slots.resize(topology.stations.size());
  for (uint32_t s = 0; s < stations.size(); ++s) {
    if (topology.stations[s].rank != rank)
      continue;
    MAESTRO_ASSIGN(SharedRegions shared, sharedRegions(s));
    MAESTRO_ASSIGN(stations[s], Station::create(plan, topology, s, *ownDevice, batcher, options.growth, shared, tensorGroup(s)));
    slots[s].assign(stations[s]->instance().slots(), kNone);
  }
  for (const ReductionGroup &group : wiring.groups) {
    reductionMembers.emplace_back();
    reductionStations.emplace_back();
    for (uint32_t i = 0; i < group.stations.size(); ++i)
      if (stations[group.stations[i]]) {
        reductionMembers.back().push_back(group.reduction->member(i));
        reductionStations.back().push_back(group.stations[i]);
      }
  }
  return Status();
}

Status Worker::prepareParameters() {
  for (auto &station : stations)
    if (station)
      MAESTRO_TRY(station->prepareParameters());
  return ownDevice->wait(ownDevice->record());
}

bool Worker::hasBackward(uint32_t station) const {
  return !options.evaluates && topology.program(station, fb::ProgramKind::Backward);
}

// ---- the batch --------------------------------------------------------------------------------------------------------

Status Worker::measure(const data::Sample &sample, std::span<int64_t> sizes) const {
  MAESTRO_TRY(batcher.measure(sample, sizes));
  if (sampleSymbol != kNone)
    sizes[sampleSymbol] = 1;
  return Status();
}

Status Worker::planBatch(const data::SampleBatch &batch, uint64_t batchStep) {
  step = batchStep;
  report("schedule of step", step);
  size_t symbols = problem.dims.size();
  if (symbols == 0)
    return Status::internal("the plan declares no symbolic dims");
  problem.sizes.resize(batch.count * symbols);
  tokenCount = 0;
  for (size_t s = 0; s < batch.count; ++s) {
    std::span<int64_t> sizes(problem.sizes.data() + s * symbols, symbols);
    MAESTRO_TRY(measure(batch.samples[s], sizes));
    int64_t longest = 1;
    for (size_t d = 0; d < symbols; ++d)
      if (!problem.dims[d].sum)
        longest = std::max(longest, sizes[d]);
    tokenCount += static_cast<uint64_t>(longest);
  }
  MAESTRO_TRY(wavefront::check(problem));
  if (spans.size() < spans.capacity())
    batches.push_back({step, problem.sizes});
  int64_t startNs = processorNs();
  scheduler.run(problem, options.onePiece ? wavefront::Order::FileOrder : options.order, schedule);
  ownScheduleNs = processorNs() - startNs;
  MAESTRO_TRY(order.build(problem, schedule, options.evaluates));
  samples.clear();
  for (uint32_t sample : schedule.samples)
    samples.push_back(&batch.samples[sample]);
  size_t tasks = order.tasks().size(), sends = 0, receives = 0;
  for (const RankTask &task : order.tasks()) {
    sends += task.sends;
    receives += task.receives;
  }
  sendWork.resize(sends);
  releaseWork.resize(receives);
  stampWork.resize(tasks + 2 * stations.size()); // Norm and update.
  sendsUsed = releasesUsed = stampsUsed = 0;
  sums.assign(schedule.microBatches.size() * lossCount, 0);
  counts.assign(sums.size(), 0);
  return Status();
}

MicroBatchData Worker::dataOf(uint32_t microBatch) const {
  const wavefront::MicroBatch &group = schedule.microBatches[microBatch];
  MicroBatchData data;
  data.number = microBatch;
  data.samples = {samples.data() + group.firstSample, group.samples};
  data.dims = {schedule.dims.data() + group.firstDim, problem.dims.size()};
  data.step = step;
  return data;
}

size_t Worker::microBatches(uint32_t section) const {
  return static_cast<size_t>(std::count_if(schedule.microBatches.begin(), schedule.microBatches.end(),
                                           [&](const wavefront::MicroBatch &group) { return group.section == section; }));
}

Result<std::vector<int64_t>> Worker::combinedSymbols(const data::SampleBatch &batch) {
  size_t symbols = problem.dims.size();
  std::vector<int64_t> sizes(batch.count * symbols), combined(symbols);
  for (size_t s = 0; s < batch.count; ++s)
    MAESTRO_TRY(measure(batch.samples[s], {sizes.data() + s * symbols, symbols}));
  batcher.combine(sizes, combined);
  return combined;
}

// ---- losses -----------------------------------------------------------------------------------------------------------

/// Counts of this rank's micro-batches; others learn of them at the board.
Status Worker::countLosses(LossTotals &totals) {
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
  MAESTRO_TRY(ownDevice->wait(ownDevice->record()));
  for (size_t m = 0; m < schedule.microBatches.size(); ++m)
    for (uint32_t k = 0; k < lossCount; ++k)
      totals.counts[k] += counts[m * lossCount + k];
  countsKnown = !board;
  if (!board || options.evaluates)
    return Status();
  record.resize(1 + lossCount);
  uint64_t agreed = wavefront::hash(schedule);
  std::memcpy(record.data(), &agreed, 8);
  std::copy(totals.counts.begin(), totals.counts.end(), record.begin() + 1);
  return board->publish<double>(step, kCountsRecord, record, *wiring.abort);
}

/// The losses' global counts, and whether all ranks have the same schedule; then the scales: weight ÷ count.
Status Worker::awaitCounts(LossTotals &totals) {
  if (board && !countsKnown) {
    records.resize(wiring.trainingRanks.size() * record.size());
    MAESTRO_TRY(board->awaitAll<double>(step, kCountsRecord, records, *wiring.abort));
    std::fill(totals.counts.begin(), totals.counts.end(), 0);
    for (size_t member = 0; member < wiring.trainingRanks.size(); ++member) {
      const double *theirs = records.data() + member * record.size();
      if (std::memcmp(theirs, record.data(), 8) != 0)
        return Status::internal(fmt::format("rank {} and rank {} have different schedules for step {}", rank,
                                            wiring.trainingRanks[member], step));
      for (uint32_t k = 0; k < lossCount; ++k)
        totals.counts[k] += theirs[1 + k];
    }
    countsKnown = true;
  }
  for (uint32_t k = 0; k < lossCount; ++k) {
    const fb::Loss &loss = *plan->losses()->Get(k);
    double weight = loss.weight() * loss.term_weight();
    scales[k] = totals.counts[k] != 0 ? static_cast<float>(weight / totals.counts[k]) : 0.0f;
  }
  for (auto &station : stations)
    if (station)
      station->writeScales(scales);
  return Status();
}

// ---- tasks ------------------------------------------------------------------------------------------------------------

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

/// Waits for what the task reads, and for places for what it will send.
Status Worker::receive(const RankTask &task, std::span<const Receive> receives) {
  for (const Receive &receive : receives) {
    const RingFacts &ring = topology.rings[receive.ring];
    transport::Receiver &receiver = *wiring.channels[receive.ring].receiver;
    bool isNew = ring.gradient || task.kind == TaskKind::Forward;
    if (isNew)
      MAESTRO_TRY(receiver.awaitArrivals(receive.sequence, {receive.posts, step, task.microBatch}, *wiring.abort));
    stations[task.station]->instance().selectCopy(ring.region, static_cast<uint32_t>(receive.sequence % ring.slots));
  }
  for (const Send &send : order.sendsOf(task))
    MAESTRO_TRY(wiring.channels[send.ring].senders[send.sender]->awaitCredit(send.sequence, *wiring.abort));
  return Status();
}

Status Worker::runTask(const RankTask &task, LossTotals &totals) {
  if (task.kind != TaskKind::Forward && !hasBackward(task.station))
    return Status(); // A stage whose parameters are all frozen.
  MAESTRO_TRY(receive(task, order.receivesOf(task)));
  report(task.kind == TaskKind::Forward ? "forward" : "backward", task.microBatch);
  if (task.kind == TaskKind::Backward && !countsPublished) {
    MAESTRO_TRY(awaitCounts(totals));
    countsPublished = true;
  }
  auto kind = task.kind == TaskKind::Forward ? TaskSpan::Kind::Forward : TaskSpan::Kind::Backward;
  StampWork &stamp = startSpan(task.station, task.microBatch, kind, options.sleepScale > 0 ? plannedNs(task) : 0);
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
      return Status::internal(fmt::format("step {}: micro-batch {} finds no free slot at station {}; the schedule is wrong",
                                          step, task.microBatch, task.station));
    MAESTRO_TRY(station.launchForward(data, options.seed, slot, options.evaluates));
    if (topology.stations[task.station].isLead())
      station.readLosses(fb::BindingKind::LossSum, slot, {sums.data() + task.microBatch * lossCount, lossCount});
    if (!hasBackward(task.station)) // What follows on the queue finds the slot free.
      slots[task.station][slot] = kNone;
    return slot;
  }
  uint32_t slot = slotOf(task.station, task.microBatch);
  if (slot == kNone)
    return Status::internal(fmt::format("step {}: micro-batch {} has no slot at station {}; the schedule is wrong", step,
                                        task.microBatch, task.station));
  MAESTRO_TRY(station.launchBackward(data, slot));
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
    if (shapes)
      ownDevice->fillZero(instance.address(buffer, 0), instance.bytes(buffer, **shapes));
    ReleaseWork &work = releaseWork[releasesUsed++];
    work = {this, receive.ring, receive.sequence};
    ownDevice->call(runRelease, &work, {});
  }
}

Worker::StampWork &Worker::startSpan(uint32_t station, uint32_t microBatch, TaskSpan::Kind kind, int64_t leastNs) {
  StampWork &stamp = stampWork[stampsUsed++];
  stamp = {this, {station, microBatch, kind, step, 0, 0}, leastNs, false};
  ownDevice->call(runStamp, &stamp, {});
  return stamp;
}

void Worker::endSpan(StampWork &stamp) { ownDevice->call(runStamp, &stamp, {}); }

Status Worker::runStamp(void *context, std::span<std::byte *const>) {
  auto &work = *static_cast<StampWork *>(context);
  Worker &worker = *work.worker;
  if (!work.started) {
    work.started = true;
    worker.running = work.span.kind <= TaskSpan::Kind::Backward ? work.span.microBatch : kNone;
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

/// On the device's thread.
void Worker::account(const TaskSpan &span) {
  int64_t ns = span.endNs - span.startNs;
  wiring.busyNs.devices[rank].fetch_add(ns, std::memory_order_relaxed);
  if (span.kind <= TaskSpan::Kind::Backward) {
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

Status Worker::runTasks(LossTotals &totals) {
  for (const RankTask &task : order.tasks())
    MAESTRO_TRY(runTask(task, totals));
  if (!countsPublished && !options.evaluates) { // No backward task here; the others' records must be read all the same.
    MAESTRO_TRY(awaitCounts(totals));
    countsPublished = true;
  }
  MAESTRO_TRY(ownDevice->wait(ownDevice->record()));
  for (size_t m = 0; m < schedule.microBatches.size(); ++m)
    for (uint32_t k = 0; k < lossCount; ++k)
      totals.sums[k] += sums[m * lossCount + k];
  return Status();
}

// ---- steps ------------------------------------------------------------------------------------------------------------

/// A sign of life for whoever watches; what waits for others reports itself.
void Worker::report(const char *what, uint64_t index) const {
  wiring.abort->progress().report(rank, transport::LaneKind::Host, transport::Activity::Running, what, index);
}

Status Worker::computeGradients(const data::SampleBatch &batch, uint64_t batchStep, LossTotals &totals) {
  totals.sums.assign(lossCount, 0);
  totals.counts.assign(lossCount, 0);
  countsPublished = false;
  MAESTRO_TRY(planBatch(batch, batchStep));
  MAESTRO_TRY(countLosses(totals));
  MAESTRO_TRY(runTasks(totals));
  return reduceGradients();
}

Status Worker::evaluate(const data::SampleBatch &batch, uint64_t batchStep, LossTotals &totals) {
  totals.sums.assign(lossCount, 0);
  totals.counts.assign(lossCount, 0);
  countsPublished = true;
  MAESTRO_TRY(planBatch(batch, batchStep));
  MAESTRO_TRY(countLosses(totals));
  MAESTRO_TRY(runTasks(totals));
  if (!board)
    return Status();
  record = totals.sums;
  record.insert(record.end(), totals.counts.begin(), totals.counts.end());
  MAESTRO_TRY(exchangeEnd(batchStep, record));
  for (uint32_t k = 0; k < lossCount; ++k) {
    totals.sums[k] = totals.counts[k] = 0;
    for (size_t member = 0; member < wiring.trainingRanks.size(); ++member) {
      totals.sums[k] += records[member * record.size() + k];
      totals.counts[k] += records[member * record.size() + lossCount + k];
    }
  }
  return Status();
}

Status Worker::runReduce(void *context, std::span<std::byte *const>) {
  auto &work = *static_cast<ReduceWork *>(context);
  int64_t startNs = nowNs();
  Status status = work.gathers ? work.member->gather(work.turn) : work.member->scatter(work.turn);
  work.worker->account({work.station, kNone, TaskSpan::Kind::Reduce, work.worker->step, startNs, nowNs()});
  return status.isOk() ? Status() : work.worker->fail(status);
}

/// Adds up the gradients of parameters that several stations hold.
Status Worker::reduceGradients() {
  using Member = transport::local::Reduction::Member;
  uint64_t call = reductions++;
  for (size_t group = 0; group < reductionMembers.size(); ++group) {
    std::vector<Member> &members = reductionMembers[group];
    if (members.empty())
      continue;
    uint64_t turns = members.front().turns(), first = call * turns;
    reduceWork.resize(turns * members.size() * 2);
    size_t used = 0;
    auto queue = [&](Member &member, uint64_t turn, bool gathers) {
      ReduceWork &work = reduceWork[used++];
      work = {&member, this, turn, gathers, reductionStations[group][static_cast<size_t>(&member - members.data())]};
      ownDevice->call(runReduce, &work, {});
    };
    for (uint64_t turn = first; turn < first + turns; ++turn) {
      for (Member &member : members) {
        MAESTRO_TRY(member.awaitStaging(turn, *wiring.abort));
        queue(member, turn, false);
      }
      for (Member &member : members) {
        MAESTRO_TRY(member.awaitScattered(turn, *wiring.abort));
        queue(member, turn, true);
      }
    }
    for (Member &member : members)
      if (turns > 0)
        MAESTRO_TRY(member.awaitGathered(first + turns - 1, *wiring.abort));
    MAESTRO_TRY(ownDevice->wait(ownDevice->record()));
  }
  return Status();
}

/// Everybody's record of the step's end, into `records`, member by member.
Status Worker::exchangeEnd(uint64_t endStep, std::span<const double> own) {
  records.resize(wiring.trainingRanks.size() * own.size());
  MAESTRO_TRY(board->publish<double>(endStep, kEndRecord, own, *wiring.abort));
  return board->awaitAll<double>(endStep, kEndRecord, records, *wiring.abort);
}

/// Each parameter counts once: stations count what their executable owns, replicas hold the same, and so do a station's ranks
/// but for what is split over them.
Result<Worker::Agreement> Worker::agree(uint64_t endStep, bool wantsToStop, LossTotals &totals) {
  std::fill(norms.begin(), norms.end(), 0);
  for (uint32_t s = 0; s < stations.size(); ++s)
    if (stations[s] && topology.stations[s].replica == 0 && stations[s]->program(fb::ProgramKind::Norm)) {
      MAESTRO_TRY(launchOnce(s, fb::ProgramKind::Norm, TaskSpan::Kind::Norm));
      if (topology.stations[s].isLead())
        stations[s]->readNormSquares(0, norms[2 * s]);
      stations[s]->readNormSquares(1, norms[2 * s + 1]);
    }
  MAESTRO_TRY(ownDevice->wait(ownDevice->record()));
  record.assign(2 + lossCount, 0);
  for (double value : norms)
    record[0] += value;
  record[1] = wantsToStop;
  std::copy(totals.sums.begin(), totals.sums.end(), record.begin() + 2);
  if (options.adapts) {
    record.insert(record.end(), measuredNs.begin(), measuredNs.end());
    record.insert(record.end(), expectedNs.begin(), expectedNs.end());
  }
  if (!board) {
    adaptCosts();
    return Agreement{std::sqrt(record[0]), wantsToStop};
  }
  MAESTRO_TRY(exchangeEnd(endStep, record));
  std::fill(record.begin(), record.end(), 0);
  for (size_t i = 0; i < records.size(); ++i)
    record[i % record.size()] += records[i];
  std::copy(record.begin() + 2, record.begin() + 2 + lossCount, totals.sums.begin());
  adaptCosts();
  return Agreement{std::sqrt(record[0]), record[1] > 0};
}

/// A program that runs once a step; the planned time of the reduction and the norm is part of the update's.
Status Worker::launchOnce(uint32_t station, fb::ProgramKind kind, TaskSpan::Kind span) {
  const StationFacts &facts = topology.stations[station];
  bool sleeps = options.sleepScale > 0 && kind == fb::ProgramKind::Update;
  StampWork &stamp = startSpan(
      station, kNone, span,
      sleeps ? wavefront::evaluate(problem.sections[facts.section].stages[facts.stage].update, nullptr) : 0);
  MAESTRO_TRY(stations[station]->launchOnce(kind));
  endSpan(stamp);
  return Status();
}

namespace {
int64_t taskNs(const wavefront::Problem &problem, const StationFacts &facts, TaskKind kind, const int64_t *dims) {
  const wavefront::Stage &stage = problem.sections[facts.section].stages[facts.stage];
  return wavefront::evaluate(kind == TaskKind::Forward ? stage.forward : stage.backward, dims);
}
} // namespace

int64_t Worker::plannedNs(const RankTask &task) const {
  return taskNs(problem, topology.stations[task.station], task.kind, dataOf(task.microBatch).dims.data());
}

/// The plan's prediction for a task that is about to run.
void Worker::expectTime(const RankTask &task) {
  const StationFacts &facts = topology.stations[task.station];
  expectedNs[2 * facts.executable + (task.kind == TaskKind::Forward ? 0 : 1)] +=
      static_cast<double>(taskNs(planned, facts, task.kind, dataOf(task.microBatch).dims.data()));
}

/// Costs follow what all ranks measured in this step, half the way each time: from `record`, which all have alike.
void Worker::adaptCosts() {
  if (!options.adapts)
    return;
  constexpr double kLeast = 1e-3, kMost = 1e3;
  const double *measured = record.data() + 2 + lossCount, *expected = measured + measuredNs.size();
  for (uint32_t e = 0; e < plan->executables()->size(); ++e) {
    const fb::Executable &executable = *plan->executables()->Get(e);
    for (size_t kind = 0; kind < 2; ++kind)
      if (double own = expected[2 * e + kind]; own > 0) {
        double &factor = factors[2 * e + kind];
        factor = std::clamp(std::sqrt(factor * measured[2 * e + kind] / own), kLeast, kMost);
      }
    const wavefront::Stage &from = planned.sections[executable.section()].stages[executable.stage()];
    wavefront::Stage &to = problem.sections[executable.section()].stages[executable.stage()];
    scale(to.forward, from.forward, factors[2 * e]);
    scale(to.backward, from.backward, factors[2 * e + 1]);
  }
  std::fill(measuredNs.begin(), measuredNs.end(), 0);
  std::fill(expectedNs.begin(), expectedNs.end(), 0);
}

Status Worker::update(uint64_t updateStep, double gradientNorm) {
  const fb::Training &training = *plan->training();
  hyper = hyperParameters(training, updateStep, clipFactor(training, gradientNorm));
  for (uint32_t s = 0; s < stations.size(); ++s)
    if (stations[s] && stations[s]->program(fb::ProgramKind::Update)) {
      stations[s]->writeHyperParameters(hyper);
      MAESTRO_TRY(launchOnce(s, fb::ProgramKind::Update, TaskSpan::Kind::Update));
    }
  return ownDevice->wait(ownDevice->record());
}

} // namespace maestro::executor
