// Losses that are made of several operators: between two outputs, between two distributions, and what is added to a
// cross entropy.
#include "planner/import/linker.h"

#include <fmt/format.h>

namespace maestro::planner {

/// Cross entropy with label smoothing and z-loss, of each position; 0 where nothing counts.
Result<mlir::Value> Linker::regularised(const LossSpec &loss, mlir::Value each, mlir::Value logits,
                                        mlir::Value weights) {
  if (loss.labelSmoothing == 0 && loss.zLoss == 0)
    return each;
  mlir::Value scores = e.cast(logits, DType::F32);
  int64_t axis = Emitter::rankOf(scores) - 1;
  MAESTRO_ASSIGN(mlir::Value logProbabilities, e.emit<nn::LogSoftmaxOp>(scores, axis));
  if (loss.labelSmoothing > 0) {
    MAESTRO_ASSIGN(mlir::Value spread,
                   e.emit<nn::ReduceMeanOp>(logProbabilities, llvm::ArrayRef<int64_t>(axis), false));
    MAESTRO_ASSIGN(spread, e.emit<nn::MulOp>(spread, e.scalar(-loss.labelSmoothing, DType::F32)));
    MAESTRO_ASSIGN(spread, e.emit<nn::MulOp>(spread, weights));
    MAESTRO_ASSIGN(each, e.emit<nn::MulOp>(each, e.scalar(1 - loss.labelSmoothing, DType::F32)));
    MAESTRO_ASSIGN(each, e.emit<nn::AddOp>(each, spread));
  }
  if (loss.zLoss > 0) { // log Σ exp is what separates the scores from the logarithms of their probabilities.
    MAESTRO_ASSIGN(mlir::Value apart, e.emit<nn::SubOp>(scores, logProbabilities));
    MAESTRO_ASSIGN(mlir::Value z, e.emit<nn::ReduceMeanOp>(apart, llvm::ArrayRef<int64_t>(axis), false));
    MAESTRO_ASSIGN(z, e.emit<nn::MulOp>(z, z));
    MAESTRO_ASSIGN(z, e.emit<nn::MulOp>(z, weights));
    MAESTRO_ASSIGN(z, e.emit<nn::MulOp>(z, e.scalar(loss.zLoss, DType::F32)));
    MAESTRO_ASSIGN(each, e.emit<nn::AddOp>(each, z));
  }
  return each;
}

/// Of each position, at the loss's temperature.
Result<mlir::Value> Linker::divergence(const LossSpec &loss, mlir::Value student, mlir::Value teacher) {
  if (loss.direction == Divergence::Forward) {
    MAESTRO_ASSIGN(mlir::Value each, e.emit<nn::KlDivergenceOp>(student, teacher, llvm::APFloat(loss.temperature)));
    return e.cast(each, DType::F32);
  }
  int64_t axis = Emitter::rankOf(student) - 1;
  auto logProbabilities = [&](mlir::Value logits) -> Result<mlir::Value> {
    MAESTRO_ASSIGN(mlir::Value scaled,
                   e.emit<nn::MulOp>(e.cast(logits, DType::F32), e.scalar(1 / loss.temperature, DType::F32)));
    return e.emit<nn::LogSoftmaxOp>(scaled, axis);
  };
  auto kl = [&](mlir::Value from, mlir::Value to) -> Result<mlir::Value> {
    MAESTRO_ASSIGN(mlir::Value probabilities, e.emit<nn::ExpOp>(from));
    MAESTRO_ASSIGN(mlir::Value apart, e.emit<nn::SubOp>(from, to));
    MAESTRO_ASSIGN(mlir::Value each, e.emit<nn::MulOp>(probabilities, apart));
    return e.emit<nn::ReduceSumOp>(each, llvm::ArrayRef<int64_t>(axis), false);
  };
  MAESTRO_ASSIGN(mlir::Value q, logProbabilities(student));
  MAESTRO_ASSIGN(mlir::Value p, logProbabilities(teacher));
  if (loss.direction == Divergence::Reverse)
    return kl(q, p);
  // log ½(p + q) = softplus(p − q) + q − log 2, in logarithms and without overflow.
  MAESTRO_ASSIGN(mlir::Value apart, e.emit<nn::SubOp>(p, q));
  MAESTRO_ASSIGN(mlir::Value middle, e.emit<nn::SoftplusOp>(apart));
  MAESTRO_ASSIGN(middle, e.emit<nn::AddOp>(middle, q));
  MAESTRO_ASSIGN(middle, e.emit<nn::AddOp>(middle, e.scalar(-0.69314718055994530942, DType::F32)));
  MAESTRO_ASSIGN(mlir::Value fromTeacher, kl(p, middle));
  MAESTRO_ASSIGN(mlir::Value fromStudent, kl(q, middle));
  MAESTRO_ASSIGN(mlir::Value both, e.emit<nn::AddOp>(fromTeacher, fromStudent));
  return e.emit<nn::MulOp>(both, e.scalar(0.5, DType::F32));
}

/// mse: the mean over the last dim, where there are several. cosine: 1 − cos over the last dim, as cosine_similarity
/// has it.
Status Linker::distance(const LossSpec &loss) {
  MAESTRO_ASSIGN(mlir::Value value, resolve(loss.scores, {}));
  Shape shape(Emitter::shapeOf(value));
  MAESTRO_ASSIGN(mlir::Value target, resolve(*loss.target, e.type(shape, DType::F32)));
  MAESTRO_TRY(checkShape(target, shape, "target", loss));
  bool hasFeatures = shape.size() >= 2;
  if (!isFloat(Emitter::dtypeOf(value)) || !isFloat(Emitter::dtypeOf(target)) || shape.empty() ||
      (loss.kind == LossKind::Cosine && !hasFeatures))
    return Status::invalidInput(fmt::format(
        "{}: loss '{}': value and target must be floating point [..., features], not {} of {} and {}", loss.place,
        loss.name, nn::shapeText(shape), name(Emitter::dtypeOf(value)), name(Emitter::dtypeOf(target))));
  Shape positions(hasFeatures ? llvm::ArrayRef<DimExpr>(shape).drop_back(1) : llvm::ArrayRef<DimExpr>(shape));
  MAESTRO_ASSIGN(mlir::Value weights, positionWeights(loss, positions));
  value = e.cast(value, DType::F32);
  target = e.cast(target, DType::F32);
  llvm::SmallVector<int64_t, 1> axis = {static_cast<int64_t>(shape.size()) - 1};
  if (loss.kind == LossKind::Mse) {
    MAESTRO_ASSIGN(mlir::Value each, e.emit<nn::SubOp>(value, target));
    MAESTRO_ASSIGN(each, e.emit<nn::MulOp>(each, each));
    if (hasFeatures) {
      MAESTRO_ASSIGN(each, e.emit<nn::ReduceMeanOp>(each, llvm::ArrayRef<int64_t>(axis), false));
    }
    return addMean(loss, each, weights);
  }
  auto product = [&](mlir::Value a, mlir::Value b) -> Result<mlir::Value> {
    MAESTRO_ASSIGN(mlir::Value each, e.emit<nn::MulOp>(a, b));
    return e.emit<nn::ReduceSumOp>(each, llvm::ArrayRef<int64_t>(axis), false);
  };
  auto norm = [&](mlir::Value a) -> Result<mlir::Value> { // At least 1e-8, so that padding has a gradient, 0.
    MAESTRO_ASSIGN(mlir::Value square, product(a, a));
    MAESTRO_ASSIGN(square, e.emit<nn::MaximumOp>(square, e.scalar(1e-16, DType::F32)));
    return e.emit<nn::SqrtOp>(square);
  };
  MAESTRO_ASSIGN(mlir::Value dot, product(value, target));
  MAESTRO_ASSIGN(mlir::Value left, norm(value));
  MAESTRO_ASSIGN(mlir::Value right, norm(target));
  MAESTRO_ASSIGN(mlir::Value norms, e.emit<nn::MulOp>(left, right));
  MAESTRO_ASSIGN(mlir::Value cosine, e.emit<nn::DivOp>(dot, norms));
  MAESTRO_ASSIGN(mlir::Value each, e.emit<nn::SubOp>(e.scalar(1, DType::F32), cosine));
  return addMean(loss, each, weights);
}

} // namespace maestro::planner
