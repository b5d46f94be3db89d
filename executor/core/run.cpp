#include "executor/core/run.h"

#include "base/log.h"
#include "executor/core/cluster.h"
#include "executor/core/evaluation.h"
#include "executor/core/job.h"
#include "executor/core/job_trace.h"
#include "executor/core/machine_check.h"
#include "executor/core/plan_support.h"
#include "executor/core/process_group.h"
#include "executor/core/results.h"
#include "executor/core/resuming.h"
#include "executor/core/run_options.h"
#include "executor/core/saver.h"
#include "executor/core/self_check.h"
#include "executor/core/step_feeder.h"
#include "executor/core/step_report.h"
#include "executor/core/training_data.h"
#include "executor/core/validation.h"
#include "executor/metrics/progress.h"
#include "executor/metrics/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

namespace maestro::executor {
namespace {

namespace fb = plan::fb;
std::atomic<bool> stopRequested{false};

class Run {
public:
  explicit Run(const RunOptions &options) : options(options) {}

  Status execute() {
    MAESTRO_TRY(loadPlan());
    MAESTRO_TRY(checkOptions(options));
    MAESTRO_ASSIGN(cluster, Cluster::join(*plan, options, [] { return stopRequested.load(); }));
    if (cluster)
      return executeTogether();
    std::array machines = {MachineShare::here({{0, (*plan)->ranks()->size()}})};
    MAESTRO_TRY(checkMachines(machines));
    MAESTRO_TRY(openOutput());
    if (!options.trace.empty())
      MAESTRO_TRY(createTrace());
    MAESTRO_TRY(startProcesses());
    Status status = executeRank();
    if (!processes)
      return status;
    if (status.isOk() && isRoot() && !options.trace.empty())
      processes->awaitOthers();                       // They write their parts.
    if (!status.isOk() && !world->abort().isRaised()) // The others end, too, and for this reason.
      world->raise(processes->rank(), status);
    endJob(); // The root's ends the job; then its group waits for the others.
    if (!processes->isRoot())
      ProcessGroup::leave(hasEnded ? Status() : std::move(status));
    return status;
  }

private:
  /// As one of the processes that an engine has started.
  Status executeTogether() {
    MAESTRO_TRY(checkMachine(*plan, options.planPath)); // It may be a spare.
    Topology topology(*plan);
    MAESTRO_ASSIGN(world, World::create(*plan, topology, worldOptions(cluster->here())));
    Status status = executeShare();
    if (status.isOk() || status.code() == StatusCode::Interrupted) {
      if (isRoot())
        cluster->finish();
    } else if (cluster->isFinished()) { // Its ranks ran ahead, and nobody waits for what they did.
      status = Status();
    } else {
      world->raise(cluster->here().first, status);
      status = cluster->causeOfEnd(std::move(status));
      endJob();
      return status;
    }
    Status left = cluster->leave();
    endJob(); // Before the way to the others.
    return status.isOk() ? std::move(left) : std::move(status);
  }

  Status executeShare() {
    MAESTRO_TRY(cluster->connect(*plan, *world));
    setLogQuiet(options.quiet || !isRoot());
    MAESTRO_ASSIGN(std::string fits, cluster->judgeMachines([&](auto machines) -> Result<std::string> {
      MAESTRO_TRY(checkMachines(machines));
      return std::string(copiesFit ? "copies fit" : "");
    }));
    copiesFit = !fits.empty();
    auto open = [&]() -> Result<std::string> {
      MAESTRO_TRY(openOutput());
      if (!options.trace.empty())
        MAESTRO_TRY(createTrace());
      return found ? found->path : std::string();
    };
    MAESTRO_ASSIGN(std::string checkpoint, cluster->decide(*world, isRoot() ? open() : std::string()));
    if (keeps())
      MAESTRO_TRY(cluster->checkIsShared(*world, options.out));
    if (!checkpoint.empty() && !isRoot()) {
      MAESTRO_ASSIGN(found, checkpoint::openCheckpoint(checkpoint));
      MAESTRO_TRY(adoptCheckpoint());
    }
    return executeRank();
  }

  WorldOptions worldOptions(std::optional<transport::RankRange> here) const {
    WorldOptions of;
    of.evaluates = options.evaluate;
    of.processes = true;
    of.adapts = options.adapts && !options.evaluate;
    of.gathersAtRoot = options.saveGradients || options.selfCheck;
    of.here = here;
    return of;
  }

  Status checkMachines(std::span<const MachineShare> machines) {
    MAESTRO_TRY(checkMemory(*plan, options.planPath, machines));
    warnOfSharedCores(*plan, machines);
    copiesFit = !keeps() || Saver::copiesFit(*plan, Topology(*plan), machines);
    return Status();
  }

