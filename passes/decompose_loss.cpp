// --maestro-decompose-loss: a scalar loss that is a mean becomes a sum and a count.
//
// The global batch's mean is Σ sum_k ÷ Σ count_k over micro-batches, which no average of their
// means is. So a result {nn.loss = "loss", nn.role = "mean"} is traced back through weights,
// additions and reshapes to the means it consists of, and each mean is split where it divides:
//
//   func.func @graph(…) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "mean"}) {
//     %s = nn.reduce_sum %losses {axes = array<i64: 0, 1>} : …
//     %c = nn.reduce_sum %counted {axes = array<i64: 0, 1>} : …
//     %m = nn.div %s, %c : …
//     return %m
//
// becomes
//
//   func.func @graph(…) -> (!nn.tensor<[], f32> {nn.loss = "loss", nn.role = "sum"},
//                           !nn.tensor<[], f32> {nn.loss = "loss", nn.role = "count"}) {
//     %s = …
//     %c = …
//     return %s, %c
//
// A weighted sum of several means gives one pair per mean, with nn.term and nn.weight. A
// reduce_mean over rows counts them by nn.dim_values; over a padded dim it is refused, since the
// number of padded positions is a matter of grouping, not of the batch. A count that depends on a
// trainable parameter is refused. max(count, 1) is one of the whole batch's count: nn.floor.
#include "passes/graph_functions.h"
#include "passes/passes.h"

using namespace mlir;

namespace maestro {
namespace {

/// weight · numerator ÷ count; without a count while none has been met. The numerator has the shape
/// of the value that was traced.
struct Term {
  Value numerator;
  Value count;
  double weight = 1.0;
  double floor = 0.0; ///< Of the count.
};
using Terms = llvm::SmallVector<Term>;

/// An ε beside a count: below a tenth of a loss's tolerance (1e-5) where anything counts.
constexpr double kTinyCount = 1e-6;

std::optional<double> constantScalar(Value value) {
  auto type = nn::typeOf(value);
  return nn::productOf(type.getShape()).isConstant(1) ? nn::constantValue(value) : std::nullopt;
}

class LossTracer {
public:
  LossTracer(func::FuncOp function, const DimTable &dims, StringRef loss)
      : builder(function.getBody().front().getTerminator()), dims(dims), loss(loss) {}

  /// The means that `value` is a weighted sum of.
  FailureOr<Terms> trace(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return emitError(value.getLoc()) << "the loss '" << loss << "' is an input of the graph";
    if (auto negated = dyn_cast<nn::NegOp>(op))
      return scaled(trace(negated.getX()), -1.0);
    if (auto sum = dyn_cast<nn::AddOp>(op))
      return added(sum, sum.getLhs(), sum.getRhs(), 1.0);
    if (auto difference = dyn_cast<nn::SubOp>(op))
      return added(difference, difference.getLhs(), difference.getRhs(), -1.0);
    if (auto product = dyn_cast<nn::MulOp>(op))
      return multiplied(product);
    if (auto quotient = dyn_cast<nn::DivOp>(op))
      return divided(quotient, quotient.getLhs(), quotient.getRhs());
    if (auto mean = dyn_cast<nn::ReduceMeanOp>(op))
      return averaged(mean);
    if (isa<nn::ReshapeOp, nn::ReduceSumOp, nn::CastOp>(op) && isLinear(op))
      return carried(op);
    return refuse(op);
  }

private:
  LogicalResult refuse(Operation *op) {
    return op->emitError() << "the loss '" << loss << "' does not decompose over samples: " << describe(op)
                           << " stands between it and a mean over the batch. Return a mean over "
                              "positions (a sum divided by a count), or name the loss in the "
                              "workload's `loss:` instead";
  }

  static bool isLinear(Operation *op) { return isa<FloatType>(nn::typeOf(op->getOperand(0)).getElementType()); }

  FailureOr<Terms> scaled(FailureOr<Terms> terms, double factor) {
    if (succeeded(terms))
      for (Term &term : *terms)
        term.weight *= factor;
    return terms;
  }

