// From trial emissions to what the search works on: the costs and bytes of each section's atoms, read out of plans that
// are emitted for one device and thrown away, so that searching and emitting never disagree about a number.
#pragma once

#include "cost_models/atoms.h"
#include "passes/section_atoms.h"
#include "planner/emit/emit_plan.h"

#include <functional>
#include <vector>

namespace maestro::planner {

/// Programs of the workload with its sections cut like this.
using MakePrograms = std::function<Result<mlir::OwningOpRef<mlir::ModuleOp>>(const PartitionOptions &)>;

/// The chains with what their atoms cost and hold with micro-batches of these sizes. The usual variant is measured
/// here, any other one when it is first asked for: `graph`, what `base` points at and what `makePrograms` needs must
/// outlive the model. With a deadline (`isOver`) the others are measured here, too, the most useful first, and those
/// for which there is no time are no choice: Atoms.left counts them. `base` says everything but layouts, devices and
/// programs; `partition` where the user cuts. Fails where the programs of a trial cannot be made.
struct Atoms {
  cost_models::AtomicModel model;
  size_t left = 0; ///< Variants that were not measured.
};
Result<Atoms> collectAtoms(const AtomGraph &graph, const EmitInput &base, const PartitionOptions &partition,
                           const std::vector<int64_t> &microBatches, MakePrograms makePrograms,
                           const std::function<bool()> &isOver = nullptr);

/// Operators of the programs that a trial emits.
size_t trialOperators(const AtomGraph &graph);

} // namespace maestro::planner