  void endJob() {
    saver.reset();
    job.reset();
  }

  /// Every rank but the root becomes a process of its own, before there are threads.
  Status startProcesses() {
    if (!options.processes || (*plan)->ranks()->size() < 2)
      return Status();
    Topology topology(*plan);
    MAESTRO_ASSIGN(world, World::create(*plan, topology, worldOptions(std::nullopt)));
    MAESTRO_ASSIGN(processes, ProcessGroup::fork(*world, topology.ranks));
    if (processes->isRoot()) {
      processes->supervise();
    } else {
      if (results)
        results->leaveLock();
      setLogQuiet(true);
    }
    return Status();
  }

  /// Whether this run's results are kept.
  bool keeps() const { return !options.out.empty() && !options.evaluate; }

  bool isRoot() const { return cluster ? cluster->isRoot(*world) : !processes || processes->isRoot(); }

  Status executeRank() {
    MAESTRO_TRY(createJob());
    MAESTRO_TRY(loadValues());
    MAESTRO_TRY(openData());
    return options.evaluate ? evaluateAll() : train();
  }

  Status loadPlan() {
    MAESTRO_ASSIGN(auto loaded, plan::Plan::load(options.planPath));
    plan.emplace(std::move(loaded));
    MAESTRO_TRY(checkMachine(*plan, options.planPath));
    seed = options.seed.value_or((*plan)->training()->seed());
    return Status();
  }

  Status createTrace() const {
    auto created = metrics::TraceFile::create(options.trace);
    if (!created) // Before anything ran: the path is at fault.
      return Status::invalidInput(fmt::format("--trace: {}", created.status().message()));
    auto file = *std::move(created);
    file->describe({plan->hash(), options.evaluate, options.fileOrder, options.waitsForSteps, options.sleepScale});
    return file->flush();
  }

  Status openOutput() {
    if (options.out.empty() || (options.evaluate && options.resume == RunOptions::Resume::No))
      return Status();
    if (options.evaluate) {
      MAESTRO_ASSIGN(found, findToEvaluate(options));
    } else {
      MAESTRO_ASSIGN(results, Results::open(options));
      found = results->found();
    }
    return found ? adoptCheckpoint() : Status();
  }

  Status adoptCheckpoint() {
    const checkpoint::TrainingState &state = found->state;
    MAESTRO_TRY(checkFits(*plan, *found, options.weights));
    step = state.step;
    position = state.position;
    skippedSteps = state.skippedSteps;
    tokensSeen = state.tokensSeen;
    badStepsInARow = state.badStepsInARow;
    if (!options.seed)
      seed = state.seed;
    logInfo(fmt::format("resuming after step {} from {}", step, found->path));
    if (options.steps && step >= *options.steps && !options.evaluate)
      logInfo(fmt::format(
          "--steps {}: the run has come to step {}; --steps counts from its beginning, and nothing is left to do",
          *options.steps, step));
    return Status();
  }

  Status createJob() {
    JobOptions jobOptions;
    jobOptions.seed = seed;
    jobOptions.skippedSteps = skippedSteps;
    jobOptions.evaluates = options.evaluate;
    jobOptions.validates = !options.validation.data.empty();
    jobOptions.lateDeviceSeed = options.lateDeviceSeed;
    jobOptions.sleepScale = options.sleepScale;
    jobOptions.fileOrder = options.fileOrder;
    jobOptions.adapts = options.adapts && !options.evaluate;
    jobOptions.wantsToStop = [this] { return stopRequested.load() || (options.wantsToStop && options.wantsToStop()); };
    if (processes || cluster) {
      jobOptions.world = world.get();
      jobOptions.seats = cluster ? cluster->seats() : processes->seats();
      jobOptions.bulkWay = cluster ? cluster->bulkWay() : nullptr;
    }
    jobOptions.traceCapacity = options.trace.empty() ? 0 : size_t{1} << 20;
    MAESTRO_ASSIGN(job, Job::create(*plan, jobOptions));
    bool anyTrains = std::any_of((*plan)->sections()->begin(), (*plan)->sections()->end(),
                                 [](const fb::Section *section) { return section->trains(); });
    if (!options.evaluate && !anyTrains)
      return Status::invalidInput(fmt::format("{}: nothing in this plan trains; use --evaluate", options.planPath));
    return Status();
  }

  Status loadValues() {
    MAESTRO_ASSIGN(LoadSummary summary, loadJob(*plan, options.weights, seed, *job));
    if (isRoot())
      warnOfChangedFiles(*plan);
    if (found && isRoot())
      warnOfOtherDevice(*found, job->deviceIdentity());
    if (found)
      MAESTRO_TRY(loadCheckpoint(*plan, *found, *job));
    else if (summary.seeded > 0)
      logInfo(fmt::format("{} of {} parameters start from seeded initial values (seed {})", summary.seeded,
                          summary.seeded + summary.fromPlan + summary.fromWeights, seed));
    return job->start();
  }

