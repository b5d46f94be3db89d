// From the workload's graph to its sections' programs, by the passes; what the programs say of the graph.
#pragma once

#include "base/status.h"
#include "passes/passes.h"
#include "planner/driver/default_layouts.h"
#include "planner/workload/workload.h"

#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <optional>
#include <set>
#include <string>

namespace maestro::planner {

/// A component's `cuts` must name modules that hold parameters; InvalidInput with the nearest that does.
Status checkCuts(const Workload &workload, const GraphSummary &graph);

/// Runs the phases behind `startAfter` up to `stopAfter` on the module, with the workload's precisions. InvalidInput:
/// what the first pass that failed said.
Status runPasses(mlir::ModuleOp module, const Workload &workload, std::optional<Phase> startAfter, Phase stopAfter,
                 const PartitionOptions &partition);

/// Trainable parameters that no loss reaches, by component.
using Unreached = std::map<std::string, std::set<std::string>>;
/// Marks them as not trainable, since they keep their values, as in PyTorch, adds them to `unreached` and tells the
/// user. InvalidInput where nothing is left that trains.
Status noteUnreached(mlir::ModuleOp programs, GraphSummary &graph, Unreached &unreached);

/// InvalidInput where a section's tensor degree splits nothing: a mistake.
Status checkSplit(mlir::ModuleOp programs, const SectionFacts &section);

/// Chunks of rows to choose from for what is behind a section's heads; empty where there is nothing to chunk.
std::vector<uint32_t> lossChunksOf(mlir::ModuleOp programs, const std::string &section);

/// InvalidInput where the losses of a section are pinned to be done in chunks, and nothing there can be.
Status checkLossChunks(mlir::ModuleOp programs, const Pins &pins);

} // namespace maestro::planner
