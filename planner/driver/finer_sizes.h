// Sizes of micro-batches beside those that trials are emitted for: as large as the smallest one, but of fewer samples.
// Where lengths vary it holds several samples; taken one by one they are more micro-batches, which fill a pipeline of
// many stages better.
#pragma once

#include "cost_models/atoms.h"
#include "planner/emit/emit_plan.h"

#include <vector>

namespace maestro::planner {

/// Puts sizes of 1, 2, 4 … samples before the smallest size of a checked model, as long as some section has room for
/// more. They are taken to cost and hold what that one does, which is an upper bound of what they hold. Returns most
/// samples by size, 0 for those that were there.
std::vector<int64_t> addFinerSizes(cost_models::AtomicModel &model, const GraphSummary &graph, int64_t globalBatch);

} // namespace maestro::planner
