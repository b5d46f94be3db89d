#include "executor/core/run.h"

#include "base/log.h"
#include "base/process_memory.h"
#include "executor/checkpoint/directory.h"
#include "executor/checkpoint/file_writer.h"
#include "executor/core/busy_times.h"
#include "executor/core/hyper_parameters.h"
#include "executor/core/job.h"
#include "executor/core/job_trace.h"
#include "executor/core/process_group.h"
#include "executor/core/saving.h"
#include "executor/core/self_check.h"
#include "executor/core/training_data.h"
#include "executor/metrics/metrics_file.h"
#include "executor/metrics/progress.h"
#include "executor/metrics/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <thread>
#include <unistd.h>

namespace maestro::executor {
namespace {

namespace fb = plan::fb;
std::atomic<bool> stopRequested{false};

double nowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Run {
public:
  explicit Run(const RunOptions &options) : options(options) {}

  Status execute() {
    MAESTRO_TRY(loadPlan());
    MAESTRO_TRY(checkOptions());
    MAESTRO_TRY(openOutput());
    if (!options.trace.empty())
      MAESTRO_TRY(createTrace());
    MAESTRO_TRY(startProcesses());
    Status status = executeRank();
    if (!processes)
      return status;
    if (status.isOk() && isRoot() && !options.trace.empty())
      processes->awaitOthers(); // They write their parts.
    if (!status.isOk() && !wiring->abort->isRaised()) { // The others end, too, and for this reason.
      int none = 0;
      wiring->outcome->code.compare_exchange_strong(none, static_cast<int>(status.code()));
      wiring->abort->raise(processes->rank(), status);
    }
    job.reset(); // The root's ends the job; then its group waits for the others.
    if (!processes->isRoot())
      ProcessGroup::leave(hasEnded ? Status() : std::move(status));
    return status;
  }

private:
  /// Every rank but the root becomes a process of its own, before there are threads.
  Status startProcesses() {
    if (!options.processes || (*plan)->ranks()->size() < 2)
      return Status();
    Topology topology(*plan);
    MAESTRO_ASSIGN(wiring, makeWiring(*plan, topology, {options.evaluate, 1, 1, true, options.adapts && !options.evaluate}));
    MAESTRO_ASSIGN(processes, ProcessGroup::fork(*wiring, topology.ranks));
    if (processes->isRoot()) {
      processes->supervise();
    } else {
      setLogQuiet(true);
    }
    return Status();
  }

  bool isRoot() const { return !processes || processes->isRoot(); }

  Status executeRank() {
    MAESTRO_TRY(createJob());
    MAESTRO_TRY(loadValues());
    MAESTRO_TRY(openData());
    return options.evaluate ? evaluateAll() : train();
  }

  Status loadPlan() {
    MAESTRO_ASSIGN(auto loaded, plan::Plan::load(options.planPath));
    plan.emplace(std::move(loaded));
    const plan::Plan &p = *plan;
    if (p->machine()->device_kind()->string_view() != "cpu")
      return Status::invalidInput(fmt::format(
          "{}: the plan is for {} devices of kind '{}' with {} bytes each, this machine has kind 'cpu'; plan again for this machine",
          options.planPath, p->machine()->devices(), p->machine()->device_kind()->string_view(), p->machine()->memory_bytes()));
    MAESTRO_TRY(checkMachine());
    seed = options.seed.value_or(p->training()->seed());
    return Status();
  }

  /// The plan's devices are shares of this machine.
  Status checkMachine() const {
    const plan::Plan &p = *plan;
    uint64_t memory = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    uint64_t needed = 0;
    for (const fb::Rank *rank : *p->ranks())
      needed += rank->peak_bytes();
    for (const fb::Station *station : *p->stations()) // Where ranks say nothing.
      needed += p->ranks()->Get(station->ranks()->Get(0))->peak_bytes() > 0
                    ? 0
                    : p->executables()->Get(station->executable())->peak_bytes() * station->ranks()->size();
    if (needed > memory)
      return Status::invalidInput(fmt::format("{}: the plan needs {} bytes of memory, this machine has {}; plan again "
                                              "with a smaller micro-batch, or run it on the machine it was made for",
                                              options.planPath, needed, memory));
    unsigned cores = std::max(1u, std::thread::hardware_concurrency());
    if (p->ranks()->size() > cores)
      logWarning(fmt::format("{} devices share {} cores; times say little about the plan", p->ranks()->size(), cores));
    return Status();
  }

  /// What sleeps computes nothing that could be kept.
  Status checkOptions() const {
    if (options.sleepScale > 0 && (options.resume || options.saveGradients || options.selfCheck || options.evaluate))
      return Status::invalidInput("--sleep-kernels computes nothing; run it without --resume, --save-gradients, --self-check "
                                  "and --evaluate");
    if (options.waitsForSteps && options.processes)
      return Status::invalidInput("--wait-for-steps works with --ranks threads only");
    if (options.sleepScale > 0)
      logWarning("--sleep-kernels: nothing is computed; losses are 0, and no checkpoint is written");
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
    if (options.out.empty()) {
      if (options.resume)
        return Status::invalidInput("--resume needs --out, the folder of the run to continue");
      if (options.saveGradients)
        return Status::invalidInput("--save-gradients needs --out, the folder to save them in");
      return Status();
    }
    std::error_code error;
    std::filesystem::create_directories(options.out, error);
    if (error)
      return Status::invalidInput(fmt::format("--out {}: {}", options.out, error.message()));
    if (options.resume) {
      MAESTRO_ASSIGN(found, checkpoint::findNewestCheckpoint(options.out));
      if (!found)
        return Status::invalidInput(
            fmt::format("--resume: {} holds no whole checkpoint; start without --resume", options.out));
      MAESTRO_TRY(adoptCheckpoint());
    }
    return Status();
  }

  /// After the first step: a run that bad data or weights ended before it leaves an older run's results alone.
  Status openResults(uint64_t before) {
    MAESTRO_ASSIGN(metricsFile, metrics::MetricsFile::open(options.out + "/metrics.jsonl", before));
    return keepPlan();
  }

  Status adoptCheckpoint() {
    const checkpoint::TrainingState &state = found->state;
    if (state.workloadHash != (*plan)->workload_hash())
      return Status::invalidInput(fmt::format("{}: was written by another workload; resume under a plan of the "
                                              "same workload", found->path));
    if (state.planHash != plan->hash())
      logWarning("resuming under another plan of the same workload: the run continues, but not bitwise");
    for (const fb::Component *component : *(*plan)->components()) {
      std::string name = component->name()->str();
      auto source = state.frozen.find(name);
      bool fromWeights = source != state.frozen.end() && state.planHash == plan->hash() &&
                         source->second != (component->model_path() ? component->model_path()->str() : "");
      if (fromWeights && !options.weights.count(name))
        return Status::invalidInput(fmt::format("{}: component '{}' is frozen and had its values from {}; give --weights {}={} again", found->path,
                                                name, source->second, name, source->second));
    }
    step = state.step;
    position = state.position;
    if (!options.seed)
      seed = state.seed;
    logInfo(fmt::format("resuming after step {} from {}", step, found->path));
    return Status();
  }

  /// The plan that ran lies beside its results.
  Status keepPlan() {
    std::string target = options.out + "/plan.mpl", partial = target + ".partial";
    std::error_code error;
    if (std::filesystem::equivalent(options.planPath, target, error))
      return Status();
    MAESTRO_ASSIGN(auto writer, checkpoint::FileWriter::create(partial));
    MAESTRO_TRY(writer.append(std::as_bytes(plan->bytes())));
    MAESTRO_TRY(writer.finish());
    std::filesystem::rename(partial, target, error);
    if (error)
      return Status::unavailable(fmt::format("{}: {}", target, error.message()));
    return Status();
  }

  Status createJob() {
    JobOptions jobOptions;
    jobOptions.seed = seed;
    jobOptions.evaluates = options.evaluate;
    jobOptions.lateDeviceSeed = options.lateDeviceSeed;
    jobOptions.sleepScale = options.sleepScale;
    jobOptions.fileOrder = options.fileOrder;
    jobOptions.adapts = options.adapts && !options.evaluate;
    jobOptions.wantsToStop = [this] { return stopRequested.load() || (options.wantsToStop && options.wantsToStop()); };
    if (processes) {
      jobOptions.rank = processes->rank();
      jobOptions.wiring = wiring.get();
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
    if (found)
      MAESTRO_TRY(loadCheckpoint(*plan, *found, *job));
    else if (summary.seeded > 0)
      logInfo(fmt::format("{} of {} parameters start from seeded initial values (seed {})", summary.seeded,
                          summary.seeded + summary.fromPlan + summary.fromWeights, seed));
    return job->start();
  }

  Status openData() {
    MAESTRO_ASSIGN(auto reader, openReader(*plan, options, seed));
    size_t ahead = std::max<size_t>(2 * (*plan)->training()->global_batch(), 8);
    MAESTRO_ASSIGN(source, data::SampleSource::create(std::move(reader), ahead, position));
    return Status();
  }

  /// A batch under way, and its step.
  struct Pending {
    data::SampleBatch batch;
    uint64_t step = 0;
  };

  bool isLast(const Pending &pending) const {
    return options.steps ? pending.step >= *options.steps : pending.batch.endsPass;
  }

  /// A checkpoint is.
  bool isDue(uint64_t atStep) const { return options.saveEvery > 0 && atStep % options.saveEvery == 0; }

  Status train() {
    uint64_t lastStep = options.steps.value_or(0);
    auto style = logFormat() == LogFormat::Json ? metrics::Progress::Style::Json : metrics::Progress::detect(stderr);
    std::optional<metrics::Progress> progress;
    if (isRoot() && !options.quiet)
      progress.emplace(stderr, style, lastStep);
    bool finished = lastStep > 0 && step >= lastStep;
    while (!finished && !(result && result->stops)) {
      double started = nowSeconds();
      MAESTRO_TRY(trainStep());
      if (isRoot()) {
        MAESTRO_TRY(recordStep(nowSeconds() - started));
        if (progress)
          progress->update(record, nowSeconds());
      }
      finished = isLast(*current);
      if (!options.out.empty() && options.sleepScale == 0 && job->trainsHere() && (isDue(step) || finished || result->stops))
        MAESTRO_TRY(save());
    }
    if (progress)
      progress->finish();
    hasEnded = true;
    MAESTRO_TRY(job->drain());
    if (!options.trace.empty())
      MAESTRO_TRY(writeTrace(*plan, *job, isRoot(), options.trace));
    if (!finished && result && result->stops && isRoot())
      return Status::interrupted(options.out.empty()
                                     ? fmt::format("interrupted after step {}; nothing was saved without --out", step)
                                     : fmt::format("interrupted; step {} is saved in {}", step, options.out));
    return Status();
  }

  /// Reads the batch of the step after `after`.
  Status readNext(uint64_t after) {
    Pending &slot = pendings[(after + 1) % pendings.size()];
    if (slot.step > 0)
      MAESTRO_TRY(job->awaitReleased(slot.step));
    MAESTRO_TRY(source->next((*plan)->training()->global_batch(), slot.batch));
    if (slot.batch.count == 0)
      return Status::invalidInput("the data holds no samples");
    slot.step = after + 1;
    return Status();
  }

  /// One step of the ranks that are here. They get the step after it, too: those that have nothing to train run ahead, and those that
  /// train begin it at once, unless a checkpoint comes in between.
  Status trainStep() {
    bool updates = firstStepDone || !job->trainsHere();
    Pending &now = pendings[(step + 1) % pendings.size()];
    if (now.step != step + 1)
      MAESTRO_TRY(readNext(step));
    if (givenToFrozen <= step)
      job->submit(now.batch, now.step, Job::To::Frozen);
    if (givenToTraining <= step)
      job->submit(now.batch, now.step, Job::To::Training, updates);
    givenToFrozen = std::max(givenToFrozen, step + 1);
    if (!isLast(now)) { // While the ranks work.
      Status status = readNext(step + 1);
      Pending &ahead = pendings[(step + 2) % pendings.size()];
      if (status.isOk())
        job->foresee(ahead.batch, ahead.step);
      bool mayRunAhead = !options.waitsForSteps && job->trainsHere();
      if (mayRunAhead && updates && !isDue(now.step) && status.isOk()) {
        job->submit(ahead.batch, ahead.step, Job::To::Training);
        givenToTraining = ahead.step;
      }
      if (mayRunAhead && job->runsAhead()) {
        MAESTRO_TRY(std::move(status));
        job->submit(ahead.batch, ahead.step, Job::To::Frozen);
        givenToFrozen = ahead.step;
      } // Otherwise a failure is reported when the step is due.
    }
    MAESTRO_ASSIGN(result, job->await(step + 1));
    ++step;
    current = &now;
    position = current->batch.next;
    if (!updates) {
      MAESTRO_TRY(job->drain());
      MAESTRO_TRY(afterFirstGradients());
      MAESTRO_TRY(job->update(step, result->gradientNorm));
      firstStepDone = true;
    }
    return Status();
  }

  Status recordStep(double seconds) {
    fillRecord(result->gradientNorm, seconds);
    if (!options.out.empty() && !metricsFile)
      MAESTRO_TRY(openResults(step - 1));
    if (metricsFile)
      MAESTRO_TRY(metricsFile->append(record));
    if (!std::isfinite(record.loss) || !std::isfinite(record.gradNorm))
      logWarning(fmt::format("step {}: loss {} and gradient norm {} are not finite; lower train.optimizer's lr or "
                             "set train.clip_grad_norm", step, record.loss, record.gradNorm));
    return Status();
  }

  Status afterFirstGradients() {
    if (options.saveGradients)
      MAESTRO_TRY(saveGradients(*plan, *job, options.out + "/gradients.safetensors"));
    if (options.selfCheck) {
      if (found)
        return Status::invalidInput("--self-check compares initial values; it cannot follow --resume");
      MAESTRO_TRY(selfCheck(*plan, *job, *result, current->batch, options.weights, seed, step));
    }
    return Status();
  }

  void fillRecord(double norm, double seconds) {
    record.step = step;
    record.loss = weightedLoss(*plan, result->totals);
    namedLosses(*plan, result->totals, record.losses);
    record.gradNorm = norm;
    record.lr = learningRate(*(*plan)->training(), step);
    record.samples = current->batch.count;
    record.tokens = result->tokens;
    record.stepSeconds = seconds;
    record.peakBytes = peakResidentBytes();
    record.predictedStepSeconds = static_cast<double>(result->predictedNs) * 1e-9;
    record.scheduleSeconds = static_cast<double>(result->scheduleNs) * 1e-9;
    busyTimes.fill(*plan, *job, *result, seconds, record);
  }

  Status save() {
    checkpoint::TrainingState state;
    state.step = step;
    state.position = position;
    state.seed = seed;
    state.planHash = plan->hash();
    state.workloadHash = (*plan)->workload_hash();
    for (const fb::Component *component : *(*plan)->components())
      if (auto own = options.weights.find(component->name()->str()); component->frozen() && own != options.weights.end())
        state.frozen[own->first] = own->second;
    return saveCheckpoint(*plan, *job, options.out, std::move(state));
  }

  Status evaluateAll() {
    LossTotals sums;
    size_t losses = (*plan)->losses()->size();
    sums.sums.assign(losses, 0);
    sums.counts.assign(losses, 0);
    uint64_t samples = 0;
    for (uint64_t done = 0; !stopRequested;) {
      data::SampleBatch &batch = pendings[0].batch;
      MAESTRO_TRY(source->next((*plan)->training()->global_batch(), batch));
      job->submit(batch, ++done, Job::To::All);
      MAESTRO_ASSIGN(result, job->await(done));
      MAESTRO_TRY(job->awaitReleased(done));
      for (size_t k = 0; k < losses; ++k) {
        sums.sums[k] += result->totals.sums[k];
        sums.counts[k] += result->totals.counts[k];
      }
      samples += batch.count;
      if (batch.endsPass || (options.steps && done >= *options.steps))
        break;
    }
    hasEnded = true;
    if (!options.trace.empty())
      MAESTRO_TRY(writeTrace(*plan, *job, isRoot(), options.trace));
    if (!isRoot())
      return Status();
    std::vector<metrics::LossValue> values;
    namedLosses(*plan, sums, values);
    std::string text = fmt::format("{{\"samples\": {}, \"loss\": {:.9g}, \"losses\": {{", samples,
                                   weightedLoss(*plan, sums));
    for (size_t i = 0; i < values.size(); ++i)
      text += fmt::format("{}\"{}\": {:.9g}", i ? ", " : "", escapeJson(values[i].name), values[i].value);
    std::printf("%s}}\n", text.c_str());
    return stopRequested ? Status::interrupted("interrupted") : Status();
  }

  const RunOptions &options;
  std::optional<plan::Plan> plan;
  std::optional<checkpoint::FoundCheckpoint> found;
  std::unique_ptr<data::SampleSource> source;
  std::array<Pending, kStepsUnderWay> pendings; ///< By step; ranks read their batches.
  std::unique_ptr<Wiring> wiring; ///< Where ranks are processes.
  std::unique_ptr<ProcessGroup> processes;
  std::unique_ptr<Job> job;
  std::unique_ptr<metrics::MetricsFile> metricsFile;
  data::DataPosition position;
  const StepResult *result = nullptr; ///< Of the last step.
  Pending *current = nullptr;
  metrics::StepRecord record;
  uint64_t step = 0, seed = 0;
  uint64_t givenToFrozen = 0, givenToTraining = 0; ///< The latest step that ranks without anything to train have got, and the others.
  bool hasEnded = false; ///< All steps are done.
  BusyTimes busyTimes;
  bool firstStepDone = false;
};

} // namespace

Status run(const RunOptions &options) { return Run(options).execute(); }

void requestStop() { stopRequested = true; }

} // namespace maestro::executor
