// Losses over class scores. A plain mean becomes exactly Σ loss ÷ Σ [label ≠ ignore_index], which
// is what the loss decomposition looks for. PyTorch's exporter drops label_smoothing; the text of
// the call has it.
#include "planner/import/metadata.h"
#include "planner/import/node_context.h"

#include <fmt/format.h>

#include <numeric>

namespace maestro::planner {

Status importSoftmaxCrossEntropyLoss(NodeContext &n);
Status importNegativeLogLikelihoodLoss(NodeContext &n);

namespace {

struct Loss {
  mlir::Value scores; ///< […, classes]: the class axis (1 in ONNX) moved last.
  mlir::Value labels; ///< […]; or probabilities of the classes, […, classes].
  mlir::Value weight; ///< [classes], or null.
  int64_t ignoreIndex = -100;
  std::string reduction;
  double smoothing = 0; ///< Of the label's probability, spread over all classes.

  /// PyTorch's labels may be probabilities; its exporter writes them where ONNX wants classes.
  bool isSoft() const { return isFloat(Emitter::dtypeOf(labels)); }
};

Result<mlir::Value> classesLast(NodeContext &n, mlir::Value x) {
  Ints order{0};
  for (int64_t i = 2; i < Emitter::rankOf(x); ++i)
    order.push_back(i);
  order.push_back(1);
  return n.e.transpose(x, order);
}

/// cross_entropy_loss(scores, labels, weight, reduction, ignore_index, label_smoothing),
/// nll_loss(…) without the last: what the text says must be what the node says.
Status readText(NodeContext &n, Loss &loss) {
  std::string_view text = fxNode(n.node), target = fxTarget(text);
  bool smooths = target.starts_with("aten.cross_entropy_loss");
  if (!smooths && !target.starts_with("aten.nll_loss"))
    return {};
  std::vector<std::string> arguments = fxArguments(text);
  auto differs = [&](const char *what, const std::string &written) {
    return Status::invalidInput(
        fmt::format("the call that the exporter wrote it for has {} {}, and the node has not", what, written));
  };
  if (arguments.size() > 2 && (arguments[2] != "None") != (loss.weight != nullptr))
    return differs("weight", arguments[2]);
  constexpr std::string_view kReductions[] = {"none", "mean", "sum"};
  if (auto reduction = fxNumber(text, 3);
      reduction && *reduction >= 0 && *reduction < 3 && kReductions[static_cast<int>(*reduction)] != loss.reduction)
    return differs("reduction", arguments[3]);
  if (auto ignored = fxNumber(text, 4); ignored && *ignored != static_cast<double>(loss.ignoreIndex))
    return differs("ignore_index", arguments[4]);
  if (smooths)
    loss.smoothing = fxNumber(text, 5).value_or(0);
  return {};
}

Result<Loss> readLoss(NodeContext &n) {
  Loss loss;
  MAESTRO_ASSIGN(loss.scores, n.tensor(0));
  MAESTRO_ASSIGN(loss.labels, n.tensor(1));
  if (n.has(2)) {
    MAESTRO_ASSIGN(loss.weight, n.tensor(2));
  }
  int64_t rank = Emitter::rankOf(loss.scores) - (loss.isSoft() ? 0 : 1);
  if (Emitter::rankOf(loss.scores) < 2 || Emitter::rankOf(loss.labels) != rank)
    return Status::invalidInput(fmt::format("scores {} with labels {}", nn::shapeText(Emitter::shapeOf(loss.scores)),
                                            nn::shapeText(Emitter::shapeOf(loss.labels))));
  MAESTRO_ASSIGN(loss.scores, classesLast(n, loss.scores));
  if (loss.isSoft()) {
    MAESTRO_ASSIGN(loss.labels, classesLast(n, loss.labels));
  }
  auto positions = Emitter::shapeOf(loss.scores).take_front(static_cast<size_t>(rank));
  for (size_t i = 0; i < positions.size(); ++i)
    MAESTRO_TRY(n.e.requireEqual(Emitter::shapeOf(loss.labels)[i], positions[i], "labels and scores"));
  loss.ignoreIndex = n.intAttribute("ignore_index", -100);
  loss.reduction = n.textAttribute("reduction", "mean");
  if (loss.reduction != "mean" && loss.reduction != "sum" && loss.reduction != "none")
    return Status::invalidInput(fmt::format("reduction '{}' is none of mean, sum, none", loss.reduction));
  MAESTRO_TRY(readText(n, loss));
  return loss;
}

/// `weights`: what each position counts in a mean.
Status setReduced(NodeContext &n, const Loss &loss, mlir::Value values, mlir::Value weights) {
  DType dtype = Emitter::dtypeOf(loss.scores);
  if (loss.reduction == "none")
    return n.set(0, n.e.cast(values, dtype));
  MAESTRO_ASSIGN(mlir::Value sum, n.e.sumAll(values));
  if (loss.reduction == "sum")
    return n.set(0, n.e.cast(sum, dtype));
  MAESTRO_ASSIGN(mlir::Value count, n.e.sumAll(weights));
  MAESTRO_ASSIGN(mlir::Value mean, n.e.emit<nn::DivOp>(sum, count));
  return n.set(0, n.e.cast(mean, dtype));
}

/// (1 − s)·`values` + s⁄classes·Σ −log p·weight over the classes, 0 where ignored; s: the
/// smoothing.
Result<mlir::Value> smoothed(NodeContext &n, const Loss &loss, mlir::Value values, mlir::Value logProbabilities,
                             mlir::Value keep) {
  DType dtype = Emitter::dtypeOf(logProbabilities);
  int64_t axis = Emitter::rankOf(logProbabilities) - 1;
  auto classes = Emitter::shapeOf(logProbabilities)[axis].asConstant();
  if (!classes)
    return Status::invalidInput("label smoothing needs a fixed number of classes");
  mlir::Value all = logProbabilities;
  if (loss.weight) {
    MAESTRO_ASSIGN(all, n.e.binary<nn::MulOp>(all, n.e.cast(loss.weight, dtype)));
  }
  MAESTRO_ASSIGN(mlir::Value spread, n.e.emit<nn::ReduceSumOp>(all, llvm::ArrayRef<int64_t>(axis), false));
  MAESTRO_ASSIGN(spread,
                 n.e.emit<nn::MulOp>(spread, n.e.scalar(-loss.smoothing / static_cast<double>(*classes), dtype)));
  MAESTRO_ASSIGN(spread, n.e.emit<nn::MulOp>(spread, n.e.cast(keep, dtype)));
  MAESTRO_ASSIGN(values, n.e.emit<nn::MulOp>(values, n.e.scalar(1 - loss.smoothing, dtype)));
  return n.e.emit<nn::AddOp>(values, spread);
}

/// −log p[label]·weight[label], 0 where ignored.
Status gatherLoss(NodeContext &n, const Loss &loss, mlir::Value logProbabilities) {
  DType dtype = Emitter::dtypeOf(logProbabilities);
  MAESTRO_ASSIGN(mlir::Value keep, n.e.isNot(loss.labels, loss.ignoreIndex));
  mlir::Value zero = n.e.scalar(0, Emitter::dtypeOf(loss.labels));
  MAESTRO_ASSIGN(mlir::Value safe, n.e.emit<nn::WhereOp>(keep, loss.labels, zero));
  Shape column(Emitter::shapeOf(safe)), positions(column);
  column.push_back(DimExpr(1));
  int64_t axis = static_cast<int64_t>(positions.size());
  MAESTRO_ASSIGN(mlir::Value picked, n.e.emit<nn::GatherElementsOp>(logProbabilities, n.e.reshape(safe, column), axis));
  MAESTRO_ASSIGN(mlir::Value values, n.e.emit<nn::NegOp>(n.e.reshape(picked, positions)));
  mlir::Value weights = n.e.cast(keep, dtype);
  if (loss.weight) {
    MAESTRO_ASSIGN(mlir::Value each, n.e.emit<nn::GatherOp>(n.e.cast(loss.weight, dtype), safe, 0));
    MAESTRO_ASSIGN(weights, n.e.emit<nn::MulOp>(weights, each));
  }
  MAESTRO_ASSIGN(values, n.e.emit<nn::MulOp>(values, weights));
  if (loss.smoothing != 0) {
    MAESTRO_ASSIGN(values, smoothed(n, loss, values, logProbabilities, keep));
  }
  return setReduced(n, loss, values, weights);
}

/// −Σ p·log q·weight over the classes, p smoothed; a mean is over positions, whatever they weigh.
Status softLoss(NodeContext &n, const Loss &loss, mlir::Value logProbabilities) {
  DType dtype = Emitter::dtypeOf(logProbabilities);
  int64_t axis = Emitter::rankOf(logProbabilities) - 1;
  mlir::Value target = n.e.cast(loss.labels, dtype);
  if (loss.smoothing != 0) {
    auto classes = Emitter::shapeOf(logProbabilities)[axis].asConstant();
    if (!classes)
      return Status::invalidInput("label smoothing needs a fixed number of classes");
    MAESTRO_ASSIGN(target, n.e.emit<nn::MulOp>(target, n.e.scalar(1 - loss.smoothing, dtype)));
    mlir::Value share = n.e.scalar(loss.smoothing / static_cast<double>(*classes), dtype);
    MAESTRO_ASSIGN(target, n.e.emit<nn::AddOp>(target, share));
  }
  MAESTRO_ASSIGN(mlir::Value values, n.e.emit<nn::MulOp>(target, logProbabilities));
  if (loss.weight) {
    MAESTRO_ASSIGN(values, n.e.binary<nn::MulOp>(values, n.e.cast(loss.weight, dtype)));
  }
  MAESTRO_ASSIGN(values, n.e.emit<nn::ReduceSumOp>(values, llvm::ArrayRef<int64_t>(axis), false));
  MAESTRO_ASSIGN(values, n.e.emit<nn::NegOp>(values));
  if (loss.reduction != "mean")
    return setReduced(n, loss, values, {});
  Ints all(static_cast<size_t>(axis));
  std::iota(all.begin(), all.end(), 0);
  MAESTRO_ASSIGN(mlir::Value mean, n.e.emit<nn::ReduceMeanOp>(values, llvm::ArrayRef<int64_t>(all), false));
  return n.set(0, n.e.cast(mean, Emitter::dtypeOf(loss.scores)));
}

} // namespace

Status importSoftmaxCrossEntropyLoss(NodeContext &n) {
  MAESTRO_ASSIGN(Loss loss, readLoss(n));
  if (n.wants(1)) {
    MAESTRO_ASSIGN(mlir::Value scores, n.tensor(0));
    MAESTRO_TRY(n.set(1, n.e.emit<nn::LogSoftmaxOp>(scores, 1)));
  }
  if (loss.weight || loss.smoothing != 0 || loss.isSoft()) {
    int64_t axis = Emitter::rankOf(loss.scores) - 1;
    MAESTRO_ASSIGN(mlir::Value logProbabilities, n.e.emit<nn::LogSoftmaxOp>(loss.scores, axis));
    return loss.isSoft() ? softLoss(n, loss, logProbabilities) : gatherLoss(n, loss, logProbabilities);
  }
  MAESTRO_ASSIGN(mlir::Value values, n.e.emit<nn::CrossEntropyOp>(loss.scores, loss.labels, loss.ignoreIndex));
  if (loss.reduction != "mean")
    return setReduced(n, loss, values, {});
  MAESTRO_ASSIGN(mlir::Value keep, n.e.isNot(loss.labels, loss.ignoreIndex));
  return setReduced(n, loss, values, n.e.cast(keep, Emitter::dtypeOf(values)));
}

Status importNegativeLogLikelihoodLoss(NodeContext &n) {
  MAESTRO_ASSIGN(Loss loss, readLoss(n));
  if (loss.isSoft())
    return Status::invalidInput("labels must be integers");
  return gatherLoss(n, loss, loss.scores);
}

} // namespace maestro::planner
