// Which values a forward task keeps for its backward task: a minimum cut.
//
// Given are the values that the backward task reads. Each must be kept, or computed again from kept
// values and from arguments (parameters and data fields, which are there anyway) by operators that
// are cheap to repeat. Among all such choices the one with the fewest bytes is a minimum cut of the
// graph in which a kept value is a cut edge (Dinic's algorithm, exact); of several, the one that
// repeats the least.
#pragma once

#include "passes/passes.h"

#include "mlir/IR/Operation.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace maestro {

struct SaveProblem {
  /// Operations of the forward part in order; operands come from among their results, or are
  /// arguments.
  llvm::SmallVector<mlir::Operation *> operations;
  /// What the backward part reads: results of `operations`, or arguments (which cost nothing).
  llvm::SmallVector<mlir::Value> needed;
};

/// The values to keep, in the order of their operations. `policyOf` says what is computed again of a layer, by the
/// number that its operations are marked with (nn.atom; 0 where nothing is marked). `bytesOf` yields the size of a
/// value at the bounds.
llvm::SmallVector<mlir::Value> chooseSaved(const SaveProblem &problem,
                                           llvm::function_ref<Recompute(int64_t layer)> policyOf,
                                           llvm::function_ref<int64_t(mlir::Value)> bytesOf);

} // namespace maestro
