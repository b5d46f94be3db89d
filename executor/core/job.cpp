#include "executor/core/job.h"

#include "base/guarded.h"
#include "executor/core/data_specs.h"
#include "executor/core/plan_support.h"
#include "executor/core/rank_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <sys/prctl.h>

namespace maestro::executor {

namespace fb = plan::fb;

namespace {
/// Results kept per rank: more than steps that can be under way.
constexpr size_t kResultRing = 8;
} // namespace

Job::Job(const plan::Plan &plan, const JobOptions &options) : plan(plan), options(options), facts(plan) {}

Result<std::unique_ptr<Job>> Job::create(const plan::Plan &plan, const JobOptions &options) {
  MAESTRO_TRY(checkSupported(plan));
  std::unique_ptr<Job> job(new Job(plan, options));
  MAESTRO_ASSIGN(job->batcher, data::Batcher::create(symbolSpecs(plan), fieldSpecs(plan)));
  job->world = options.world;
  job->seatTable = options.seats;
  if (!job->world) {
    MAESTRO_ASSIGN(job->ownWorld,
                   World::create(plan, job->facts, {options.evaluates, options.growth, 1, false, options.adapts}));
    job->world = job->ownWorld.get();
    job->seatTable.ranks = job->facts.ranks;
  }
  auto order = options.fileOrder ? wavefront::Order::FileOrder : wavefront::Order::Wavefront;
  job->scheduler = std::make_unique<ScheduleCache>(
      plan, job->facts, *job->batcher,
      ScheduleCache::Options{{options.evaluates, options.onePiece}, order, options.sleepScale});
  if (options.validates)
    job->evaluations = std::make_unique<ScheduleCache>(plan, job->facts, *job->batcher,
                                                       ScheduleCache::Options{{.evaluates = true}, order, 0});
  job->stepValues.emplace(plan, job->facts, job->seatTable.here(), options.evaluates);
  job->evaluationValues.emplace(plan, job->facts, job->seatTable.here(), true);
  job->startWatching();
  MAESTRO_TRY(job->createWorkers());
  return job;
}

/// Devices first: then all know where each other's memory is, which the workers' ends write to.
Status Job::createWorkers() {
  hostStates.resize(facts.ranks);
  mailboxes.resize(facts.ranks);
  workers.resize(facts.ranks);
  std::vector<std::unique_ptr<Device>> devices(facts.ranks);
  for (uint32_t rank = seatTable.here().first; rank < seatTable.here().end; ++rank) {
    RankDeviceOptions deviceOptions;
    deviceOptions.rank = rank;
    deviceOptions.onFailure = [this, rank](const Status &status) {
      noteFailure(rank, workers[rank] ? workers[rank]->withSamples(status)
                                      : Status(status.code(), std::string(status.message())));
    };
    deviceOptions.onSpan = [this, rank](const Span &span, bool hasEnded) { workers[rank]->onSpan(span, hasEnded); };
    deviceOptions.abort = &world->abort();
    if (facts.ranks > 1)
      deviceOptions.onSign = [this, rank](DeviceSign sign) { onDeviceSign(rank, sign); };
    deviceOptions.runsKernels = options.sleepScale == 0;
    deviceOptions.lateSeed = options.lateDeviceSeed;
    deviceOptions.lateDelayUs = options.lateDeviceDelayUs;
    deviceOptions.shared = world->hostParts();
    deviceOptions.bulk = world->bulkParts();
    MAESTRO_ASSIGN(devices[rank], createRankDevice(plan, deviceOptions));
    if (options.traceCapacity > 0)
      devices[rank]->enableTrace(options.traceCapacity);
  }
  MAESTRO_ASSIGN(deviceSegments, placeBulkOnDevices(plan, *world, seatTable, options.bulkWay));
  for (uint32_t rank = seatTable.here().first; rank < seatTable.here().end; ++rank) {
    WorkerOptions own;
    own.seed = options.seed;
    own.evaluates = options.evaluates;
    own.adapts = options.adapts;
    own.growth = options.growth;
    own.sleepScale = options.sleepScale;
    own.skippedSteps = options.skippedSteps;
    MAESTRO_ASSIGN(workers[rank], Worker::create({plan, facts, *world, *batcher, *scheduler,
                                                  options.evaluates ? scheduler.get() : evaluations.get()},
                                                 rank, std::move(devices[rank]), own));
    workers[rank]->collectSpans(options.traceCapacity);
    mailboxes[rank].results.resize(kResultRing);
    for (auto &[resultStep, result] : mailboxes[rank].results) { // Steps allocate nothing.
      result.totals.sums.resize(plan->losses()->size());
      result.totals.counts.resize(plan->losses()->size());
      result.microBatches.resize(plan->sections()->size());
    }
    (trains(rank) ? anyTrainingRank : anyFrozenRank) = true;
  }
  tellsOfData = seatTable.here().first;
  while (anyTrainingRank && !(workers[tellsOfData] && trains(tellsOfData)))
    ++tellsOfData;
  return Status();
}

Job::~Job() {
  end();
  collections.clear();
  for (auto &worker : workers) // Their devices speak up until they are gone, of failures, too, to all that is below.
    worker.reset();
}

void Job::end() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  if (watcher.joinable()) {
    watcher.join();
    report(driverRank(), transport::LaneKind::Driver, transport::Activity::Finished);
  }
  // A rank that ran ahead may wait for somebody who has ended; where processes share an end, the root ends them all.
  if (!threads.empty() && world && (isRoot() || !seatTable.isForked))
    world->abort().raise(transport::Abort::kSupervisor, "the run has ended");
  for (std::thread &thread : threads)
    thread.join();
  threads.clear();
  for (auto &worker : workers)
    if (worker)
      (void)worker->device().drain();
}

