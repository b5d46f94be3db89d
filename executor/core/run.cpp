#include "executor/core/run.h"

#include "base/log.h"
#include "executor/checkpoint/directory.h"
#include "executor/checkpoint/file_writer.h"
#include "executor/core/hyper_parameters.h"
#include "executor/core/saving.h"
#include "executor/core/self_check.h"
#include "executor/core/trainer.h"
#include "executor/data/shard_pattern.h"
#include "executor/data/synthetic.h"
#include "executor/data/webdataset.h"
#include "executor/metrics/metrics_file.h"
#include "executor/metrics/progress.h"
#include "executor/metrics/trace.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
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

/// Largest resident size so far, from the kernel's own account. 0 where it is not told.
uint64_t peakResidentBytes() {
  std::FILE *file = std::fopen("/proc/self/status", "r");
  if (!file)
    return 0;
  char line[256];
  unsigned long long kilobytes = 0;
  while (std::fgets(line, sizeof line, file))
    if (std::sscanf(line, "VmHWM: %llu kB", &kilobytes) == 1)
      break;
  std::fclose(file);
  return kilobytes * 1024;
}

class Run {
public:
  explicit Run(const RunOptions &options) : options(options) {}

  Status execute() {
    MAESTRO_TRY(loadPlan());
    MAESTRO_TRY(openOutput());
    MAESTRO_TRY(createDevice());
    MAESTRO_TRY(loadValues());
    MAESTRO_TRY(openData());
    return options.evaluate ? evaluateAll() : train();
  }

private:
  Status loadPlan() {
    MAESTRO_ASSIGN(auto loaded, plan::Plan::load(options.planPath));
    plan.emplace(std::move(loaded));
    const plan::Plan &p = *plan;
    if (p->machine()->device_kind()->string_view() != "cpu")
      return Status::invalidInput(fmt::format(
          "{}: the plan is for {} devices of kind '{}', this machine has kind 'cpu'; plan again for this machine",
          options.planPath, p->machine()->devices(), p->machine()->device_kind()->string_view()));
    if (p->stations()->size() != 1)
      return Status::invalidInput(fmt::format("{}: the plan has {} stations; this executor runs plans of one",
                                              options.planPath, p->stations()->size()));
    uint64_t memory = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    uint64_t needed = p->executables()->Get(p->stations()->Get(0)->executable())->peak_bytes();
    if (needed > memory)
      return Status::invalidInput(fmt::format("{}: the plan needs {} bytes of memory, this machine has {}; plan again "
                                              "with a smaller micro-batch, or run it on the machine it was made for",
                                              options.planPath, needed, memory));
    seed = options.seed.value_or(p->training()->seed());
    return Status();
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
    if (!options.evaluate) {
      MAESTRO_ASSIGN(metricsFile, metrics::MetricsFile::open(options.out + "/metrics.jsonl", step));
      return keepPlan();
    }
    return Status();
  }

