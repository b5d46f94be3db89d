// Softmax, normalisation, attention, dropout: operators that exist because networks need them.
#include "planner/import/import_state.h"
#include "planner/import/op_table.h"

#include <fmt/format.h>

#include <cmath>

namespace maestro::planner {

// ops_losses.cpp
Status importSoftmaxCrossEntropyLoss(NodeContext &n);
Status importNegativeLogLikelihoodLoss(NodeContext &n);
// ops_attention.cpp
Status importAttention(NodeContext &n);
Status importRotaryEmbedding(NodeContext &n);

namespace {

template <typename OpTy> Status importSoftmax(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(int64_t axis, n.normalizeAxis(n.intAttribute("axis", -1), Emitter::rankOf(x)));
  return n.set(0, n.e.emit<OpTy>(x, axis));
}

//===-- Normalisation -------------------------------------------------------===//

bool sameShape(mlir::Value x, llvm::ArrayRef<DimExpr> shape) { return Emitter::shapeOf(x) == shape; }

/// mean and rstd have the shape of the dims before `axis`; ONNX keeps the others as 1.
mlir::Value withOnes(NodeContext &n, mlir::Value statistic, int64_t rank) {
  Shape shape(Emitter::shapeOf(statistic));
  shape.resize(rank, DimExpr(1));
  return n.e.reshape(statistic, shape);
}

/// A scale or bias that the operator itself can take: the shape of the normalised dims.
Result<mlir::Value> direct(NodeContext &n, int input, llvm::ArrayRef<DimExpr> normalized) {
  if (!n.has(input))
    return mlir::Value();
  MAESTRO_ASSIGN(mlir::Value value, n.tensor(input));
  return sameShape(value, normalized) ? value : mlir::Value();
}

Status importLayerNormalization(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  int64_t rank = Emitter::rankOf(x);
  MAESTRO_ASSIGN(int64_t axis, n.normalizeAxis(n.intAttribute("axis", -1), rank));
  auto normalized = Emitter::shapeOf(x).drop_front(axis);
  MAESTRO_ASSIGN(mlir::Value scale, direct(n, 1, normalized));
  MAESTRO_ASSIGN(mlir::Value bias, direct(n, 2, normalized));
  if (!scale)
    bias = {};
  auto op = n.e.emitOp<nn::LayerNormOp>(x, scale, bias, axis, llvm::APFloat(n.floatAttribute("epsilon", 1e-5f)));
  if (!op)
    return std::move(op).takeStatus();
  mlir::Value y = op->getY();
  if (n.has(1) && !scale) {
    MAESTRO_ASSIGN(mlir::Value factor, n.tensor(1));
    MAESTRO_ASSIGN(y, n.e.binary<nn::MulOp>(y, factor));
  }
  if (n.has(2) && !bias) {
    MAESTRO_ASSIGN(mlir::Value term, n.tensor(2));
    MAESTRO_ASSIGN(y, n.e.binary<nn::AddOp>(y, term));
  }
  MAESTRO_TRY(n.set(0, y));
  if (n.wants(1))
    MAESTRO_TRY(n.set(1, withOnes(n, op->getMean(), rank)));
  return n.wants(2) ? n.set(2, withOnes(n, op->getRstd(), rank)) : Status();
}

Status importRmsNormalization(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(int64_t axis, n.normalizeAxis(n.intAttribute("axis", -1), Emitter::rankOf(x)));
  MAESTRO_ASSIGN(mlir::Value scale, direct(n, 1, Emitter::shapeOf(x).drop_front(axis)));
  MAESTRO_ASSIGN(mlir::Value y,
                 n.e.emit<nn::RmsNormOp>(x, scale, axis, llvm::APFloat(n.floatAttribute("epsilon", 1e-5f))));
  if (scale || !n.has(1))
    return n.set(0, y);
  MAESTRO_ASSIGN(mlir::Value factor, n.tensor(1));
  return n.set(0, n.e.binary<nn::MulOp>(y, factor));
}

/// x[N, C, …] seen as [N, groups, −1], each row normalised to mean 0 and variance 1.
Result<mlir::Value> normalizedGroups(NodeContext &n, mlir::Value x, const DimExpr &groups) {
  Shape shape(Emitter::shapeOf(x));
  auto perGroup = nn::productOf(llvm::ArrayRef<DimExpr>(shape).drop_front(1)).exactQuotient(groups);
  if (!perGroup)
    return Status::invalidInput(fmt::format("{} channels in {} groups", shape[1].str(), groups.str()));
  mlir::Value rows = n.e.reshape(x, {shape[0], groups, *perGroup});
  MAESTRO_ASSIGN(mlir::Value y, n.e.emit<nn::LayerNormOp>(rows, mlir::Value(), mlir::Value(), 2,
                                                          llvm::APFloat(n.floatAttribute("epsilon", 1e-5f))));
  return n.e.reshape(y, shape);
}

/// [C] as [C, 1, 1], so that it broadcasts over x[N, C, H, W].
mlir::Value perChannel(NodeContext &n, mlir::Value value, int64_t rank) {
  Shape shape(rank - 1, DimExpr(1));
  shape[0] = nn::productOf(Emitter::shapeOf(value));
  return n.e.reshape(value, shape);
}

Result<mlir::Value> scaleAndShift(NodeContext &n, mlir::Value y, mlir::Value scale, mlir::Value bias) {
  int64_t rank = Emitter::rankOf(y);
  MAESTRO_ASSIGN(y, n.e.binary<nn::MulOp>(y, perChannel(n, scale, rank)));
  return n.e.binary<nn::AddOp>(y, perChannel(n, bias, rank));
}

Status importInstanceNormalization(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value scale, n.tensor(1));
  MAESTRO_ASSIGN(mlir::Value bias, n.tensor(2));
  if (Emitter::rankOf(x) < 3)
    return Status::invalidInput("needs an input of rank 3 or more");
  MAESTRO_ASSIGN(mlir::Value y, normalizedGroups(n, x, Emitter::shapeOf(x)[1]));
  return n.set(0, scaleAndShift(n, y, scale, bias));
}

/// Scale and bias are per group before version 21, per channel since.
Result<mlir::Value> spreadOverChannels(NodeContext &n, mlir::Value value, const DimExpr &groups,
                                       const DimExpr &channels) {
  if (n.version >= 21)
    return value;
  auto each = channels.exactQuotient(groups);
  if (!each)
    return Status::invalidInput(fmt::format("{} channels in {} groups", channels.str(), groups.str()));
  mlir::Value column = n.e.reshape(value, {groups, DimExpr(1)});
  return n.e.reshape(n.e.broadcastTo(column, {groups, *each}), {channels});
}

Status importGroupNormalization(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value scale, n.tensor(1));
  MAESTRO_ASSIGN(mlir::Value bias, n.tensor(2));
  int64_t groups = n.intAttribute("num_groups", 0);
  if (groups < 1 || Emitter::rankOf(x) < 3)
    return Status::invalidInput("needs num_groups and an input of rank 3 or more");
  DimExpr channels = Emitter::shapeOf(x)[1];
  MAESTRO_ASSIGN(scale, spreadOverChannels(n, scale, DimExpr(groups), channels));
  MAESTRO_ASSIGN(bias, spreadOverChannels(n, bias, DimExpr(groups), channels));
  MAESTRO_ASSIGN(mlir::Value y, normalizedGroups(n, x, DimExpr(groups)));
  return n.set(0, scaleAndShift(n, y, scale, bias));
}

