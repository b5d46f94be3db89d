#include "executor/core/step_agreement.h"

#include <algorithm>
#include <cmath>

namespace maestro::executor {
namespace {

/// A rank's record of a step's end: these, then the losses' sums and counts, then under --adapt what was measured and
/// expected.
enum EndRecord : size_t {
  kNormSquare,
  kWantsToStop,
  kBadMicroBatches, ///< Numbers and 1, ascending; then zeros.
  kLossSums = kBadMicroBatches + kMostBadMicroBatches
};

/// Sums, but of micro-batches that are bad the first.
void combineEnds(std::span<double> into, std::span<const double> theirs) {
  std::array<double, 2 * kMostBadMicroBatches> bad;
  for (size_t i = 0; i < kMostBadMicroBatches; ++i) {
    bad[2 * i] = into[kBadMicroBatches + i];
    bad[2 * i + 1] = theirs[kBadMicroBatches + i];
  }
  std::sort(bad.begin(), bad.end(), [](double a, double b) { return a != 0 && (b == 0 || a < b); });
  auto end = std::unique(bad.begin(), bad.end());
  std::fill(end, bad.end(), 0);
  addUp(into, theirs);
  std::copy_n(bad.begin(), kMostBadMicroBatches, into.begin() + kBadMicroBatches);
}

} // namespace

StepAgreement::StepAgreement(const World &world, uint32_t rank, uint32_t losses)
    : world(world), losses(losses), counts(world.countAgreement(rank)), ends(world.endAgreement(rank)) {}

Status StepAgreement::publishCounts(uint64_t step, uint64_t scheduleHash, std::span<const double> own) {
  return counts ? counts->publish(step, scheduleHash, own, world.abort()) : Status();
}

Status StepAgreement::awaitCounts(uint64_t step, std::span<double> all) {
  return counts ? counts->await(step, all, world.abort()) : Status();
}

/// `record` becomes everybody's.
Status StepAgreement::exchange(uint64_t step, uint64_t key, Combine combine) {
  if (!ends)
    return Status();
  MAESTRO_TRY(ends->publish(step, key, record, world.abort(), combine));
  return ends->await(step, record, world.abort());
}

Result<StepEnd> StepAgreement::end(uint64_t step, uint64_t scheduleHash, const StepReportOfRank &own,
                                   LossTotals &totals) {
  record.assign(kLossSums, 0);
  record[kNormSquare] = own.normSquare;
  record[kWantsToStop] = own.wantsToStop;
  record[kBadMicroBatches] = own.badMicroBatch + 1; // kNone and 1 is 0.
  std::vector<double> &sums = totals.sums;
  for (std::span<const double> part :
       {std::span<const double>(sums), std::span<const double>(totals.counts), own.measuredNs, own.expectedNs})
    record.insert(record.end(), part.begin(), part.end());
  MAESTRO_TRY(exchange(step, scheduleHash, combineEnds));
  std::span<const double> all(record);
  StepEnd end;
  for (size_t i = 0; i < kMostBadMicroBatches && all[kBadMicroBatches + i] > 0; ++i)
    badMicroBatches[i] = static_cast<uint32_t>(all[kBadMicroBatches + i]) - 1,
    end.badMicroBatches = {badMicroBatches.data(), i + 1};
  std::copy_n(all.begin() + kLossSums, losses, sums.begin());
  std::copy_n(all.begin() + kLossSums + losses, losses, totals.counts.begin());
  end.gradientNorm = std::sqrt(all[kNormSquare]);
  end.applies = std::isfinite(end.gradientNorm) &&
                std::all_of(sums.begin(), sums.end(), [](double sum) { return std::isfinite(sum); });
  end.stops = all[kWantsToStop] > 0;
  end.measuredNs = all.subspan(kLossSums + 2 * losses, own.measuredNs.size());
  end.expectedNs = all.subspan(kLossSums + 2 * losses + own.measuredNs.size());
  return end;
}

Result<bool> StepAgreement::addUp(uint64_t number, bool wantsToStop, LossTotals &totals) {
  record = totals.sums;
  record.insert(record.end(), totals.counts.begin(), totals.counts.end());
  record.push_back(wantsToStop);
  MAESTRO_TRY(exchange(number, /*key=*/0, executor::addUp));
  std::copy_n(record.begin(), losses, totals.sums.begin());
  std::copy_n(record.begin() + static_cast<ptrdiff_t>(losses), losses, totals.counts.begin());
  return record.back() > 0;
}

} // namespace maestro::executor