bool Job::trains(uint32_t rank) const {
  const auto &members = world->trainingRanks();
  return std::find(members.begin(), members.end(), rank) != members.end();
}

uint32_t Job::holder(fb::BindingKind kind, uint32_t parameter) const {
  for (uint32_t s = 0; s < facts.stations.size(); ++s)
    for (const fb::Binding *binding : *facts.executable(s).bindings())
      if (binding->kind() == kind && binding->index() == parameter)
        return s;
  return kNone;
}

Worker &Job::anyWorker() const {
  return **std::find_if(workers.begin(), workers.end(), [](const auto &worker) { return worker != nullptr; });
}

Status Job::start() {
  for (auto &worker : workers)
    if (worker)
      MAESTRO_TRY(worker->prepareParameters());
  for (uint32_t rank = 0; rank < workers.size(); ++rank)
    if (workers[rank])
      threads.emplace_back([this, rank] { serve(rank); });
  return Status();
}

/// While the driver waits for ranks, which may wait for it in turn.
class Job::DriverWaits {
public:
  explicit DriverWaits(const Job &job) : job(job) {
    job.report(job.driverRank(), transport::LaneKind::Driver, transport::Activity::AwaitingRanks);
  }
  ~DriverWaits() { job.report(job.driverRank(), transport::LaneKind::Driver, transport::Activity::Running); }

private:
  const Job &job;
};

void Job::post(uint32_t rank, const Command &command) {
  std::lock_guard lock(mutex);
  Mailbox &box = mailboxes[rank];
  box.commands[box.submitted++ % box.commands.size()] = command;
  changed.notify_all();
}

void Job::prepare(data::SampleBatch &batch, uint64_t step) {
  if (options.adapts) // The schedule depends on what is being measured.
    return stepValues->markAll(batch);
  if (auto made = scheduler->of(batch, step))
    stepValues->mark((*made)->schedule, batch);
}

void Job::prepareEvaluation(data::SampleBatch &batch) {
  if (auto made = (options.evaluates ? *scheduler : *evaluations).of(batch, ++toEvaluate))
    evaluationValues->mark((*made)->schedule, batch);
}

void Job::submit(const data::SampleBatch &batch, uint64_t step, To to, bool updates) {
  Command::Kind kind = updates ? Command::Kind::Step : Command::Kind::Gradients;
  for (uint32_t rank = 0; rank < workers.size(); ++rank)
    if (workers[rank] && (to == To::All || (to == To::Training) == trains(rank)))
      post(rank, {kind, &batch, step, 0, true});
}

Result<const StepResult *> Job::evaluate(const data::SampleBatch &batch) {
  ++evaluated;
  for (uint32_t rank = 0; rank < workers.size(); ++rank)
    if (workers[rank])
      post(rank, {Command::Kind::Evaluate, &batch, evaluated, 0, true});
  DriverWaits waits(*this);
  std::unique_lock lock(mutex);
  auto idle = [&] {
    return std::all_of(mailboxes.begin(), mailboxes.end(), [&](const Mailbox &box) { return isIdle(box); });
  };
  changed.wait(lock, [&] { return idle() || world->abort().isRaised(); });
  if (!idle() || world->abort().isRaised())
    return failureStatus();
  for (uint32_t rank = 0; rank < workers.size(); ++rank)
    if (workers[rank] && (trains(rank) || !anyTrainingRank)) // All that train agree.
      return &mailboxes[rank].evaluation;
  return Status::internal("no rank is here");
}

Status Job::update(uint64_t step, const StepResult &result) {
  for (uint32_t rank = 0; rank < workers.size(); ++rank)
    if (workers[rank] && trains(rank))
      post(rank, {Command::Kind::Update, nullptr, step, result.gradientNorm, result.applied});
  return drain();
}

/// The first failure is the job's; everybody else stops because of it.
void Job::noteFailure(uint32_t rank, const Status &status) {
  {
    std::lock_guard lock(mutex);
    if (failure.isOk() && !stopping && !world->abort().isRaised())
      failure = Status(status.code(), std::string(status.message()));
  }
  world->raise(rank, status);
  changed.notify_all();
}

Status Job::failureStatus() {
  if (!failure.isOk())
    return Status(failure.code(), std::string(failure.message()));
  Status cause = world->abort().status();
  int code = world->outcome().code.load();
  return code ? Status(static_cast<StatusCode>(code), std::string(cause.message())) : std::move(cause);
}

