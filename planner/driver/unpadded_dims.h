// Dims along which nothing is padded: what the passes found and the user wished becomes part of the graph's summary.
#pragma once

#include "planner/driver/step_sizes.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace maestro::planner {

/// Marks the dims of `graph` whose micro-batches hold samples of equal length only (nn.dims of the module, behind
/// --maestro-check-padding), and adds a note for each: the operator that would see padding, and what a mask there would
/// bring. InvalidInput where `multiple_of` pads such a dim.
Status noteUnpadded(mlir::ModuleOp module, const StepSizes &sizes, GraphSummary &graph,
                    std::vector<std::string> &notes);

} // namespace maestro::planner
