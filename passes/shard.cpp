// --maestro-shard: the states of tensors over the mesh axes, and the collectives that follow from them.
//
// Axis "data": each parameter's gradient in @step says what it is over replicas, or behind which operator that is
// unknown,
//
//   -> (… {nn.gradient = "m/w", nn.over_data = "partial"})
//
// so that whoever lays out replicas adds up what is partial, and nobody needs a rule for gradients.
//
// Axis "tensor", where the module has nn.tensor = 2: parameters of MLP blocks (tensor_blocks.h) are split, the states
// of all other values of @step follow from the factor rules (sharding.h), and where a state does not fit, a collective
// changes it. @step is then what each of the 2 devices runs, on local shapes:
//
//   %h = nn.matmul %x, %w : [b, 64] · [64, 128]            w: [64, 256], nn.split = 1
//   %g = nn.gelu %h
//   %p = nn.matmul %g, %u : [b, 128] · [128, 64]           u: [256, 64], nn.split = 0
//   %y = nn.all_reduce %p {axis = "tensor"}
//
// Results are whole on every device but split parameters' gradients, which lie as their parameters do. A product with a
// bias whose sum is split gives the bias up to an addition behind the all-reduce. @graph stays whole: counts come from
// data alone.
#include "passes/passes.h"
#include "passes/sharding.h"
#include "passes/tensor_blocks.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace maestro {
namespace {

/// An axis over which parameters are split on purpose.
class ParameterAxis : public Axis {
public:
  ParameterAxis(func::FuncOp step, StringRef name, int64_t count, const std::map<std::string, unsigned> &splitDims)
      : name(name), count(count), step(step), splitDims(splitDims) {}

  StringRef name;
  int64_t count; ///< Of devices.

  ShardState stateOf(StringRef parameter) const {
    auto found = splitDims.find(parameter.str());
    return found == splitDims.end() ? ShardState() : ShardState::split(found->second);
  }

  ShardState seed(BlockArgument argument) const override {
    return stateOf(argumentText(step, argument.getArgNumber(), attributes::kParameter));
  }

  /// A sum that is put off must not become more to add up: it passes where all operands are partial (additions, views,
  /// casts) and is made before everything else, also where the operator is linear in it.
  ShardedOperator visit(Operation *op, llvm::ArrayRef<ShardState> states) const override {
    llvm::SmallVector<ShardState> ready(states);
    if (!llvm::all_of(ready, [](ShardState state) { return state.isPartial(); }))
      llvm::replace(ready, ShardState::partial(), ShardState());
    return shardOperator(op, ready);
  }

private:
  func::FuncOp step;
  const std::map<std::string, unsigned> &splitDims;
};

/// Makes @step what each device of an axis runs: local shapes, and collectives where states do not fit.
class Sharder {
public:
  Sharder(func::FuncOp step, const ParameterAxis &axis)
      : step(step), axis(axis), states(body(), axis), builder(step.getContext()) {}

  LogicalResult run() {
    while (takeBiasesOut())
      states = AxisStates(body(), axis);
    shrinkArguments();
    for (Operation &op : llvm::make_early_inc_range(body().without_terminator()))
      if (failed(rewrite(&op)))
        return failure();
    return rewriteReturn();
  }

private:
  Block &body() { return step.getBody().front(); }

  /// a · b + bias, where the summed dim is split, would add the bias on every device. Whether any was found.
  bool takeBiasesOut() {
    llvm::SmallVector<nn::MatmulOp> found;
    for (Operation &op : body().without_terminator())
      if (auto product = dyn_cast<nn::MatmulOp>(op); product && product.getBias()) {
        ShardState a = states.of(product.getA());
        unsigned rank = nn::typeOf(product.getA()).getShape().size();
        if (a == ShardState::split(product.getTransposeA() ? rank - 2 : rank - 1))
          found.push_back(product);
      }
    for (nn::MatmulOp product : found) {
      builder.setInsertionPoint(product);
      auto bare =
          nn::MatmulOp::create(builder, product.getLoc(), product.getResult().getType(), product.getA(), product.getB(),
                               Value(), product.getTransposeA(), product.getTransposeB(), product.getF32Result());
      Value sum = nn::AddOp::create(builder, product.getLoc(), product.getResult().getType(), bare.getResult(),
                                    product.getBias());
      product.replaceAllUsesWith(sum);
      product.erase();
    }
    return !found.empty();
  }

  nn::TensorType localType(Value value, ShardState state) {
    nn::TensorType type = nn::typeOf(value);
    if (!state.isSplit())
      return type;
    llvm::SmallVector<DimExpr> shape(type.getShape());
    shape[state.dim] = *shape[state.dim].exactQuotient(axis.count); // Its divisibility was asked before.
    return type.withShape(shape);
  }

  void shrinkArguments() {
    for (BlockArgument argument : step.getArguments()) {
      ShardState state = states.of(argument);
      if (!state.isSplit())
        continue;
      argument.setType(localType(argument, state));
      step.setArgAttr(argument.getArgNumber(), attributes::kSplit, builder.getI64IntegerAttr(state.dim));
    }
  }

