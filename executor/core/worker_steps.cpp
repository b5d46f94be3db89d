// A step: gradients, what ranks agree on at its end, the update, and what measured times change.
#include "executor/core/worker.h"

#include "executor/core/hyper_parameters.h"
#include "executor/core/worker_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace maestro::executor {

namespace fb = plan::fb;
using wavefront::TaskKind;

/// A sign of life for whoever watches; what waits for others reports itself.
void Worker::report(const char *what, uint64_t index) const {
  wiring.abort->progress().report(rank, transport::LaneKind::Host, transport::Activity::Running, what, index);
}

/// This rank's tasks of a batch; `totals` are its own sums and counts.
Status Worker::runBatch(const data::SampleBatch &batch, uint64_t batchStep, LossTotals &totals) {
  totals.sums.assign(lossCount, 0);
  totals.counts.assign(lossCount, 0);
  MAESTRO_TRY(planBatch(batch, batchStep));
  MAESTRO_TRY(countLosses(totals));
  return runTasks(totals);
}

Status Worker::computeGradients(const data::SampleBatch &batch, uint64_t batchStep, LossTotals &totals) {
  countsPublished = false;
  MAESTRO_TRY(runBatch(batch, batchStep, totals));
  return reduceGradients();
}

Status Worker::evaluate(const data::SampleBatch &batch, uint64_t batchStep, LossTotals &totals) {
  countsPublished = true;
  MAESTRO_TRY(runBatch(batch, batchStep, totals));
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
      sleeps ? wavefront::evaluate(scheduler.planned().sections[facts.section].stages[facts.stage].update, nullptr) : 0);
  MAESTRO_TRY(stations[station]->launchOnce(kind));
  endSpan(stamp);
  return Status();
}

/// Costs follow what all ranks measured in this step: from `record`, which all have alike.
void Worker::adaptCosts() {
  if (!options.adapts)
    return;
  size_t count = measuredNs.size();
  std::span<const double> measured(record.data() + 2 + lossCount, count);
  scheduler.adapt(step, measured, {measured.data() + count, count});
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