  Status adoptCheckpoint() {
    const checkpoint::TrainingState &state = found->state;
    if (state.workloadHash != (*plan)->workload_hash())
      return Status::invalidInput(fmt::format("{}: was written by another workload; resume under a plan of the "
                                              "same workload", found->path));
    if (state.planHash != plan->hash())
      logWarning("resuming under another plan of the same workload: the run continues, but not bitwise");
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

  Status createDevice() {
    std::shared_ptr<const kernels::Library> library = kernels::createCpuLibrary();
    CpuDeviceOptions deviceOptions;
    uint32_t threads = (*plan)->ranks()->Get(0)->threads();
    deviceOptions.threads =
        static_cast<int>(threads ? threads : std::max(1u, std::thread::hardware_concurrency()));
    device = options.lateDeviceSeed >= 0
                 ? createLateCpuDevice(library, deviceOptions, static_cast<uint64_t>(options.lateDeviceSeed))
                 : createCpuDevice(library, deviceOptions);
    if (!options.trace.empty())
      device->enableTrace(size_t{1} << 20);
    uint32_t index = (*plan)->stations()->Get(0)->executable();
    MAESTRO_ASSIGN(instance, ExecutableInstance::create(*plan, index, *device));
    if (!options.evaluate && !instance->hasProgram(fb::ProgramKind::Backward))
      return Status::invalidInput(fmt::format("{}: nothing in this plan trains; use --evaluate", options.planPath));
    return Status();
  }

  Status loadValues() {
    MAESTRO_ASSIGN(LoadSummary summary, loadParameters(*plan, options.weights, seed, *instance, *device));
    if (found)
      MAESTRO_TRY(loadCheckpoint(*plan, *found, *instance, *device));
    else if (summary.seeded > 0)
      logInfo(fmt::format("{} of {} parameters start from seeded initial values (seed {})", summary.seeded,
                          summary.seeded + summary.fromPlan + summary.fromWeights, seed));
    MAESTRO_ASSIGN(trainer, Trainer::create(*plan, *device, *instance, seed));
    return Status();
  }

  Status openData() {
    std::unique_ptr<data::SampleReader> reader;
    if (options.data.empty()) {
      logInfo("no --data: training on synthetic samples");
      MAESTRO_ASSIGN(reader, openSyntheticData());
    } else {
      data::WebDatasetOptions dataset;
      MAESTRO_ASSIGN(dataset.shards, data::expandShardPatterns(options.data));
      for (const fb::Field *field : *(*plan)->fields())
        dataset.fields.push_back({field->name()->str(), field->optional()});
      dataset.shuffle = options.shuffle;
      dataset.seed = seed;
      MAESTRO_ASSIGN(reader, data::openWebDataset(std::move(dataset)));
    }
    size_t ahead = std::max<size_t>(2 * (*plan)->training()->global_batch(), 8);
    MAESTRO_ASSIGN(source, data::SampleSource::create(std::move(reader), ahead, position));
    return Status();
  }

  Result<std::unique_ptr<data::SampleReader>> openSyntheticData() {
    data::SyntheticOptions synthetic;
    synthetic.symbols = symbolSpecs(*plan);
    synthetic.fields = fieldSpecs(*plan);
    synthetic.seed = seed;
    for (const fb::Field *field : *(*plan)->fields())
      if (field->synthetic()) {
        MAESTRO_ASSIGN(auto sizes, data::parseSyntheticSizes(field->synthetic()->string_view()));
        synthetic.sizes.insert(synthetic.sizes.end(), sizes.begin(), sizes.end());
      }
    return data::openSynthetic(std::move(synthetic));
  }

  Status train() {
    uint64_t lastStep = options.steps.value_or(0);
    metrics::Progress progress(stderr, logFormat() == LogFormat::Json ? metrics::Progress::Style::Json
                                                                      : metrics::Progress::detect(stderr),
                               lastStep);
    bool finished = lastStep > 0 && step >= lastStep;
    while (!finished && !stopRequested) {
      double started = nowSeconds();
      MAESTRO_TRY(trainStep(started));
      progress.update(record, nowSeconds());
      finished = lastStep > 0 ? step >= lastStep : batch.endsPass;
      bool due = options.saveEvery > 0 && step % options.saveEvery == 0;
      if (!options.out.empty() && (due || finished || stopRequested))
        MAESTRO_TRY(save());
    }
    progress.finish();
    MAESTRO_TRY(writeTrace());
    if (!finished && stopRequested)
      return Status::interrupted(options.out.empty()
                                     ? fmt::format("interrupted after step {}; nothing was saved without --out", step)
                                     : fmt::format("interrupted; step {} is saved in {}", step, options.out));
    return Status();
  }

  Status trainStep(double started) {
    MAESTRO_TRY(source->next((*plan)->training()->global_batch(), batch));
    if (batch.count == 0)
      return Status::invalidInput("the data holds no samples");
    ++step;
    MAESTRO_TRY(trainer->computeGradients(batch, step, totals));
    if (!firstStepDone) {
      firstStepDone = true;
      MAESTRO_TRY(afterFirstGradients());
    }
    MAESTRO_ASSIGN(double norm, trainer->gradientNorm());
    MAESTRO_TRY(trainer->update(step, norm));
    position = batch.next;
    fillRecord(norm, nowSeconds() - started);
    if (metricsFile)
      MAESTRO_TRY(metricsFile->append(record));
    if (!std::isfinite(record.loss) || !std::isfinite(norm))
      logWarning(fmt::format("step {}: loss {} and gradient norm {} are not finite; lower train.optimizer's lr or "
                             "set train.clip_grad_norm", step, record.loss, norm));
    return Status();
  }

  Status afterFirstGradients() {
    if (options.saveGradients)
      MAESTRO_TRY(saveGradients(*plan, *instance, *device, options.out + "/gradients.safetensors"));
    if (options.selfCheck) {
      if (found)
        return Status::invalidInput("--self-check compares initial values; it cannot follow --resume");
      MAESTRO_TRY(selfCheck(*plan, *device, *instance, *trainer, batch, totals, options.weights, seed, step));
    }
    return Status();
  }

  void fillRecord(double norm, double seconds) {
    record.step = step;
    record.loss = trainer->weightedLoss(totals);
    trainer->namedLosses(totals, record.losses);
    record.gradNorm = norm;
    record.lr = learningRate(*(*plan)->training(), step);
    record.samples = batch.count;
    record.tokens = trainer->tokens();
    record.stepSeconds = seconds;
    record.peakBytes = peakResidentBytes();
    if ((*plan)->prediction())
      record.predictedStepSeconds = (*plan)->prediction()->step_seconds();
    int64_t busyNs = device->busyNs();
    double busy = static_cast<double>(busyNs - busyBefore) * 1e-9;
    busyBefore = busyNs;
    if (record.sections.empty())
      record.sections.push_back({(*plan)->sections()->Get(0)->name()->str(), 0, 0, 0});
    record.sections[0].busySeconds = busy;
    record.sections[0].idleSeconds = std::max(0.0, seconds - busy);
    record.sections[0].microbatches = trainer->microBatches();
  }

  Status save() {
    checkpoint::TrainingState state;
    state.step = step;
    state.position = position;
    state.seed = seed;
    state.planHash = plan->hash();
    state.workloadHash = (*plan)->workload_hash();
    return saveCheckpoint(*plan, *instance, *device, options.out, std::move(state));
  }

  Status evaluateAll() {
    LossTotals sums;
    uint64_t samples = 0;
    for (uint64_t done = 0; !stopRequested;) {
      MAESTRO_TRY(source->next((*plan)->training()->global_batch(), batch));
      MAESTRO_TRY(trainer->evaluate(batch, 0, sums));
      samples += batch.count;
      ++done;
      if (batch.endsPass || (options.steps && done >= *options.steps))
        break;
    }
    std::vector<metrics::LossValue> losses;
    trainer->namedLosses(sums, losses);
    std::string text = fmt::format("{{\"samples\": {}, \"loss\": {:.9g}, \"losses\": {{", samples,
                                   trainer->weightedLoss(sums));
    for (size_t i = 0; i < losses.size(); ++i)
      text += fmt::format("{}\"{}\": {:.9g}", i ? ", " : "", escapeJson(losses[i].name), losses[i].value);
    std::printf("%s}}\n", text.c_str());
    return stopRequested ? Status::interrupted("interrupted") : Status();
  }

  Status writeTrace() {
    if (options.trace.empty())
      return Status();
    MAESTRO_ASSIGN(auto file, metrics::TraceFile::create(options.trace));
    file->nameRank(0, "rank 0");
    file->nameStation(0, 0, (*plan)->sections()->Get(0)->name()->string_view());
    for (const TraceSpan &span : device->trace()) {
      metrics::TraceEvent event;
      event.name = span.name;
      event.category = "kernel";
      event.detail = span.scope;
      event.startNs = span.startNs;
      event.durationNs = span.endNs - span.startNs;
      event.microbatch = span.task;
      file->add(event);
    }
    return file->flush();
  }

  const RunOptions &options;
  std::optional<plan::Plan> plan;
  std::optional<checkpoint::FoundCheckpoint> found;
  std::unique_ptr<Device> device;
  std::unique_ptr<ExecutableInstance> instance;
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<data::SampleSource> source;
  std::unique_ptr<metrics::MetricsFile> metricsFile;
  data::SampleBatch batch;
  data::DataPosition position;
  LossTotals totals;
  metrics::StepRecord record;
  uint64_t step = 0, seed = 0;
  int64_t busyBefore = 0;
  bool firstStepDone = false;
};

} // namespace

Status run(const RunOptions &options) { return Run(options).execute(); }

void requestStop() { stopRequested = true; }

} // namespace maestro::executor
