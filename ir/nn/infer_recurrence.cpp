// Result types of recurrences.
#include "base/recurrent_cell.h"
#include "ir/nn/infer.h"

namespace maestro::nn {

using llvm::LogicalResult;
using mlir::failed;
using mlir::failure;

/// The sizes of a recurrence, of weight [G·H, H] and initial [B, S·H].
struct RecurrenceDims {
  RecurrentCell cell;
  CellBlocks blocks;
  DimExpr batch, hidden;
};

template <typename Adaptor>
static LogicalResult checkRecurrence(const Inference &inference, Adaptor adaptor, RecurrenceDims &dims) {
  std::optional<RecurrentCell> cell = recurrentCellFromName(adaptor.getCell());
  if (!cell)
    return inference.fail("cell must be \"lstm\", \"gru\", \"rnn_tanh\" or \"rnn_relu\", is \"" + adaptor.getCell() +
                          "\"");
  TensorType weight = tensorOf(adaptor.getWeight()), initial = tensorOf(adaptor.getInitial()),
             lengths = tensorOf(adaptor.getLengths());
  if (failed(inference.checkFloat("weight", weight)) || failed(inference.checkRank("weight", weight, 2, 2)) ||
      failed(inference.checkSameElement("weight and initial", weight, initial)) ||
      failed(inference.checkRank("initial", initial, 2, 2)))
    return failure();
  dims = {*cell, blocksOf(*cell), initial.getDim(0), weight.getDim(1)};
  if (failed(inference.checkShape("weight", weight, {dims.blocks.inputs * dims.hidden, dims.hidden})) ||
      failed(inference.checkShape("initial", initial, {dims.batch, dims.blocks.states * dims.hidden})))
    return failure();
  if (!lengths)
    return mlir::success();
  if (failed(inference.checkInteger("lengths", lengths)))
    return failure();
  return inference.checkShape("lengths", lengths, {dims.batch});
}

MAESTRO_INFER(RecurrenceOp) {
  Inference inference(getOperationName(), location, types);
  TensorType x = tensorOf(adaptor.getX()), bias = tensorOf(adaptor.getBias());
  RecurrenceDims dims;
  if (failed(checkRecurrence(inference, adaptor, dims)) || failed(inference.checkRank("x", x, 3, 3)) ||
      failed(inference.checkSameElement("x and weight", x, tensorOf(adaptor.getWeight()))))
    return failure();
  DimExpr length = x.getDim(1);
  if (failed(inference.checkShape("x", x, {dims.batch, length, dims.blocks.inputs * dims.hidden})))
    return failure();
  if (bias && dims.cell != RecurrentCell::Gru)
    return inference.fail("bias is gru's alone; add it to x");
  if (bias && (failed(inference.checkSameElement("x and bias", x, bias)) ||
               failed(inference.checkShape("bias", bias, {dims.hidden}))))
    return failure();
  if (failed(inference.add({dims.batch, length, dims.blocks.states * dims.hidden}, x.getElementType())))
    return failure();
  return inference.add({dims.batch, length, dims.blocks.gates * dims.hidden}, x.getElementType());
}

MAESTRO_INFER(RecurrenceGradOp) {
  Inference inference(getOperationName(), location, types);
  TensorType states = tensorOf(adaptor.getStates()), initial = tensorOf(adaptor.getInitial());
  RecurrenceDims dims;
  if (failed(checkRecurrence(inference, adaptor, dims)) || failed(inference.checkRank("states", states, 3, 3)))
    return failure();
  DimExpr length = states.getDim(1);
  for (auto [name, value, blocks] : {std::tuple("states", adaptor.getStates(), dims.blocks.states),
                                     std::tuple("dstates", adaptor.getDstates(), dims.blocks.states),
                                     std::tuple("gates", adaptor.getGates(), dims.blocks.gates)})
    if (failed(inference.checkSameElement((llvm::Twine(name) + " and initial").str(), tensorOf(value), initial)) ||
        failed(inference.checkShape(name, tensorOf(value), {dims.batch, length, blocks * dims.hidden})))
      return failure();
  if (failed(inference.add({dims.batch, length, dims.blocks.inputs * dims.hidden}, initial.getElementType())))
    return failure();
  return inference.add(initial);
}

} // namespace maestro::nn