void Job::serve(uint32_t rank) {
  ::prctl(PR_SET_NAME, fmt::format("rank {}", rank).c_str()); // For top.
  Mailbox &box = mailboxes[rank];
  bool stops = false;
  while (true) {
    Command command;
    report(rank, transport::LaneKind::Host, transport::Activity::Idle);
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return box.taken < box.submitted || stopping; });
      if (stopping)
        return;
      command = box.commands[box.taken++ % box.commands.size()];
    }
    bool isStep = command.kind != Command::Kind::Evaluate;
    auto &[resultStep, stepResult] = box.results[command.step % kResultRing];
    StepResult &result = isStep ? stepResult : box.evaluation;
    Status status =
        stops ? Status() : guarded([&] { return execute(rank, command, result); }); // Given before all agreed to stop.
    stops = stops || result.stops;
    if (isStep)
      resultStep = command.step;
    if (!status.isOk())
      noteFailure(rank, status);
    {
      std::lock_guard lock(mutex);
      if (status.isOk() && isStep)
        box.lastStep = command.step;
      ++box.finished;
    }
    changed.notify_all();
    if (!status.isOk())
      return;
  }
}

Status Job::execute(uint32_t rank, const Command &command, StepResult &result) {
  Worker &worker = *workers[rank];
  if (command.kind == Command::Kind::Update)
    return worker.update(command.step, command.norm, command.applies);
  auto wantsToStop = [&] { return rank == world->root() && options.wantsToStop && options.wantsToStop(); };
  if (command.kind == Command::Kind::Evaluate) {
    MAESTRO_ASSIGN(result.stops, worker.evaluate(*command.batch, command.step, wantsToStop(), result.totals));
  } else {
    MAESTRO_TRY(worker.computeGradients(*command.batch, command.step, result.totals));
    if (rank == tellsOfData)
      world->counters().dataBytes[rank].fetch_add(static_cast<int64_t>(command.batch->valueBytes),
                                                  std::memory_order_relaxed);
    if (trains(rank)) {
      world->publishCounters(rank); // Before the records with which the step ends.
      MAESTRO_ASSIGN(StepEnd end, worker.agree(command.step, wantsToStop(), result.totals));
      result.gradientNorm = end.gradientNorm;
      result.applied = end.applies;
      result.stops = end.stops;
      result.badSamples.clear();
      if (!end.applies && rank == world->root())
        worker.listSamples(end.badMicroBatches, result.badSamples);
      if (command.kind == Command::Kind::Step)
        MAESTRO_TRY(worker.update(command.step, result.gradientNorm, result.applied));
    }
  }
  world->publishCounters(rank);
  const ScheduledStep &made = worker.schedule();
  result.tokens = made.tokens;
  result.predictedNs = made.predictedNs;
  result.scheduleNs = made.processorNs;
  result.endNs = transport::nowNs();
  result.microBatches.assign(plan->sections()->size(), 0);
  for (const wavefront::MicroBatch &group : made.schedule.microBatches)
    ++result.microBatches[group.section];
  return Status();
}

Result<const StepResult *> Job::await(uint64_t step) {
  DriverWaits waits(*this);
  std::unique_lock lock(mutex);
  // Where none that trains is here, those that are.
  auto counts = [&](uint32_t rank) { return workers[rank] && (trains(rank) || !anyTrainingRank); };
  auto ended = [&] {
    for (uint32_t rank = 0; rank < workers.size(); ++rank)
      if (counts(rank) && mailboxes[rank].lastStep < step)
        return false;
    return true;
  };
  changed.wait(lock, [&] { return ended() || world->abort().isRaised(); });
  if (!ended())
    return failureStatus();
  for (uint32_t rank = 0; rank < workers.size(); ++rank)
    if (counts(rank)) // All that train agree.
      return &mailboxes[rank].results[step % kResultRing].second;
  return Status::internal("no rank is here");
}

Status Job::drain() {
  DriverWaits waits(*this);
  std::unique_lock lock(mutex);
  auto idle = [&] {
    for (uint32_t rank = 0; rank < workers.size(); ++rank)
      if (workers[rank] && (trains(rank) || !anyTrainingRank) && !isIdle(mailboxes[rank]))
        return false;
    return true;
  };
  changed.wait(lock, [&] { return idle() || world->abort().isRaised(); });
  return world->abort().isRaised() ? failureStatus() : Status();
}

Status Job::awaitReleased(uint64_t step) {
  DriverWaits waits(*this);
  std::unique_lock lock(mutex);
  auto released = [&] {
    for (uint32_t rank = 0; rank < workers.size(); ++rank)
      if (workers[rank] && mailboxes[rank].lastStep < step && !isIdle(mailboxes[rank]))
        return false;
    return true;
  };
  changed.wait(lock, [&] { return released() || world->abort().isRaised(); });
  return world->abort().isRaised() ? failureStatus() : Status();
}

void Job::report(uint32_t rank, transport::LaneKind lane, transport::Activity activity, const char *what) const {
  world->abort().progress().report(rank, lane, activity, what);
}

} // namespace maestro::executor
