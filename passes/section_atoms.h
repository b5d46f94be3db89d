// A section as a chain of atoms: the least that a pipeline stage can hold, usually a layer. Whatever the number of
// stages, a stage is a run of atoms, so that what a stage costs and holds follows from its atoms (cost_models/atoms.h).
//
//   embedding │ layer │ layer │ … │ layer │ norm, head, loss        an atom each
//       0         1       1            1          2                 equal atoms are of one class
//
// A chain is shortened for trials: of neighbours of one class three stay, since all that is asked of them is what one
// costs, and what two together cost.
#pragma once

#include "ir/nn/nn.h"
#include "passes/outline_sections.h"
#include "passes/passes.h"
#include "passes/stage_cuts.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace maestro {

/// (section, atom)
using AtomPlace = std::pair<unsigned, unsigned>;

struct SectionChain {
  std::string name;
  std::vector<unsigned> classOf;                     ///< By atom: equal ones have equal operators on equal shapes.
  std::vector<std::vector<mlir::Operation *>> atoms; ///< Their operators, in order.
  std::vector<mlir::Operation *> moved;              ///< Operators that only a consumer's copy of is needed.

  /// The atoms of each stage that a trial emits, those left out left out.
  std::vector<std::vector<unsigned>> trialStages() const;
};

/// A value that passes from an atom to later ones, of the same section or another.
struct AtomTensor {
  AtomPlace producer;
  std::vector<AtomPlace> consumers; ///< Each once.
  nn::TensorType type;
  bool gradient = false; ///< Its gradient comes back.
};

struct AtomGraph {
  std::vector<SectionChain> sections; ///< By SectionLabels.parts.
  std::vector<AtomTensor> tensors;
};

/// What an operator does and what it reads of parameters, at the dims' bounds.
struct OperatorWeights {
  std::function<double(mlir::Operation *)> work, parameterBytes;
  std::function<double(mlir::Value)> bytes;
};

/// The chains of labelled operators; `labels.repeated` says what consumers compute for themselves. A section is cut
/// finely enough for `least(section)` stages, if it can be.
AtomGraph findAtoms(mlir::func::FuncOp graph, const SectionLabels &labels, const DimTable &dims,
                    const OperatorWeights &weights, const std::function<size_t(const std::string &)> &least);

/// What passes each position of a list of operators.
CutCosts cutCosts(llvm::ArrayRef<mlir::Operation *> members, const DimTable &dims, const OperatorWeights &weights);

/// Takes the operators out of @graph that trialStages() leaves out; what read them reads the same of the last one that
/// stays.
void shorten(const SectionChain &chain, SectionLabels &labels);

/// The chains of a module that has gone through Phase::Loss, which stays as it is; nothing, and an error, where the
/// partition pass would fail.
mlir::FailureOr<AtomGraph> findAtoms(mlir::ModuleOp module, const PartitionOptions &options);

} // namespace maestro
