// What a field of labels is padded with where the loss lies inside the graph: the value that the graph itself ignores.
#include "planner/import/linker.h"

#include "mlir/IR/Matchers.h"

#include <fmt/format.h>

namespace maestro::planner {
namespace {

/// Operators whose result is the field again, moved or cut.
bool isView(mlir::Operation *op) {
  return mlir::isa<nn::ReshapeOp, nn::TransposeOp, nn::SliceOp, nn::PadOp, nn::CastOp, nn::BroadcastToOp>(op);
}

/// The value of an integer scalar constant.
std::optional<int64_t> scalarOf(mlir::Value value) {
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  auto elements = constant ? mlir::dyn_cast<mlir::DenseIntElementsAttr>(constant.getValue()) : mlir::DenseIntElementsAttr();
  if (!elements || elements.getNumElements() != 1)
    return std::nullopt;
  return (*elements.value_begin<llvm::APInt>()).getSExtValue();
}

/// The ignore_index of a cross entropy whose labels these are, or a negative number that they are compared with: class
/// ids are never negative, so such a comparison can only ask whether a position counts.
std::optional<int64_t> ignoredBy(mlir::OpOperand &use) {
  if (auto loss = mlir::dyn_cast<nn::CrossEntropyOp>(use.getOwner()))
    return use.getOperandNumber() == 1 ? std::optional<int64_t>(loss.getIgnoreIndex()) : std::nullopt;
  if (!mlir::isa<nn::EqualOp>(use.getOwner()))
    return std::nullopt;
  std::optional<int64_t> other = scalarOf(use.getOwner()->getOperand(1 - use.getOperandNumber()));
  return other && *other < 0 ? other : std::nullopt;
}

std::optional<int64_t> ignoredValue(mlir::Value field) {
  llvm::SmallVector<mlir::Value> pending{field};
  while (!pending.empty())
    for (mlir::OpOperand &use : pending.pop_back_val().getUses()) {
      if (std::optional<int64_t> ignored = ignoredBy(use))
        return ignored;
      if (isView(use.getOwner()) && use.getOperandNumber() == 0 &&
          !isFloat(Emitter::dtypeOf(use.getOwner()->getResult(0))))
        pending.push_back(use.getOwner()->getResult(0));
    }
  return std::nullopt;
}

} // namespace

/// Fields whose padding neither the workload nor a named loss has said.
void Linker::inferPads() {
  for (const auto &[name, value] : fields) {
    if (pads.count(name) || isFloat(Emitter::dtypeOf(value)) || Emitter::rankOf(value) < 2)
      continue;
    std::optional<int64_t> ignored = ignoredValue(value);
    if (!ignored)
      continue;
    pads[name] = static_cast<double>(*ignored);
    notes.push_back(fmt::format("the field '{}' is padded with {}, which the graph ignores", name, *ignored));
  }
}

} // namespace maestro::planner
