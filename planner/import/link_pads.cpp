// Padding counts in no loss. A field of labels is padded with what its loss ignores, also where the loss lies inside
// the graph; a loss that nothing keeps from counting padding is refused.
#include "planner/import/linker.h"

#include "passes/attributes.h"

#include "mlir/IR/Matchers.h"

#include <fmt/format.h>

namespace maestro::planner {
namespace {

/// The ignore_index of a cross entropy whose labels these are, or a negative number that they are compared with: class
/// ids are never negative, so such a comparison can only ask whether a position counts.
std::optional<int64_t> ignoredBy(mlir::OpOperand &use) {
  if (auto loss = mlir::dyn_cast<nn::CrossEntropyOp>(use.getOwner()))
    return use.getOperandNumber() == 1 ? std::optional<int64_t>(loss.getIgnoreIndex()) : std::nullopt;
  if (!mlir::isa<nn::EqualOp>(use.getOwner()))
    return std::nullopt;
  std::optional<double> other = nn::constantValue(use.getOwner()->getOperand(1 - use.getOperandNumber()));
  return other && *other < 0 ? std::optional(static_cast<int64_t>(*other)) : std::nullopt;
}

std::optional<int64_t> ignoredValue(mlir::Value field) {
  llvm::SmallVector<mlir::Value> pending{field};
  while (!pending.empty())
    for (mlir::OpOperand &use : pending.pop_back_val().getUses()) {
      if (std::optional<int64_t> ignored = ignoredBy(use))
        return ignored;
      mlir::Operation *op = use.getOwner();
      bool isMoved = op->hasTrait<nn::MovesData>() || mlir::isa<nn::CastOp>(op);
      if (isMoved && !isFloat(Emitter::dtypeOf(op->getResult(0))))
        pending.push_back(op->getResult(0));
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

/// A dim of the value that is padded to the longest sample of a micro-batch, or "".
std::string Linker::paddedDim(mlir::Value value) const {
  auto dims = module->getAttrOfType<mlir::DictionaryAttr>(attributes::kDims);
  for (const DimExpr &dim : Emitter::shapeOf(value))
    for (const std::string &symbol : dim.symbols())
      if (auto entry = dims.getAs<mlir::DictionaryAttr>(symbol))
        if (entry.getAs<mlir::StringAttr>("combine") == "max")
          return symbol;
  return "";
}

/// A loss over all positions of a padded value counts those that samples have: a field that no data holds says which,
/// made by the executor from the samples' sizes. How much padding there is depends on which samples share a
/// micro-batch.
Status Linker::countOwnPositions() {
  for (auto &[loss, ones] : everyPosition) {
    std::string padded = paddedDim(ones);
    if (padded.empty())
      continue;
    nn::TensorType type = nn::typeOf(ones);
    for (const DimExpr &dim : type.getShape())
      if (!dim.isConstant() && !dim.asSymbol())
        return Status::invalidInput(
            fmt::format("{}: loss '{}': which of {} positions are a sample's own cannot be told where '{}' "
                        "is padded; give {}mask: a data field of 1 at them",
                        loss.place, loss.name, nn::shapeText(type.getShape()), padded,
                        loss.kind == LossKind::Mean ? "" : "labels, or "));
    std::string name = "own positions " + nn::shapeText(type.getShape());
    MAESTRO_ASSIGN(mlir::Value own, fieldArgument(name, type, "a loss"));
    graph.setArgAttr(mlir::cast<mlir::BlockArgument>(own).getArgNumber(), attributes::kOwnPositions,
                     builder.getUnitAttr());
    ones.replaceAllUsesWith(own);
    notes.push_back(fmt::format("loss '{}' counts every position that a sample has in {}, no padding", loss.name,
                                nn::shapeText(type.getShape())));
  }
  return {};
}

/// Labels padded with what their loss counts.
Status Linker::refusePaddedLabels() const {
  for (const LossSpec &loss : losses) {
    if (!loss.labels || !loss.labels->component.empty())
      continue;
    auto field = fields.find(loss.labels->port);
    auto pad = pads.find(loss.labels->port);
    if (field == fields.end() || pad == pads.end() || pad->second == static_cast<double>(loss.ignoreIndex))
      continue;
    if (std::string dim = paddedDim(field->second); !dim.empty())
      return Status::invalidInput(
          fmt::format("{}: loss '{}': the field '{}' is padded with {} along '{}', which would count "
                      "as a label; the loss ignores {}: pad with that, or change its ignore_index",
                      loss.place, loss.name, loss.labels->port, pad->second, dim, loss.ignoreIndex));
  }
  return {};
}

} // namespace maestro::planner
