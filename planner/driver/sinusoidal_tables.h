// Parameters that look as if they should not train: tables of sines, as position embeddings have them. PyTorch models
// keep these with requires_grad=False (Marian, Pegasus, RoFormer, Whisper's encoder), and an ONNX file calls every
// parameter PARAMETER.
#pragma once

#include "planner/emit/emit_plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstddef>
#include <span>
#include <vector>

namespace maestro::planner {

/// Whether every column of a row-major table is a sine of the row: with two neighbours its value keeps x[r−1] + x[r+1]
/// = 2cos(ω)·x[r], whatever its frequency and phase. Some columns must swing; a few rows may differ (a padding token's
/// is 0).
bool isSinusoidal(std::span<const float> table, size_t columns);

/// A decision for each component that has such tables among what trains, and a warning that says how to freeze them. Of
/// a parameter that only additions and multiplications read, through lookups, the first rows are read from its file, at
/// most 4 MiB.
std::vector<Decision> doubtsOfTables(mlir::func::FuncOp graph, const GraphSummary &summary);

} // namespace maestro::planner
