#include "executor/core/results.h"

#include "executor/checkpoint/file_writer.h"

#include <fmt/format.h>

#include <filesystem>

namespace maestro::executor {
namespace {

/// The plan that ran lies beside its results.
Status keepPlan(const plan::Plan &plan, const std::string &from, const std::string &folder) {
  std::string target = folder + "/plan.mpl", partial = target + ".partial";
  std::error_code error;
  if (std::filesystem::equivalent(from, target, error))
    return Status();
  MAESTRO_ASSIGN(auto writer, checkpoint::FileWriter::create(partial));
  MAESTRO_TRY(writer.append(std::as_bytes(plan.bytes())));
  MAESTRO_TRY(writer.finish());
  std::filesystem::rename(partial, target, error);
  if (error)
    return Status::unavailable(fmt::format("{}: {}", target, error.message()));
  return checkpoint::syncFolder(folder);
}

} // namespace

Result<checkpoint::FoundCheckpoint> findToEvaluate(const RunOptions &options) {
  MAESTRO_ASSIGN(std::string run, checkpoint::readRunName(options.out));
  MAESTRO_ASSIGN(auto found, checkpoint::findNewestCheckpoint(options.out, run, checkpoint::Access::Reads));
  if (!found)
    return Status::invalidInput(fmt::format("--resume: {} holds no whole checkpoint", options.out));
  return *std::move(found);
}

Result<std::unique_ptr<Results>> Results::open(const RunOptions &options) {
  using Start = checkpoint::RunFolder::Start;
  bool hasBegun = false;
  if (options.isRestart) {
    MAESTRO_ASSIGN(std::string now, checkpoint::readRunName(options.out));
    hasBegun = now != options.runBefore;
  }
  Start start = hasBegun                                      ? Start::GoOn
                : options.overwrite                           ? Start::Replace
                : options.resume == RunOptions::Resume::Yes   ? Start::Resume
                : options.resume == RunOptions::Resume::IfAny ? Start::ResumeOrFresh
                                                              : Start::Fresh;
  std::unique_ptr<Results> results(new Results(options));
  MAESTRO_ASSIGN(results->opened, checkpoint::RunFolder::open(options.out, start));
  return results;
}

Status beforeRestarts(RunOptions &options) {
  if (options.out.empty() || options.evaluate)
    return Status::invalidInput("--restarts goes on from the checkpoints of a training run: give --out");
  MAESTRO_ASSIGN(options.runBefore, checkpoint::readRunName(options.out));
  return Status();
}

Status Results::record(const plan::Plan &plan, const metrics::StepRecord &record) {
  if (!metricsFile)
    MAESTRO_TRY(claim(plan, record.step - 1));
  if (eventFile)
    MAESTRO_TRY(eventFile->append(record));
  return metricsFile->append(record);
}

Status Results::claim(const plan::Plan &plan, uint64_t stepsBefore) {
  MAESTRO_TRY(opened->claim());
  MAESTRO_ASSIGN(metricsFile, metrics::MetricsFile::open(options.out + "/metrics.jsonl", stepsBefore));
  std::string events = options.out + "/tensorboard";
  std::error_code error;
  if (stepsBefore == 0) // Of an older run.
    std::filesystem::remove_all(events, error);
  if (options.tensorboard) {
    MAESTRO_ASSIGN(eventFile, metrics::EventFile::create(events, stepsBefore));
  }
  return keepPlan(plan, options.planPath, options.out);
}

} // namespace maestro::executor
