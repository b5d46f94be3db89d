// A step: gradients, what ranks agree on at its end, the update, and what measured times change.
#include "executor/core/worker.h"

#include "executor/core/hyper_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

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
  MAESTRO_TRY(runBatch(batch, batchStep, totals));
  MAESTRO_TRY(queueReductions());
  MAESTRO_TRY(queueNorms());
  return finishTasks(totals);
}

Status Worker::evaluate(const data::SampleBatch &batch, uint64_t batchStep, LossTotals &totals) {
  MAESTRO_TRY(runBatch(batch, batchStep, totals));
  MAESTRO_TRY(finishTasks(totals));
  if (!agreement)
    return Status();
  record = totals.sums;
  record.insert(record.end(), totals.counts.begin(), totals.counts.end());
  MAESTRO_TRY(exchangeEnd(batchStep, record));
  for (uint32_t k = 0; k < lossCount; ++k) {
    totals.sums[k] = totals.counts[k] = 0;
    for (size_t member = 0; member < world.trainingRanks().size(); ++member) {
      totals.sums[k] += records[member * record.size() + k];
      totals.counts[k] += records[member * record.size() + lossCount + k];
    }
  }
  return Status();
}

/// One part of a turn. Waiting for the others is not time that the device was busy.
Status Worker::queueReduction(size_t group, size_t m, uint64_t turn, bool scatters) {
  Reduction::Member &member = reductionMembers[group][m];
  scatters ? member.awaitStaging(Queue::Compute, turn) : member.awaitScattered(Queue::Compute, turn);
  TimedTask &timed = beginTask(reductionStations[group][m], kNone, TaskSpan::Kind::Reduce, 0);
  MAESTRO_TRY(scatters ? member.scatter(Queue::Compute, turn) : member.gather(Queue::Compute, turn));
  endTask(timed);
  return Status();
}

/// Adds up the gradients of parameters that several stations hold: a turn of all sums is scattered, then the turn
/// before it gathered, so that nobody waits for each sum by itself.
Status Worker::queueReductions() {
  uint64_t call = reductions++, mostTurns = 0;
  for (const auto &members : reductionMembers)
    mostTurns = std::max(mostTurns, members.empty() ? 0 : members.front().turns());
  auto queue = [&](uint64_t turn, bool scatters) -> Status {
    for (size_t group = 0; group < reductionMembers.size(); ++group)
      for (size_t m = 0; m < reductionMembers[group].size(); ++m)
        if (uint64_t turns = reductionMembers[group][m].turns(); turn < turns)
          MAESTRO_TRY(queueReduction(group, m, call * turns + turn, scatters));
    return Status();
  };
  for (uint64_t turn = 0; turn <= mostTurns; ++turn) {
    MAESTRO_TRY(queue(turn, true));
    if (turn > 0)
      MAESTRO_TRY(queue(turn - 1, false));
  }
  for (auto &members : reductionMembers)
    for (Reduction::Member &member : members)
      if (member.turns() > 0)
        member.awaitGathered(Queue::Compute, (call + 1) * member.turns() - 1);
  return Status();
}

/// Everybody's record of the step's end, into `records`, member by member.
Status Worker::exchangeEnd(uint64_t endStep, std::span<const double> own) {
  records.resize(world.trainingRanks().size() * own.size());
  MAESTRO_TRY(agreement->publish<double>(endStep, kEndRecord, own, world.abort()));
  return agreement->awaitAll<double>(endStep, kEndRecord, records, world.abort());
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

namespace {
/// A rank's record of a step's end: these, then the losses' sums, then under --adapt what was
/// measured and expected.
enum EndRecord : size_t { kNormSquare, kWantsToStop, kBadMicroBatch /**< Its number and 1. */, kLossSums };
} // namespace

/// Of this rank; kNone where all its losses are finite.
uint32_t Worker::firstBadMicroBatch() const {
  auto bad = std::find_if(sums.begin(), sums.end(), [](float sum) { return !std::isfinite(sum); });
  return bad == sums.end() ? kNone : static_cast<uint32_t>(bad - sums.begin()) / lossCount;
}

Result<Worker::StepEnd> Worker::agree(uint64_t endStep, bool wantsToStop, LossTotals &totals) {
  record.assign(kLossSums + lossCount, 0);
  for (double value : norms)
    record[kNormSquare] += value;
  record[kWantsToStop] = wantsToStop;
  record[kBadMicroBatch] = firstBadMicroBatch() + 1; // kNone and 1 is 0.
  std::copy(totals.sums.begin(), totals.sums.end(), record.begin() + kLossSums);
  if (options.adapts) {
    record.insert(record.end(), measuredNs.begin(), measuredNs.end());
    record.insert(record.end(), expectedNs.begin(), expectedNs.end());
  }
  if (agreement)
    MAESTRO_TRY(exchangeEnd(endStep, record));
  StepEnd end = endOf(agreement ? std::span<const double>(records) : record, totals);
  adaptCosts();
  return end;
}

/// From the records of all ranks, which all ranks have alike; leaves their sums in `record`.
Worker::StepEnd Worker::endOf(std::span<const double> everybody, LossTotals &totals) {
  badMicroBatches.clear();
  for (size_t first = 0; first < everybody.size(); first += record.size())
    if (double bad = everybody[first + kBadMicroBatch]; bad > 0)
      badMicroBatches.push_back(static_cast<uint32_t>(bad) - 1);
  if (everybody.data() != record.data()) {
    std::fill(record.begin(), record.end(), 0);
    for (size_t i = 0; i < everybody.size(); ++i)
      record[i % record.size()] += everybody[i];
  }
  std::copy_n(record.begin() + kLossSums, lossCount, totals.sums.begin());
  StepEnd end;
  end.gradientNorm = std::sqrt(record[kNormSquare]);
  end.applies = std::isfinite(end.gradientNorm) &&
                std::all_of(totals.sums.begin(), totals.sums.end(), [](double sum) { return std::isfinite(sum); });
  end.stops = record[kWantsToStop] > 0;
  end.badMicroBatches = badMicroBatches;
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
  TimedTask &timed =
      beginTask(station, kNone, span, kind == fb::ProgramKind::Update ? wavefront::evaluate(stage.update, nullptr) : 0);
  MAESTRO_TRY(stations[station]->launchOnce(kind));
  endTask(timed);
  return Status();
}

/// Costs follow what all ranks measured in this step: from `record`, which all have alike.
void Worker::adaptCosts() {
  if (!options.adapts)
    return;
  size_t count = measuredNs.size();
  std::span<const double> measured(record.data() + kLossSums + lossCount, count);
  scheduler.adapt(step, measured, {measured.data() + count, count});
  std::fill(measuredNs.begin(), measuredNs.end(), 0);
  std::fill(expectedNs.begin(), expectedNs.end(), 0);
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
  hyper = hyperParameters(training, updateStep, updateStep - skippedSteps, clipFactor(training, gradientNorm));
  for (uint32_t s = 0; s < stations.size(); ++s)
    if (stations[s] && stations[s]->program(fb::ProgramKind::Update)) {
      stations[s]->writeHyperParameters(hyper);
      MAESTRO_TRY(launchOnce(s, fb::ProgramKind::Update, TaskSpan::Kind::Update));
    }
  return ownDevice->drain();
}

} // namespace maestro::executor