  Status openData() {
    MAESTRO_ASSIGN(TrainingData opened, openTrainingData(*plan, options, seed, processes || cluster));
    data = std::move(opened.identity);
    if (found && !options.evaluate) {
      MAESTRO_ASSIGN(position, resumedPosition(*found, data, {seed, options.acceptsChangedData}));
    }
    if (!options.validation.data.empty()) {
      MAESTRO_ASSIGN(validation, Validation::open(*plan, options, found ? found->state.best : std::nullopt));
    }
    size_t ahead = std::max<size_t>(2 * (*plan)->training()->global_batch(), 8);
    MAESTRO_ASSIGN(source, data::SampleSource::create(std::move(opened.reader),
                                                      {ahead, options.evaluate ? kEvaluatedBatches : kStepsUnderWay},
                                                      options.evaluate ? data::DataPosition() : position));
    return Status();
  }

  Status train() {
    const fb::Training &training = *(*plan)->training();
    feeder.emplace(*job, *source,
                   StepFeeder::Options{training.global_batch(), options.steps, options.saveEvery,
                                       options.validation.every, options.waitsForSteps,
                                       options.selfCheck && isRoot() ? step + 1 : 0},
                   step);
    if (keeps() && options.sleepScale == 0 && job->trainsHere())
      saver.emplace(*plan, *job,
                    Saver::Options{options.out, results ? &results->folder() : nullptr, options.keepLast, copiesFit});
    auto style = logFormat() == LogFormat::Json ? metrics::Progress::Style::Json : metrics::Progress::detect(stderr);
    std::optional<metrics::Progress> progress;
    if (isRoot() && !options.quiet)
      progress.emplace(stderr, style, options.steps.value_or(0));
    StepReport report(*plan,
                      cluster ? [this](uint32_t rank) { return cluster->nameOf(rank); } : StepReport::NameRank());
    bool finished = options.steps && step >= *options.steps, hasFailed = false;
    int64_t sinceNs = transport::nowNs(); // Of the step under way.
    for (bool isFirst = true; !finished && !hasFailed && !isStopping(); isFirst = false) {
      MAESTRO_TRY(trainStep(isFirst));
      int64_t endNs = isFirst ? transport::nowNs() : result->endNs;
      metrics::StepRecord &record =
          report.fill(*job, *result, feeder->batch(), step, static_cast<double>(endNs - sinceNs) * 1e-9);
      record.tokensSeen = tokensSeen;
      sinceNs = endNs;
      finished = feeder->isLast();
      hasFailed = badStepsInARow >= training.bad_steps();
      bool validates = validation && !hasFailed && !isStopping() && validation->isDue(step, finished);
      if (validates) {
        MAESTRO_TRY(validation->run(*job, record));
        finished = finished || (job->trainsHere() && validation->isOver()); // Others have no losses.
        sinceNs = transport::nowNs();
      }
      if (isRoot())
        MAESTRO_TRY(recordStep(report, record, progress));
      bool isBest = validates && validation->isBest() && !options.validation.keepBest.empty();
      if (saver && (feeder->isCheckpointDue() || finished || hasFailed || isStopping() || isBest)) {
        MAESTRO_TRY(save());
        sinceNs = transport::nowNs();
      }
    }
    if (progress)
      progress->finish();
    if (std::string network = report.networkSummary(); !network.empty() && isRoot())
      logInfo(network);
    if (saver)
      MAESTRO_TRY(saver->finish());
    if (validation && isRoot())
      validation->sayBest();
    if (hasFailed && isRoot()) // Which ends the others, too.
      return report.tooManyBadSteps(badStepsInARow);
    return endTraining(finished || hasFailed);
  }

  bool isStopping() const { return (result && result->stops) || (validation && validation->stops()); }

  Status endTraining(bool finished) {
    hasEnded = true;
    MAESTRO_TRY(job->drain());
    if (!processes && !cluster) // Those that ran ahead, too; other processes end when they have done all their steps.
      job->end();
    if (!options.trace.empty())
      MAESTRO_TRY(writeTrace(*plan, *job, isRoot(), options.trace, cluster ? cluster->clockAheadNs() : 0));
    if (!finished && isStopping() && isRoot())
      return Status::interrupted(options.out.empty()
                                     ? fmt::format("interrupted after step {}; nothing was saved without --out", step)
                                     : fmt::format("interrupted; step {} is saved in {}", step, options.out));
    return Status();
  }

