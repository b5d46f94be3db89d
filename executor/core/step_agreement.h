// What ranks agree on in a step: those with losses on their counts, and all that train on how the step ends, and that
// they have the same schedule. All of them decide from the same sums, and so alike.
#pragma once

#include "executor/core/losses.h"
#include "executor/core/world.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace maestro::executor {

/// What a rank brings to a step's end.
struct StepReportOfRank {
  double normSquare = 0; ///< Of its part of the gradients.
  bool wantsToStop = false;
  uint32_t badMicroBatch = plan::kNone;           ///< The first whose losses are not finite.
  std::span<const double> measuredNs, expectedNs; ///< Under --adapt.
};

/// Micro-batches with losses that are not finite, of which a step's end tells the first.
inline constexpr size_t kMostBadMicroBatches = 4;

/// What all agree on at a step's end.
struct StepEnd {
  double gradientNorm = 0; ///< The 2-norm of all gradients.
  bool applies = true;     ///< The norm and all losses are finite.
  bool stops = false;      ///< Somebody asked to.
  /// The first of what ranks have reported, in ascending order. Until the next agreement.
  std::span<const uint32_t> badMicroBatches;
  std::span<const double> measuredNs, expectedNs; ///< Of all ranks together; until the next agreement.
};

class StepAgreement {
public:
  /// Ranks that do not train, and a rank that is alone, agree with themselves.
  StepAgreement(const World &world, uint32_t rank, uint32_t losses);

  /// Tells the others this rank's counts, by Plan.losses. Internal where somebody has another schedule.
  Status publishCounts(uint64_t step, uint64_t scheduleHash, std::span<const double> counts);
  /// Everybody's, added up, in the ranks that count or scale losses.
  Status awaitCounts(uint64_t step, std::span<double> counts);
  /// The step's end; the totals become everybody's. Internal where somebody has another schedule.
  Result<StepEnd> end(uint64_t step, uint64_t scheduleHash, const StepReportOfRank &own, LossTotals &totals);
  /// Sums and counts of an evaluation become everybody's. Whether anybody wants to stop.
  Result<bool> addUp(uint64_t number, bool wantsToStop, LossTotals &totals);

private:
  Status exchange(uint64_t step, uint64_t key, Combine combine);

  const World &world;
  size_t losses;
  std::optional<Agreement::Member> counts, ends;
  std::vector<double> record; ///< This rank's, then everybody's.
  std::array<uint32_t, kMostBadMicroBatches> badMicroBatches{};
};

} // namespace maestro::executor
