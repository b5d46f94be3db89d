// The losses: each one a sum over counted positions and their number, or the mean that a graph computes itself.
#include "planner/import/linker.h"

#include "passes/attributes.h"

#include <fmt/format.h>

namespace maestro::planner {

/// With bare models: a scalar float output is the loss; otherwise the one output [..., classes] makes a mean cross
/// entropy with the field `labels`.
Status Linker::inferLosses() {
  if (!losses.empty())
    return {};
  std::vector<const Output *> scalars, logits;
  std::string list;
  for (const Output &output : outputs) {
    auto type = mlir::cast<nn::TensorType>(components[output.component].getResultTypes()[output.result]);
    std::string label = workload.components[output.component].name + "." + output.name;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", label, nn::shapeText(type.getShape()));
    if (!isFloat(*nn::dtypeOf(type.getElementType())))
      continue;
    if (type.getShape().empty())
      scalars.push_back(&output);
    else if (type.getShape().size() >= 2 && type.getShape().back().isConstant())
      logits.push_back(&output);
  }
  LossSpec loss;
  loss.place = workload.path;
  bool isScalar = scalars.size() == 1;
  if (!isScalar && (!scalars.empty() || logits.size() != 1))
    return Status::invalidInput(fmt::format(
        "{}: cannot tell what to minimise: {} scalar float outputs and {} of shape [..., classes] (outputs: "
        "{}); write a workload file with `loss`, such as loss: [{{output: component.loss}}]",
        workload.path, scalars.size(), logits.size(), list));
  const Output &chosen = isScalar ? *scalars[0] : *logits[0];
  loss.kind = isScalar ? LossKind::Output : LossKind::CrossEntropy;
  loss.name = isScalar ? "output" : "cross_entropy";
  loss.scores = {workload.components[chosen.component].name, chosen.name, workload.path};
  if (!isScalar)
    loss.labels = PortRef{"", "labels", workload.path};
  notes.push_back(isScalar
                      ? fmt::format("loss: the scalar output {}", loss.scores.str())
                      : fmt::format("loss: mean cross entropy of {} with the data field 'labels' (ignore_index -100)",
                                    loss.scores.str()));
  losses.push_back(std::move(loss));
  return {};
}

Status Linker::checkShape(mlir::Value value, llvm::ArrayRef<DimExpr> shape, const std::string &what,
                          const LossSpec &loss) {
  auto given = Emitter::shapeOf(value);
  bool fits = given.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits = constraints.unify(given[i], shape[i]);
  if (fits) {
    applyConstraints();
    return {};
  }
  return Status::invalidInput(fmt::format("{}: loss '{}': {} has shape {}, but {} is needed", loss.place, loss.name,
                                          what, nn::shapeText(given), nn::shapeText(shape)));
}

/// An output of a component, or the argument of a data field (of type `fallback` when nothing else reads it).
Result<mlir::Value> Linker::resolve(const PortRef &ref, nn::TensorType fallback) {
  if (ref.component.empty()) {
    if (!fields.count(ref.port) && !fallback)
      return Status::invalidInput(fmt::format("{}: no data field '{}' is known", ref.place, ref.port));
    nn::TensorType type = fallback;
    for (const FieldSpec &field : workload.inputs)
      if (field.name == ref.port && field.dtype && type)
        type = e.type(type.getShape(), *field.dtype);
    return fieldArgument(ref.port, type, "a loss");
  }
  MAESTRO_ASSIGN(Output output, findOutput(ref));
  auto *terminator = components[output.component].front().getTerminator();
  return mappings[output.component].lookup(terminator->getOperand(output.result));
}

/// 1 where a label counts, 0 where it is ignored.
Result<mlir::Value> Linker::labelWeights(mlir::Value labels, int64_t ignoreIndex) {
  MAESTRO_ASSIGN(mlir::Value counted, e.isNot(labels, ignoreIndex));
  return e.cast(counted, DType::F32);
}

/// What each position counts: by labels, by mask, or 1 (see countOwnPositions())
Result<mlir::Value> Linker::positionWeights(const LossSpec &loss, llvm::ArrayRef<DimExpr> positions) {
  if (loss.labels) {
    MAESTRO_ASSIGN(mlir::Value labels, resolve(*loss.labels, e.type(positions, DType::I64)));
    MAESTRO_TRY(checkShape(labels, positions, "labels", loss));
    if (loss.labels->component.empty())
      pads.try_emplace(loss.labels->port, static_cast<double>(loss.ignoreIndex));
    return labelWeights(labels, loss.ignoreIndex);
  }
  if (!loss.mask) {
    mlir::Value ones = e.fill(1, positions, DType::F32);
    everyPosition.emplace_back(loss, ones);
    return ones;
  }
  MAESTRO_ASSIGN(mlir::Value mask, resolve(*loss.mask, e.type(positions, DType::F32)));
  MAESTRO_TRY(checkShape(mask, positions, "mask", loss));
  if (loss.kind == LossKind::Mean)
    return e.cast(mask, DType::F32);
  return e.cast(e.cast(mask, DType::Bool), DType::F32);
}

void Linker::addLossResult(const LossSpec &loss, mlir::Value value, llvm::StringRef role) {
  results.push_back(value);
  mlir::NamedAttrList attributes;
  attributes.set(attributes::kLoss, builder.getStringAttr(loss.name));
  attributes.set(attributes::kRole, builder.getStringAttr(role));
  resultAttributes.push_back(std::move(attributes));
}

namespace {

Status checkScores(mlir::Value scores, const LossSpec &loss, const char *what) {
  if (isFloat(Emitter::dtypeOf(scores)) && Emitter::rankOf(scores) >= 1)
    return {};
  return Status::invalidInput(fmt::format("{}: loss '{}': {} must be floating point [..., classes], not {} of {}",
                                          loss.place, loss.name, what, nn::shapeText(Emitter::shapeOf(scores)),
                                          name(Emitter::dtypeOf(scores))));
}

} // namespace

Status Linker::crossEntropy(const LossSpec &loss) {
  MAESTRO_ASSIGN(mlir::Value logits, resolve(loss.scores, {}));
  MAESTRO_TRY(checkScores(logits, loss, "logits"));
  Shape positions(Emitter::shapeOf(logits).drop_back(1));
  MAESTRO_ASSIGN(mlir::Value labels, resolve(*loss.labels, e.type(positions, DType::I64)));
  MAESTRO_TRY(checkShape(labels, positions, "labels", loss));
  if (isFloat(Emitter::dtypeOf(labels)))
    return Status::invalidInput(fmt::format("{}: loss '{}': labels must be integers", loss.place, loss.name));
  if (loss.labels->component.empty())
    pads.try_emplace(loss.labels->port, static_cast<double>(loss.ignoreIndex));
  MAESTRO_ASSIGN(mlir::Value each, e.emit<nn::CrossEntropyOp>(logits, labels, loss.ignoreIndex));
  each = e.cast(each, DType::F32);
  MAESTRO_ASSIGN(mlir::Value weights, labelWeights(labels, loss.ignoreIndex));
  MAESTRO_ASSIGN(each, regularised(loss, each, logits, weights));
  MAESTRO_ASSIGN(mlir::Value sum, e.sumAll(each));
  MAESTRO_ASSIGN(mlir::Value count, e.sumAll(weights));
  addLossResult(loss, sum, "sum");
  addLossResult(loss, count, "count");
  return {};
}

/// The teacher's `top_k` largest logits and the student's of the same classes: both distributions are then over these
/// classes alone, renormalised. Only the values and their indices leave the teacher.
Status Linker::keepLargest(const LossSpec &loss, mlir::Value &student, mlir::Value &teacher) {
  Shape shape(Emitter::shapeOf(teacher));
  std::optional<int64_t> classes = shape.back().asConstant();
  if (!classes || loss.topK > *classes)
    return Status::invalidInput(
        fmt::format("{}: loss '{}': top_k is {}, and there are {} classes; give at most so many", loss.place, loss.name,
                    loss.topK, shape.back().str()));
  shape.back() = DimExpr(loss.topK);
  auto axis = static_cast<int64_t>(shape.size()) - 1;
  auto largest =
      nn::TopKOp::create(builder, e.location, e.like(teacher, shape), e.type(shape, DType::I64), teacher, axis, true);
  teacher = largest.getValues();
  MAESTRO_ASSIGN(student, e.emit<nn::GatherElementsOp>(student, largest.getIndices(), axis));
  return {};
}

Status Linker::klDivergence(const LossSpec &loss) {
  MAESTRO_ASSIGN(mlir::Value student, resolve(loss.scores, {}));
  MAESTRO_ASSIGN(mlir::Value teacher, resolve(loss.teacher, {}));
  MAESTRO_TRY(checkScores(student, loss, "student"));
  MAESTRO_TRY(checkScores(teacher, loss, "teacher"));
  MAESTRO_TRY(checkShape(teacher, Emitter::shapeOf(student), "teacher", loss));
  DType dtype = Emitter::dtypeOf(student);
  Shape positions(Emitter::shapeOf(student).drop_back(1));
  MAESTRO_ASSIGN(mlir::Value weights, positionWeights(loss, positions));
  if (loss.topK > 0)
    MAESTRO_TRY(keepLargest(loss, student, teacher));
  MAESTRO_ASSIGN(mlir::Value each, divergence(loss, student, e.cast(teacher, dtype)));
  return addMean(loss, each, weights, loss.temperature * loss.temperature);
}

Status Linker::mean(const LossSpec &loss) {
  MAESTRO_ASSIGN(mlir::Value value, resolve(loss.scores, {}));
  if (!isFloat(Emitter::dtypeOf(value)))
    return Status::invalidInput(fmt::format("{}: loss '{}': value must be floating point", loss.place, loss.name));
  Shape positions(Emitter::shapeOf(value));
  MAESTRO_ASSIGN(mlir::Value weights, positionWeights(loss, positions));
  return addMean(loss, value, weights);
}

/// `factor` times the mean of what counts.
Status Linker::addMean(const LossSpec &loss, mlir::Value each, mlir::Value weights, double factor) {
  MAESTRO_ASSIGN(mlir::Value counted, e.emit<nn::MulOp>(e.cast(each, DType::F32), weights));
  MAESTRO_ASSIGN(mlir::Value sum, e.sumAll(counted));
  if (factor != 1 || loss.kind == LossKind::KlDivergence) {
    MAESTRO_ASSIGN(sum, e.emit<nn::MulOp>(sum, e.scalar(factor, DType::F32)));
  }
  MAESTRO_ASSIGN(mlir::Value count, e.sumAll(weights));
  addLossResult(loss, sum, "sum");
  addLossResult(loss, count, "count");
  return {};
}

Status Linker::buildLoss(const LossSpec &loss) {
  switch (loss.kind) {
  case LossKind::CrossEntropy:
    return crossEntropy(loss);
  case LossKind::KlDivergence:
    return klDivergence(loss);
  case LossKind::Mean:
    return mean(loss);
  case LossKind::Mse:
  case LossKind::Cosine:
    return distance(loss);
  case LossKind::Output:
    break;
  }
  MAESTRO_ASSIGN(mlir::Value value, resolve(loss.scores, {}));
  if (Emitter::rankOf(value) != 0 || !isFloat(Emitter::dtypeOf(value)))
    return Status::invalidInput(fmt::format(
        "{}: loss '{}': {} has shape {}; `output` needs a floating point scalar (for one value per position "
        "write mean: {{value: {}}})",
        loss.place, loss.name, loss.scores.str(), nn::shapeText(Emitter::shapeOf(value)), loss.scores.str()));
  addLossResult(loss, e.cast(value, DType::F32), "mean");
  return {};
}

Status Linker::buildLosses() {
  for (const LossSpec &loss : losses) {
    e.location = mlir::NameLoc::get(builder.getStringAttr("loss " + loss.name));
    MAESTRO_TRY(buildLoss(loss));
  }
  e.location = builder.getUnknownLoc();
  return {};
}

} // namespace maestro::planner