/// The inference form, (x − mean)·scale÷√(variance + ε) + bias. The training form couples samples.
Status importBatchNormalization(NodeContext &n) {
  if (n.intAttribute("training_mode", 0) != 0)
    return Status::invalidInput(
        "BatchNorm in training mode couples the samples of a batch; use GroupNorm or LayerNorm, "
        "or freeze its statistics with model.eval() before exporting");
  mlir::Value operands[5];
  for (int i = 0; i < 5; ++i) {
    MAESTRO_ASSIGN(operands[i], n.tensor(i));
  }
  auto [x, scale, bias, mean, variance] = operands;
  if (Emitter::rankOf(x) < 2)
    return Status::invalidInput("needs an input of rank 2 or more");
  DType dtype = Emitter::dtypeOf(x), wide = Emitter::dtypeOf(variance);
  MAESTRO_ASSIGN(mlir::Value spread,
                 n.e.emit<nn::AddOp>(variance, n.e.scalar(n.floatAttribute("epsilon", 1e-5f), wide)));
  MAESTRO_ASSIGN(mlir::Value rstd, n.e.emit<nn::RsqrtOp>(spread));
  MAESTRO_ASSIGN(mlir::Value factor, n.e.binary<nn::MulOp>(n.e.cast(scale, wide), rstd));
  MAESTRO_ASSIGN(mlir::Value centered,
                 n.e.binary<nn::SubOp>(n.e.cast(x, wide), perChannel(n, mean, Emitter::rankOf(x))));
  MAESTRO_ASSIGN(mlir::Value y, scaleAndShift(n, centered, factor, n.e.cast(bias, wide)));
  return n.set(0, n.e.cast(y, dtype));
}

