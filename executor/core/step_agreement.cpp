#include "executor/core/step_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace maestro::executor {
namespace {

/// A rank's record of the counts: its schedule's hash, then the counts.
enum CountsRecord : size_t { kScheduleHash, kCounts };
/// A rank's record of a step's end: these, then the losses' sums, then under --adapt what was measured and expected.
enum EndRecord : size_t { kNormSquare, kWantsToStop, kBadMicroBatch /**< Its number and 1. */, kLossSums };

} // namespace

StepAgreement::StepAgreement(const World &world, uint32_t rank, uint32_t losses)
    : world(world), rank(rank), losses(losses), agreement(world.agreement(rank)) {}

Status StepAgreement::publishCounts(uint64_t step, uint64_t scheduleHash, std::span<const double> counts) {
  record.resize(kCounts + losses);
  std::memcpy(&record[kScheduleHash], &scheduleHash, sizeof scheduleHash); // As bits.
  std::copy(counts.begin(), counts.end(), record.begin() + kCounts);
  return agreement ? agreement->publish<double>(step, kCountsRecord, record, world.abort()) : Status();
}

Status StepAgreement::awaitCounts(uint64_t step, std::span<double> counts) {
  if (!agreement)
    return Status();
  const std::vector<uint32_t> &ranks = world.trainingRanks();
  records.resize(ranks.size() * record.size());
  MAESTRO_TRY(agreement->awaitAll<double>(step, kCountsRecord, records, world.abort()));
  std::fill(counts.begin(), counts.end(), 0);
  for (size_t member = 0; member < ranks.size(); ++member) {
    const double *theirs = records.data() + member * record.size();
    if (std::memcmp(theirs, record.data(), sizeof(uint64_t)) != 0)
      return Status::internal(
          fmt::format("rank {} and rank {} have different schedules for step {}", rank, ranks[member], step));
    for (size_t k = 0; k < losses; ++k)
      counts[k] += theirs[kCounts + k];
  }
  return Status();
}

/// Everybody's records of this one's size, into `records`.
Status StepAgreement::exchange(uint64_t step, AgreementKind kind) {
  if (!agreement) {
    records = record;
    return Status();
  }
  records.resize(world.trainingRanks().size() * record.size());
  MAESTRO_TRY(agreement->publish<double>(step, kind, record, world.abort()));
  return agreement->awaitAll<double>(step, kind, records, world.abort());
}

/// In member order, into `record`.
void StepAgreement::addUpRecords() {
  std::fill(record.begin(), record.end(), 0);
  for (size_t i = 0; i < records.size(); ++i)
    record[i % record.size()] += records[i];
}

Result<StepEnd> StepAgreement::end(uint64_t step, const StepReportOfRank &own, std::span<double> sums) {
  record.assign(kLossSums, 0);
  record[kNormSquare] = own.normSquare;
  record[kWantsToStop] = own.wantsToStop;
  record[kBadMicroBatch] = own.badMicroBatch + 1; // kNone and 1 is 0.
  for (std::span<const double> part : {std::span<const double>(sums), own.measuredNs, own.expectedNs})
    record.insert(record.end(), part.begin(), part.end());
  MAESTRO_TRY(exchange(step, kEndRecord));
  badMicroBatches.clear();
  for (size_t first = 0; first < records.size(); first += record.size())
    if (double bad = records[first + kBadMicroBatch]; bad > 0)
      badMicroBatches.push_back(static_cast<uint32_t>(bad) - 1);
  addUpRecords();
  std::span<const double> all(record);
  std::copy_n(all.begin() + kLossSums, losses, sums.begin());
  StepEnd end;
  end.gradientNorm = std::sqrt(all[kNormSquare]);
  end.applies = std::isfinite(end.gradientNorm) &&
                std::all_of(sums.begin(), sums.end(), [](double sum) { return std::isfinite(sum); });
  end.stops = all[kWantsToStop] > 0;
  end.badMicroBatches = badMicroBatches;
  end.measuredNs = all.subspan(kLossSums + losses, own.measuredNs.size());
  end.expectedNs = all.subspan(kLossSums + losses + own.measuredNs.size());
  return end;
}

Result<bool> StepAgreement::addUp(uint64_t number, bool wantsToStop, LossTotals &totals) {
  record = totals.sums;
  record.insert(record.end(), totals.counts.begin(), totals.counts.end());
  record.push_back(wantsToStop);
  MAESTRO_TRY(exchange(number, kEndRecord));
  addUpRecords();
  std::copy_n(record.begin(), losses, totals.sums.begin());
  std::copy_n(record.begin() + static_cast<ptrdiff_t>(losses), losses, totals.counts.begin());
  return record.back() > 0;
}

} // namespace maestro::executor
