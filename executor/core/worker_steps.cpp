// A step: gradients, what ranks agree on at its end, the update, and what measured times change.
#include "executor/core/worker.h"

#include "executor/core/hyper_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace maestro::executor {

namespace fb = plan::fb;
using wavefront::TaskKind;

/// What the host works on, for whoever watches; what waits for others reports itself.
void Worker::report(const char *what, uint64_t index) const {
  world.abort().progress().report(rank, transport::LaneKind::Host, transport::Activity::Running, what, index);
}

/// Queues this rank's tasks of a batch.
Status Worker::runBatch(const data::SampleBatch &batch, uint64_t batchStep, LossTotals &totals) {
  totals.sums.assign(lossCount, 0);
  totals.counts.assign(lossCount, 0);
  this->batch = &batch;
  MAESTRO_TRY(planBatch(batch, batchStep));
  MAESTRO_TRY(queueCounts());
  return queueTasks(totals);
}

Status Worker::computeGradients(const data::SampleBatch &batch, uint64_t batchStep, LossTotals &totals) {
  evaluating = false;
  MAESTRO_TRY(runBatch(batch, batchStep, totals));
  MAESTRO_TRY(gradientSums.queue(*ownDevice, times));
  MAESTRO_TRY(queueNorms());
  return finishTasks(totals);
}

Result<bool> Worker::evaluate(const data::SampleBatch &batch, uint64_t number, bool wantsToStop, LossTotals &totals) {
  evaluating = true;
  MAESTRO_TRY(runBatch(batch, number, totals));
  MAESTRO_TRY(finishTasks(totals));
  return agreement.addUp(number, wantsToStop, totals);
}

/// Each parameter counts once: stations count what their executable owns, replicas hold the same, and so do a station's
/// ranks but for what is split over them.
Status Worker::queueNorms() {
  std::fill(norms.begin(), norms.end(), 0);
  for (uint32_t s = 0; s < stations.size(); ++s)
    if (stations[s] && topology.stations[s].replica == 0 && stations[s]->program(fb::ProgramKind::Norm)) {
      MAESTRO_TRY(launchOnce(s, fb::ProgramKind::Norm, TaskSpan::Kind::Norm));
      if (topology.stations[s].isLead())
        stations[s]->readNormSquares(0, norms[2 * s]);
      stations[s]->readNormSquares(1, norms[2 * s + 1]);
    }
  return Status();
}

/// Of this rank; kNone where all its losses are finite.
uint32_t Worker::firstBadMicroBatch() const {
  auto bad = std::find_if(sums.begin(), sums.end(), [](float sum) { return !std::isfinite(sum); });
  return bad == sums.end() ? kNone : static_cast<uint32_t>(bad - sums.begin()) / lossCount;
}

Result<StepEnd> Worker::agree(uint64_t endStep, bool wantsToStop, LossTotals &totals) {
  StepReportOfRank own{std::accumulate(norms.begin(), norms.end(), 0.0), wantsToStop, firstBadMicroBatch(), {}, {}};
  if (options.adapts) {
    own.measuredNs = times.measured();
    own.expectedNs = times.expected();
  }
  MAESTRO_ASSIGN(StepEnd end, agreement.end(endStep, wavefront::hash(now->schedule), own, totals));
  if (options.adapts) { // Costs follow what all ranks measured in this step.
    scheduler.adapt(endStep, end.measuredNs, end.expectedNs);
    times.clear();
  }
  return end;
}

void Worker::listSamples(std::span<const uint32_t> microBatches, std::vector<metrics::SampleName> &names) const {
  names.clear();
  auto add = [&](const data::Sample &sample) { names.push_back({sample.key, std::string(sample.shard)}); };
  for (uint32_t microBatch : microBatches)
    for (const data::Sample *sample : dataOf(microBatch).samples)
      add(*sample);
  if (names.empty())
    for (const data::Sample &sample : batch->view())
      add(sample);
}

/// A program that runs once a step; the planned time of the reduction and the norm is part of the update's.
Status Worker::launchOnce(uint32_t station, fb::ProgramKind kind, TaskSpan::Kind span) {
  const StationFacts &facts = topology.stations[station];
  const wavefront::Stage &stage = scheduler.planned().sections[facts.section].stages[facts.stage];
  times.begin(*ownDevice, station, kNone, span,
              kind == fb::ProgramKind::Update ? wavefront::evaluate(stage.update, nullptr) : 0);
  MAESTRO_TRY(stations[station]->launchOnce(kind));
  times.end(*ownDevice);
  return Status();
}

Status Worker::update(uint64_t updateStep, double gradientNorm, bool applies) {
  if (!applies) {
    ++skippedSteps;
    for (auto &station : stations)
      if (station)
        station->zeroGradients();
    return ownDevice->drain();
  }
  const fb::Training &training = *plan->training();
  for (uint32_t group = 0; group < hyper.size(); ++group)
    hyper[group] =
        hyperParameters(training, group, updateStep, updateStep - skippedSteps, clipFactor(training, gradientNorm));
  for (uint32_t s = 0; s < stations.size(); ++s)
    if (stations[s] && stations[s]->program(fb::ProgramKind::Update)) {
      stations[s]->writeHyperParameters(hyper);
      MAESTRO_TRY(launchOnce(s, fb::ProgramKind::Update, TaskSpan::Kind::Update));
    }
  return ownDevice->drain();
}

} // namespace maestro::executor