//===-- Dropout -------------------------------------------------------------===//

/// For the random number's place: row-major over the upper bounds of the dims after the first, so that
/// padding moves nothing.
Ints boundStrides(NodeContext &n, llvm::ArrayRef<DimExpr> shape) {
  auto boundOf = [&](std::string_view symbol) -> std::optional<int64_t> {
    auto bound = n.state.options.boundOf ? n.state.options.boundOf(symbol) : std::nullopt;
    return bound.value_or(1024);
  };
  Ints strides;
  int64_t stride = 1;
  for (const DimExpr &dim : llvm::reverse(shape.drop_front(1))) {
    strides.insert(strides.begin(), stride);
    stride *= std::max<int64_t>(1, dim.upperBound(boundOf).value_or(1024));
  }
  return strides;
}

Status importDropout(NodeContext &n) {
  bool training = false;
  double ratio = n.has(1) ? 0 : 0.5;
  if (n.has(2)) {
    MAESTRO_ASSIGN(double flag, n.number(2, "training_mode"));
    training = flag != 0;
  }
  if (n.has(1)) {
    MAESTRO_ASSIGN(ratio, n.number(1, "ratio"));
  }
  MAESTRO_ASSIGN(ImportedValue * value, n.value(0));
  if (n.wants(1)) {
    MAESTRO_ASSIGN(Shape shape, n.shape(0));
    MAESTRO_TRY(n.set(1, training && ratio != 0
                             ? ImportedValue::refused("reads the mask of a training dropout, which is not supported")
                             : ImportedValue::of(n.e.fill(1, shape, DType::Bool))));
  }
  if (!training || ratio == 0)
    return n.set(0, ImportedValue(*value));
  if (!(ratio > 0 && ratio < 1))
    return Status::invalidInput(fmt::format("ratio is {}; it must be in [0, 1)", ratio));
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  if (Emitter::rankOf(x) == 0)
    return Status::invalidInput("drops out a scalar");
  Ints strides = boundStrides(n, Emitter::shapeOf(x));
  return n.set(0, n.e.emit<nn::DropoutOp>(x, n.state.randomState(n.e), n.state.sampleIds(n.e), llvm::APFloat(ratio),
                                          n.state.nextStream(), llvm::ArrayRef<int64_t>(strides)));
}

} // namespace

std::span<const OpEntry> networkOps() {
  static constexpr OpEntry kOps[] = {
      {"Attention", 23, importAttention},
      {"BatchNormalization", 9, importBatchNormalization},
      {"Dropout", 7, importDropout},
      {"GroupNormalization", 18, importGroupNormalization},
      {"InstanceNormalization", 6, importInstanceNormalization},
      {"LayerNormalization", 17, importLayerNormalization},
      {"LogSoftmax", 13, importSoftmax<nn::LogSoftmaxOp>},
      {"NegativeLogLikelihoodLoss", 12, importNegativeLogLikelihoodLoss},
      {"RMSNormalization", 23, importRmsNormalization},
      {"RotaryEmbedding", 23, importRotaryEmbedding},
      {"Softmax", 13, importSoftmax<nn::SoftmaxOp>},
      {"SoftmaxCrossEntropyLoss", 12, importSoftmaxCrossEntropyLoss},
  };
  return kOps;
}

} // namespace maestro::planner
