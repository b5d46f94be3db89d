// What a step's losses are: sums over counted positions and their number, over a global batch or a data set.
#pragma once

#include "executor/metrics/step_record.h"
#include "plan/plan.h"

#include <vector>

namespace maestro::executor {

/// Per loss entry of the plan.
struct LossTotals {
  std::vector<double> sums, counts; ///< By Plan.losses.
};

/// What a loss's sum is divided by, where so many positions count: the count, or its floor; 0 where nothing counts.
double divisor(const plan::fb::Loss &loss, double count);
/// The weighted sum of all losses' means; a loss without a counted position adds nothing.
double weightedLoss(const plan::Plan &plan, const LossTotals &totals);
/// Each named loss, unweighted. Reuses `values`.
void namedLosses(const plan::Plan &plan, const LossTotals &totals, std::vector<metrics::LossValue> &values);

} // namespace maestro::executor