  LogicalResult rewrite(Operation *op) {
    const ShardedOperator &sharded = states.at(op);
    for (auto [i, state] : llvm::enumerate(sharded.operands)) {
      Value operand = converted(op->getOperand(i), state);
      if (!operand)
        return refuse(op, op->getOperand(i), state);
      op->setOperand(i, operand);
    }
    bool changes = false;
    for (auto [result, state] : llvm::zip_equal(op->getResults(), sharded.results)) {
      if (!isDivisible(result, state))
        return refuse(op, result, state);
      nn::TensorType local = localType(result, state);
      changes |= local != result.getType();
      result.setType(local);
    }
    if (changes && failed(mlir::verify(op)))
      return op->emitError() << describe(op) << " cannot be split in " << axis.count << " along the axis '" << axis.name
                             << "'";
    return success();
  }

  bool isDivisible(Value value, ShardState state) {
    return !state.isSplit() || nn::typeOf(value).getShape()[state.dim].exactQuotient(axis.count);
  }

  LogicalResult refuse(Operation *op, Value value, ShardState state) {
    return op->emitError() << describe(op) << " cannot be split in " << axis.count << " along the axis '" << axis.name
                           << "': dim " << state.dim << " of " << value.getType();
  }

  /// The value in another state: a collective right behind it, once. Null where it cannot be cut so.
  Value converted(Value value, ShardState wanted) {
    ShardState state = states.of(value);
    if (state == wanted)
      return value;
    Value &known = conversions[{value.getAsOpaquePointer(), unsigned(wanted.kind), wanted.dim}];
    if (known)
      return known;
    if (!isDivisible(value, wanted))
      return Value();
    Value whole = value;
    builder.setInsertionPointAfterValue(value);
    if (state.isPartial())
      whole = allReduce(value);
    else if (state.isSplit())
      whole = nn::AllGatherOp::create(builder, value.getLoc(), value, axis.name, state.dim, axis.count);
    if (wanted.isSplit())
      whole = nn::OwnPartOp::create(builder, value.getLoc(), whole, axis.name, wanted.dim, axis.count);
    return known = whole;
  }

  /// Parts are added in f32 whatever they are computed in.
  Value allReduce(Value value) {
    nn::TensorType type = nn::typeOf(value), wide = type.withElementType(builder.getF32Type());
    Value sum = type == wide ? value : nn::CastOp::create(builder, value.getLoc(), wide, value);
    sum = nn::AllReduceOp::create(builder, value.getLoc(), sum, axis.name);
    return type == wide ? sum : nn::CastOp::create(builder, value.getLoc(), type, sum);
  }

  LogicalResult rewriteReturn() {
    Operation *end = body().getTerminator();
    llvm::SmallVector<Type> results;
    for (OpOperand &operand : end->getOpOperands()) {
      ShardState wanted = axis.stateOf(resultText(step, operand.getOperandNumber(), attributes::kGradient));
      Value value = converted(operand.get(), wanted);
      if (!value)
        return refuse(end, operand.get(), wanted);
      operand.set(value);
      results.push_back(operand.get().getType());
    }
    step.setType(builder.getFunctionType(body().getArgumentTypes(), results));
    return success();
  }

  func::FuncOp step;
  const ParameterAxis &axis;
  AxisStates states;
  OpBuilder builder;
  std::map<std::tuple<void *, unsigned, unsigned>, Value> conversions;
};

struct ShardPass : PassWrapper<ShardPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ShardPass)
  StringRef getArgument() const override { return "maestro-shard"; }
  StringRef getDescription() const override {
    return "States of tensors over mesh axes, and collectives where they change";
  }

  void runOnOperation() override {
    func::FuncOp graph = findFunction(getOperation(), attributes::kGraphFunction);
    func::FuncOp step = findFunction(getOperation(), attributes::kStepFunction);
    FailureOr<DimTable> dims = DimTable::of(getOperation());
    if (!graph || !step || failed(dims))
      return signalPassFailure();
    nameDataStates(step, *dims);
    auto tensor = getOperation()->getAttrOfType<IntegerAttr>(attributes::kTensor);
    if (!tensor || tensor.getInt() < 2)
      return;
    TensorBlocks blocks = findTensorBlocks(graph, tensor.getInt());
    if (!blocks.indivisible.empty())
      getOperation()->setAttr(attributes::kIndivisible, DenseI64ArrayAttr::get(&getContext(), blocks.indivisible));
    ParameterAxis axis(step, "tensor", tensor.getInt(), blocks.splitDims);
    if (failed(Sharder(step, axis).run()))
      signalPassFailure();
  }

  /// What each gradient is over replicas; where the rules do not say, the operator that is to blame.
  void nameDataStates(func::FuncOp step, const DimTable &dims) {
    AxisStates states(step.getBody().front(), DataAxis(dims));
    Builder builder(&getContext());
    for (unsigned i = 0; i < step.getNumResults(); ++i) {
      if (!step.getResultAttr(i, attributes::kGradient))
        continue;
      Value gradient = returnedValues(step)[i];
      Operation *lost = states.unknownSince(gradient);
      step.setResultAttr(i, attributes::kOverData,
                         builder.getStringAttr(lost ? "unknown behind " + describe(lost) : states.of(gradient).str()));
    }
  }
};

} // namespace

std::unique_ptr<Pass> createShardPass() { return std::make_unique<ShardPass>(); }

} // namespace maestro