  FailureOr<Terms> added(Operation *op, Value lhs, Value rhs, double sign) {
    if (nn::typeOf(lhs) != nn::typeOf(rhs) && !(constantScalar(lhs) || constantScalar(rhs)))
      return refuse(op);
    if (constantScalar(rhs) == 0.0)
      return trace(lhs);
    if (constantScalar(lhs) == 0.0)
      return scaled(trace(rhs), sign);
    FailureOr<Terms> left = trace(lhs);
    FailureOr<Terms> right = failed(left) ? left : scaled(trace(rhs), sign);
    if (failed(right))
      return failure();
    left->append(*right);
    return left;
  }

  FailureOr<Terms> multiplied(nn::MulOp op) {
    if (std::optional<double> factor = constantScalar(op.getRhs()))
      return scaled(trace(op.getLhs()), *factor);
    if (std::optional<double> factor = constantScalar(op.getLhs()))
      return scaled(trace(op.getRhs()), *factor);
    if (auto inverse = op.getRhs().getDefiningOp<nn::ReciprocalOp>())
      return divided(op, op.getLhs(), inverse.getX());
    if (auto inverse = op.getLhs().getDefiningOp<nn::ReciprocalOp>())
      return divided(op, op.getRhs(), inverse.getX());
    return refuse(op);
  }

  /// A division by a constant is a weight, any other one is where a mean divides.
  FailureOr<Terms> divided(Operation *op, Value numerator, Value count) {
    if (std::optional<double> divisor = constantScalar(count))
      return scaled(trace(numerator), 1.0 / *divisor);
    if (!nn::productOf(nn::typeOf(count).getShape()).isConstant(1))
      return refuse(op);
    if (std::optional<ParameterUse> use = dependsOnParameter(count, /*trainableOnly=*/true))
      return op->emitError() << "the loss '" << loss << "' divides by a count that depends on the parameter '"
                             << use->name << "' (" << describe(op)
                             << "): counts are summed over the batch before the first gradient, from "
                                "data alone. Compute the count from inputs of the graph";
    return Terms{quotient(numerator, count)};
  }

  /// sum ÷ max(count, floor): of the whole batch, whose count is the sum of the micro-batches'; max() of theirs is not.
  /// An ε that is added to a count changes nothing that f32 shows.
  Term quotient(Value numerator, Value count) {
    auto cast = count.getDefiningOp<nn::CastOp>();
    Value guarded = cast ? cast.getX() : count;
    Operation *op = guarded.getDefiningOp();
    if (!isa_and_nonnull<nn::MaximumOp, nn::AddOp>(op))
      return {numerator, count};
    for (unsigned guard : {0u, 1u}) {
      std::optional<double> limit = constantScalar(op->getOperand(guard));
      if (!limit || !(*limit > 0) || (isa<nn::AddOp>(op) && *limit > kTinyCount))
        continue;
      guarded = op->getOperand(1 - guard);
      builder.setInsertionPoint(op);
      if (cast)
        guarded = nn::CastOp::create(
            builder, op->getLoc(),
            nn::TensorType::get(op->getContext(), nn::typeOf(guarded).getShape(), nn::typeOf(count).getElementType()),
            guarded);
      return {numerator, guarded, 1.0, *limit};
    }
    return {numerator, count};
  }

  FailureOr<Terms> averaged(nn::ReduceMeanOp op) {
    DimExpr count(1);
    for (int64_t axis : op.getAxes())
      count = count * nn::typeOf(op.getX()).getShape()[axis];
    if (count.isConstant())
      return carried(op);
    if (!dims.isAdditive(count))
      return refuseCount(op, count);
    builder.setInsertionPoint(op);
    Value sum = nn::ReduceSumOp::create(builder, op.getLoc(), op.getX(), op.getAxesAttr(), op.getKeepdimsAttr());
    auto scalar = nn::TensorType::get(op.getContext(), {}, builder.getI64Type());
    Value number = nn::DimValuesOp::create(builder, op.getLoc(), scalar, nn::DimsAttr::get(op.getContext(), {count}));
    return Terms{Term{sum, number, 1.0}};
  }

