// What a workload's chains of atoms are, whichever variant of their programs is chosen.
#pragma once

#include "cost_models/atoms.h"
#include "passes/section_atoms.h"
#include "planner/emit/emit_plan.h"

namespace maestro::planner {

/// Dims, sections and tensors of the chains, with capacities as a trial has them (`trial`: its sections are the
/// chains'). Without costs, without variants, without tied parameters.
cost_models::AtomicModel atomTables(const AtomGraph &graph, const cost_models::CompoundModel &trial);

/// Parameters that stages of one section of a trial share; `summary` is of its programs.
std::vector<cost_models::TiedParameter> tiedParameters(const AtomGraph &graph, mlir::ModuleOp programs,
                                                       const GraphSummary &summary);

} // namespace maestro::planner