  /// One step. The run's first one ends with its gradients, which may be looked at before they are
  /// applied.
  Status trainStep(bool isFirst) {
    bool holdsUpdate = isFirst && job->trainsHere();
    MAESTRO_ASSIGN(result, feeder->next(!holdsUpdate));
    step = feeder->step();
    position = feeder->batch().next;
    skippedSteps += result->applied ? 0 : 1;
    tokensSeen += result->tokens;
    badStepsInARow = result->applied ? 0 : badStepsInARow + 1;
    if (!holdsUpdate)
      return Status();
    MAESTRO_TRY(job->drain());
    MAESTRO_TRY(afterFirstGradients(feeder->batch()));
    return job->update(step, *result);
  }

  Status recordStep(StepReport &report, const metrics::StepRecord &record, std::optional<metrics::Progress> &progress) {
    if (results)
      MAESTRO_TRY(results->record(*plan, record));
    if (progress)
      progress->update(record, static_cast<double>(transport::nowNs()) * 1e-9);
    report.warn(*result);
    return Status();
  }

  Status afterFirstGradients(const data::SampleBatch &batch) {
    job->drives("checking");
    if (options.isRestart && found) // The first start did it.
      return Status();
    if (options.saveGradients)
      MAESTRO_TRY(saveGradients(*plan, *job, options.out + "/gradients.safetensors"));
    if (!options.selfCheck)
      return Status();
    if (found)
      return Status::invalidInput("--self-check compares initial values; it cannot follow --resume");
    if (!result->applied)
      return Status::invalidInput(
          fmt::format("self-check: the first step's loss or gradient norm ({}) is not finite, and "
                      "nothing can be "
                      "compared; look at its samples and at the initial values",
                      result->gradientNorm));
    return selfCheck(*plan, *job, *result, batch, options.weights, seed, step);
  }

  Status save() {
    const fb::Training &training = *(*plan)->training();
    checkpoint::TrainingState state;
    state.step = step;
    state.position = position;
    state.seed = seed;
    state.planHash = plan->hash();
    state.workloadHash = (*plan)->workload_hash();
    state.skippedSteps = skippedSteps;
    state.tokensSeen = tokensSeen;
    // A run that goes on after too many may go on for as many again.
    state.badStepsInARow = badStepsInARow < training.bad_steps() ? badStepsInARow : 0;
    state.device = job->deviceIdentity();
    state.run = results ? results->folder().run() : "";
    state.data = data;
    uint64_t best = 0;
    if (validation) {
      state.best = validation->bestLoss();
      best = options.validation.keepBest.empty() ? 0 : state.best->step;
    }
    for (const fb::Component *component : *(*plan)->components())
      if (auto own = options.weights.find(component->name()->str());
          (component->frozen() || component->saves_trained()) && own != options.weights.end())
        state.frozen[own->first] = own->second;
    return saver->save(std::move(state), best);
  }

  Status evaluateAll() {
    MAESTRO_ASSIGN(Evaluation all, evaluate(*plan, *job, *source, options.steps));
    hasEnded = true;
    if (!options.trace.empty())
      MAESTRO_TRY(writeTrace(*plan, *job, isRoot(), options.trace, cluster ? cluster->clockAheadNs() : 0));
    if (isRoot())
      MAESTRO_TRY(printEvaluation(*plan, all));
    return isRoot() && all.stops ? Status::interrupted("interrupted") : Status();
  }

  const RunOptions &options;
  std::optional<plan::Plan> plan;
  std::optional<checkpoint::FoundCheckpoint> found;
  std::unique_ptr<data::SampleSource> source; ///< Ranks read its batches: it outlives the job.
  std::unique_ptr<Results> results;           ///< Of the root; null: nothing is kept.
  std::optional<StepFeeder> feeder;
  std::unique_ptr<Validation> validation; ///< Null: none.
  std::unique_ptr<World> world;           ///< Where ranks are processes.
  std::unique_ptr<ProcessGroup> processes;
  std::unique_ptr<Cluster> cluster; ///< Where an engine has started several.
  std::unique_ptr<Job> job;
  std::optional<Saver> saver; ///< Of processes that train, where results are kept.
  data::DataIdentity data;
  data::DataPosition position;
  const StepResult *result = nullptr; ///< Of the last step.
  uint64_t step = 0, seed = 0, tokensSeen = 0;
  uint64_t skippedSteps = 0, badStepsInARow = 0; ///< Not applied: of the whole run, and up to now.
  bool copiesFit = true;                         ///< Checkpoints are written behind the steps.
  bool hasEnded = false;                         ///< All steps are done.
};

} // namespace

Status run(const RunOptions &options) { return Run(options).execute(); }

void requestStop() { stopRequested = true; }

} // namespace maestro::executor