  LogicalResult refuseCount(nn::ReduceMeanOp op, const DimExpr &count) {
    for (const std::string &symbol : count.symbols())
      if (!dims.sums(symbol))
        return op.emitError() << "the loss '" << loss << "' is a mean over " << count.str() << " positions ("
                              << describe(op) << "), and '" << symbol
                              << "' is padded to the longest sample of a micro-batch: the mean would depend "
                                 "on the grouping. Divide by the number of positions that count (a mask's "
                                 "sum), export with a fixed '"
                              << symbol << "', or name the loss in the workload's `loss:`";
    return op.emitError() << "the loss '" << loss << "' is a mean over " << count.str() << " positions ("
                          << describe(op) << "), which is not a sum over samples";
  }

  /// An operator that commutes with sums over samples: applied to each numerator.
  FailureOr<Terms> carried(Operation *op) {
    FailureOr<Terms> terms = trace(op->getOperand(0));
    if (failed(terms))
      return failure();
    for (Term &term : *terms) {
      if (auto type = nn::typeOf(op->getOperand(0)); nn::typeOf(term.numerator) != type)
        return refuse(op);
      builder.setInsertionPoint(op);
      Operation *copy = builder.clone(*op);
      copy->setOperand(0, term.numerator);
      term.numerator = copy->getResult(0);
      if (!llvm::isa<FloatType>(nn::typeOf(term.numerator).getElementType()))
        return refuse(op);
    }
    return terms;
  }

  OpBuilder builder;
  const DimTable &dims;
  StringRef loss;
};

struct DecomposeLossPass : PassWrapper<DecomposeLossPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DecomposeLossPass)
  StringRef getArgument() const override { return "maestro-decompose-loss"; }
  StringRef getDescription() const override { return "Mean losses become a sum and a count each"; }

  void runOnOperation() override {
    func::FuncOp graph = findFunction(getOperation(), attributes::kGraphFunction);
    FailureOr<DimTable> dims = DimTable::of(getOperation());
    if (!graph || failed(dims) || failed(rewrite(graph, *dims)))
      signalPassFailure();
  }

  LogicalResult rewrite(func::FuncOp graph, const DimTable &dims) {
    std::map<unsigned, LossResult> means;
    for (LossResult &loss : lossResults(graph))
      if (loss.role == "mean")
        means[loss.index] = loss;
    llvm::SmallVector<FunctionResult> results;
    for (auto [i, value] : llvm::enumerate(returnedValues(graph))) {
      auto mean = means.find(i);
      if (mean == means.end())
        results.push_back({value, graph.getResultAttrDict(i)});
      else if (failed(appendTerms(graph, dims, mean->second, value, results)))
        return failure();
    }
    setResults(graph, results);
    eraseDeadOperations(graph);
    return success();
  }

  LogicalResult appendTerms(func::FuncOp graph, const DimTable &dims, const LossResult &loss, Value value,
                            llvm::SmallVectorImpl<FunctionResult> &results) {
    FailureOr<Terms> terms = LossTracer(graph, dims, loss.name).trace(value);
    if (failed(terms))
      return failure();
    for (auto [number, term] : llvm::enumerate(*terms)) {
      LossResult part{0, loss.name, "sum", int64_t(number), loss.weight * term.weight};
      results.push_back({scalar(graph, term.numerator), lossAttributes(&getContext(), part)});
      part.role = "count";
      part.floor = term.floor;
      results.push_back({scalar(graph, term.count), lossAttributes(&getContext(), part)});
    }
    return success();
  }

  /// As `!nn.tensor<[], f32>`.
  Value scalar(func::FuncOp graph, Value value) {
    OpBuilder builder(graph.getBody().front().getTerminator());
    Type f32 = builder.getF32Type();
    nn::TensorType type = nn::typeOf(value);
    if (type.getElementType() != f32)
      value =
          nn::CastOp::create(builder, value.getLoc(), nn::TensorType::get(&getContext(), type.getShape(), f32), value);
    if (!type.getShape().empty())
      value = nn::ReshapeOp::create(builder, value.getLoc(), nn::TensorType::get(&getContext(), {}, f32), value);
    return value;
  }
};

} // namespace

std::unique_ptr<Pass> createDecomposeLossPass() { return std::make_unique<DecomposeLossPass>(); }

} // namespace maestro
