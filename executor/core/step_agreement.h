// What the ranks that train agree on in a step: the losses' counts, that all have the same schedule, and how the step
// ends. All of them decide from the same records, and so alike.
#pragma once

#include "executor/core/losses.h"
#include "executor/core/world.h"

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

/// What all agree on at a step's end.
struct StepEnd {
  double gradientNorm = 0; ///< The 2-norm of all gradients.
  bool applies = true;     ///< The norm and all losses are finite.
  bool stops = false;      ///< Somebody asked to.
  /// Of each rank that has one: the first micro-batch whose losses are not finite. Until the next agreement.
  std::span<const uint32_t> badMicroBatches;
  std::span<const double> measuredNs, expectedNs; ///< Of all ranks together; until the next agreement.
};

class StepAgreement {
public:
  /// Ranks that do not train, and a rank that is alone, agree with themselves.
  StepAgreement(const World &world, uint32_t rank, uint32_t losses);

  /// Tells the others this rank's counts, by Plan.losses.
  Status publishCounts(uint64_t step, uint64_t scheduleHash, std::span<const double> counts);
  /// Everybody's, added up. Internal where somebody has another schedule.
  Status awaitCounts(uint64_t step, std::span<double> counts);
  /// The step's end; `sums` of losses become everybody's.
  Result<StepEnd> end(uint64_t step, const StepReportOfRank &own, std::span<double> sums);
  /// Sums and counts of an evaluation become everybody's. Whether anybody wants to stop.
  Result<bool> addUp(uint64_t number, bool wantsToStop, LossTotals &totals);

private:
  Status exchange(uint64_t step, AgreementKind kind);
  void addUpRecords();

  const World &world;
  uint32_t rank;
  size_t losses;
  std::optional<Agreement::Member> agreement;
  std::vector<double> record, records;   ///< This rank's, and everybody's, member by member.
  std::vector<uint32_t> badMicroBatches; ///< By StepEnd.
};

} // namespace maestro::executor
