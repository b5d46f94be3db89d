// Takes @graph apart: every labelled operator moves into the section of its label, what sections need of each
// other becomes an edge.
//
// Operators without a label are those that follow from data fields alone or from parameters alone (masks,
// positions, a transposed weight): each section computes them for itself. The labels are the caller's:
// passes/partition_sections.cpp.
#pragma once

#include "base/recompute.h"
#include "passes/graph_functions.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <string>
#include <vector>

namespace maestro {

/// Of a section.edge, StringAttr: why this tensor crosses, for people.
constexpr llvm::StringLiteral kEdgeReason("nn.reason");

/// A section to be, or one pipeline stage of it.
struct SectionPart {
  std::string name;    ///< Unique; of the stage, where there are several.
  std::string section; ///< Of the section.
  int64_t stage = 0, stages = 1;
  RecomputeChoice recompute = {};
  int64_t layers = 0;      ///< Atoms, where some have a lighter recompute.
  int64_t splitStages = 0; ///< In the last so many stages of the section weight gradients are tasks of their own.
  int64_t tensor = 1;      ///< Devices that share it.
  int64_t lossChunks = 1;
  std::vector<std::string> components;
  std::vector<std::string> activeDims; ///< A sample takes part iff all of these are above 0.
};

struct SectionLabels {
  llvm::DenseMap<mlir::Operation *, unsigned> part; ///< By operator, an index into parts; operands' are not larger.
  std::vector<SectionPart> parts;
  /// (operator, part): computed again by that part, although the operator belongs to an earlier one.
  llvm::DenseSet<std::pair<mlir::Operation *, unsigned>> repeated;
  llvm::DenseSet<mlir::Operation *> trains; ///< Operators that a trainable parameter reaches.
  /// (value, part): why it is this value that crosses to that part, where it is not simply what the part reads.
  llvm::DenseMap<std::pair<mlir::Value, unsigned>, std::string> reasons;
};

/// Whether the value can cross an edge: one dim is rows (a sum over samples), no other dim contains them.
bool canCross(mlir::Value value, const DimTable &dims);

/// Whether padding of the value says what is masked: scores of positions against positions, behind a mask and before
/// its softmax. What crosses to another section is padded anew, with zeros, so that the mask must be put on behind the
/// crossing.
bool isMasked(mlir::Value value, const DimTable &dims);

/// Replaces @graph in `module` by section.section and section.edge operators and a nested module per section. Fails,
/// with a message at the operator, where something would have to cross that cannot.
mlir::LogicalResult outlineSections(mlir::ModuleOp module, const SectionLabels &labels, const DimTable &dims);

} // namespace maestro
