#include "executor/core/step_report.h"

#include "base/log.h"
#include "base/process_memory.h"
#include "executor/core/hyper_parameters.h"
#include "executor/core/losses.h"
#include "plan/plan_generated.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace maestro::executor {

namespace fb = plan::fb;

metrics::StepRecord &StepReport::fill(const Job &job, const StepResult &result, const data::SampleBatch &batch,
                                      uint64_t step, double seconds) {
  record.step = step;
  record.loss = weightedLoss(plan, result.totals);
  namedLosses(plan, result.totals, record.losses);
  record.gradNorm = result.gradientNorm;
  record.lr = learningRate(*plan->training(), step);
  record.samples = batch.count;
  record.tokens = result.tokens;
  record.unixSeconds = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  int64_t read = 0;
  for (uint32_t rank = 0; rank < job.topology().ranks; ++rank)
    read += job.counters().dataBytes[rank].load(std::memory_order_relaxed);
  record.dataBytes = static_cast<uint64_t>(read - std::exchange(dataBytes, read));
  record.stepSeconds = seconds;
  record.peakBytes = peakResidentBytes();
  record.predictedStepSeconds = static_cast<double>(result.predictedNs) * 1e-9;
  record.scheduleSeconds = static_cast<double>(result.scheduleNs) * 1e-9;
  record.applied = result.applied;
  record.badSamples = result.badSamples;
  record.validation.reset();
  busyTimes.fill(plan, job, result, seconds, record);
  traffic.fill(plan, job, record);
  if (nameRank)
    compareDevices(job);
  return record;
}

void StepReport::compareDevices(const Job &job) {
  const ScheduledStep &made = job.anyWorker().schedule();
  const Topology &topology = job.topology();
  busySeconds.clear();
  plannedSeconds.clear();
  for (uint32_t rank = 0; rank < topology.ranks; ++rank) {
    int64_t plannedNs = 0;
    for (const wavefront::Task &task : made.schedule.tasksOf(topology.deviceOf[rank]))
      plannedNs += task.endNs - task.startNs;
    busySeconds.push_back(record.devices[rank].busySeconds);
    plannedSeconds.push_back(static_cast<double>(plannedNs) * 1e-9);
  }
  stragglers.add(busySeconds, plannedSeconds);
  record.slowDevices.clear();
  for (const Straggler &found : stragglers.found())
    record.slowDevices.push_back({found.rank, found.times});
}

/// The first of them; metrics.jsonl has all.
std::string StepReport::badSamples() const {
  constexpr size_t kMax = 4;
  std::string text;
  size_t count = record.badSamples.size();
  for (size_t i = 0; i < std::min(count, kMax); ++i) {
    const auto &[key, shard] = record.badSamples[i];
    text += fmt::format("{}'{}'{}", i ? ", " : "", key, shard.empty() ? "" : fmt::format(" of shard '{}'", shard));
  }
  return count > kMax ? fmt::format("{} and {} more", text, count - kMax) : text;
}

void StepReport::warn(const StepResult &result) {
  if (!record.applied)
    logWarning(fmt::format("step {} is not applied: its loss is {}, its gradient norm {}; look at its samples {}",
                           record.step, record.loss, record.gradNorm, badSamples()));
  slow.resize(record.devices.size());
  for (const metrics::SlowDevice &found : record.slowDevices) {
    if (slow[found.rank])
      continue;
    slow[found.rank] = true;
    logWarning(fmt::format("{} takes {:.2f} times as long as the others for what the plan says takes as long, and they "
                           "wait for it; look at that machine (this is said once)",
                           nameRank(found.rank), found.times));
  }
  uncounted.resize(result.totals.counts.size());
  for (uint32_t k = 0; k < uncounted.size(); ++k) {
    if (result.totals.counts[k] != 0 || uncounted[k])
      continue;
    uncounted[k] = true;
    logWarning(fmt::format("step {}: nothing is counted by the loss '{}', which is 0 there (all labels "
                           "are ignored, or all masks 0); this is said once",
                           record.step, plan->losses()->Get(k)->name()->string_view()));
  }
}

Status StepReport::tooManyBadSteps(uint64_t steps) const {
  return Status::invalidInput(fmt::format("the last {} steps, up to {}, had no finite loss and gradient and were not "
                                          "applied (train.bad_steps: {}); look at the samples "
                                          "of the last one, {}, or lower train.optimizer's lr",
                                          steps, record.step, plan->training()->bad_steps(), badSamples()));
}

} // namespace maestro::executor
