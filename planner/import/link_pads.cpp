// Padding counts in no loss. A field of labels is padded with what its loss ignores, also where the loss lies inside the
// graph; a loss that nothing keeps from counting padding is refused.
#include "planner/import/linker.h"

#include "passes/attributes.h"

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

/// How much padding there is depends on which samples share a micro-batch, and so would such a loss.
Status Linker::refusePaddedMeans() const {
  for (const auto &[loss, value] : everyPosition)
    if (std::string dim = paddedDim(value); !dim.empty())
      return Status::invalidInput(
          fmt::format("{}: loss '{}': without {} every position of {} counts, also where '{}' is padded to the longest "
                      "sample of a micro-batch; give {}, or export with a fixed '{}'",
                      loss.place, loss.name, loss.kind == LossKind::Mean ? "a mask" : "labels or a mask", loss.scores.str(),
                      dim, loss.kind == LossKind::Mean ? "mask: a data field of 1 at a sample's own positions"
                                                       : "labels, or mask: a data field of 1 at a sample's own positions",
                      dim));
  for (const LossSpec &loss : losses) {
    if (!loss.labels || !loss.labels->component.empty())
      continue;
    auto field = fields.find(loss.labels->port);
    auto pad = pads.find(loss.labels->port);
    if (field == fields.end() || pad == pads.end() || pad->second == static_cast<double>(loss.ignoreIndex))
      continue;
    if (std::string dim = paddedDim(field->second); !dim.empty())
      return Status::invalidInput(fmt::format("{}: loss '{}': the field '{}' is padded with {} along '{}', which would count "
                                              "as a label; the loss ignores {}: pad with that, or change its ignore_index",
                                              loss.place, loss.name, loss.labels->port, pad->second, dim, loss.ignoreIndex));
  }
  return {};
}

} // namespace maestro::planner
