// --maestro-shard: the states of tensors over the mesh axes, and the collectives that follow from them.
//
// Axis "data": each parameter's gradient in @step says what it is over replicas,
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

constexpr llvm::StringLiteral kAxis = "tensor";

class TensorSharder {
public:
  TensorSharder(func::FuncOp step, const TensorBlocks &blocks, int64_t count)
      : step(step), blocks(blocks), count(count), builder(step.getContext()) {}

  LogicalResult run() {
    do
      analyse();
    while (takeBiasesOut());
    shrinkArguments();
    for (Operation &op : llvm::make_early_inc_range(step.getBody().front().without_terminator()))
      if (failed(rewrite(&op)))
        return failure();
    return rewriteReturn();
  }

private:
  Block &body() { return step.getBody().front(); }

  std::optional<unsigned> splitOf(StringRef parameter) const {
    auto found = blocks.splitDims.find(parameter.str());
    return found == blocks.splitDims.end() ? std::nullopt : std::optional(found->second);
  }

  void analyse() {
    states.clear();
    operators.clear();
    for (BlockArgument argument : step.getArguments())
      if (auto dim = splitOf(argumentText(step, argument.getArgNumber(), attributes::kParameter)))
        states[argument] = ShardState::split(*dim);
    for (Operation &op : body().without_terminator()) {
      llvm::SmallVector<ShardState> operands;
      for (Value operand : op.getOperands())
        operands.push_back(states.lookup(operand));
      ShardedOperator sharded = shardOperator(&op, ready(operands));
      for (auto [result, state] : llvm::zip_equal(op.getResults(), sharded.results))
        states[result] = state;
      operators[&op] = std::move(sharded);
    }
  }

  /// A sum that is put off must not become more to add up: it passes where all operands are partial (additions, views,
  /// casts) and is made before everything else, also where the operator is linear in it.
  static llvm::SmallVector<ShardState> ready(llvm::SmallVector<ShardState> operands) {
    ShardState partial = ShardState::partial();
    if (!llvm::all_of(operands, [&](ShardState state) { return state == partial; }))
      std::replace(operands.begin(), operands.end(), partial, ShardState());
    return operands;
  }

  /// a · b + bias, where the summed dim is split, would add the bias on every device. Whether any was found.
  bool takeBiasesOut() {
    llvm::SmallVector<nn::MatmulOp> found;
    for (Operation &op : body().without_terminator())
      if (auto product = dyn_cast<nn::MatmulOp>(op); product && product.getBias()) {
        ShardState a = states.lookup(product.getA());
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
    if (state.kind != ShardState::Split)
      return type;
    llvm::SmallVector<DimExpr> shape(type.getShape());
    shape[state.dim] = *shape[state.dim].exactQuotient(count); // Its divisibility was asked before.
    return type.withShape(shape);
  }

  void shrinkArguments() {
    for (BlockArgument argument : step.getArguments()) {
      ShardState state = states.lookup(argument);
      if (state.kind != ShardState::Split)
        continue;
      argument.setType(localType(argument, state));
      step.setArgAttr(argument.getArgNumber(), attributes::kSplit, builder.getI64IntegerAttr(state.dim));
    }
  }

  LogicalResult rewrite(Operation *op) {
    const ShardedOperator &sharded = operators[op];
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
      return op->emitError() << describe(op) << " cannot be split in " << count << " along the axis '" << kAxis << "'";
    return success();
  }

  bool isDivisible(Value value, ShardState state) {
    return state.kind != ShardState::Split || nn::typeOf(value).getShape()[state.dim].exactQuotient(count);
  }

  LogicalResult refuse(Operation *op, Value value, ShardState state) {
    return op->emitError() << describe(op) << " cannot be split in " << count << " along the axis '" << kAxis
                           << "': dim " << state.dim << " of " << value.getType();
  }

  /// The value in another state: a collective right behind it, once. Null where it cannot be cut so.
  Value converted(Value value, ShardState wanted) {
    ShardState state = states.lookup(value);
    if (state == wanted)
      return value;
    Value &known = conversions[{value.getAsOpaquePointer(), unsigned(wanted.kind), wanted.dim}];
    if (known)
      return known;
    if (!isDivisible(value, wanted))
      return Value();
    Value whole = value;
    builder.setInsertionPointAfterValue(value);
    if (state.kind == ShardState::Partial)
      whole = allReduce(value);
    else if (state.kind == ShardState::Split)
      whole = nn::AllGatherOp::create(builder, value.getLoc(), value, kAxis, state.dim, count);
    if (wanted.kind == ShardState::Split)
      whole = nn::OwnPartOp::create(builder, value.getLoc(), whole, kAxis, wanted.dim, count);
    return known = whole;
  }

  /// Parts are added in f32 whatever they are computed in.
  Value allReduce(Value value) {
    nn::TensorType type = nn::typeOf(value), wide = type.withElementType(builder.getF32Type());
    Value sum = type == wide ? value : nn::CastOp::create(builder, value.getLoc(), wide, value);
    sum = nn::AllReduceOp::create(builder, value.getLoc(), sum, kAxis);
    return type == wide ? sum : nn::CastOp::create(builder, value.getLoc(), type, sum);
  }

  LogicalResult rewriteReturn() {
    Operation *end = body().getTerminator();
    llvm::SmallVector<Type> results;
    for (OpOperand &operand : end->getOpOperands()) {
      auto dim = splitOf(resultText(step, operand.getOperandNumber(), attributes::kGradient));
      Value value = converted(operand.get(), dim ? ShardState::split(*dim) : ShardState());
      if (!value)
        return refuse(end, operand.get(), ShardState::split(*dim));
      operand.set(value);
      results.push_back(operand.get().getType());
    }
    step.setType(builder.getFunctionType(body().getArgumentTypes(), results));
    return success();
  }

  func::FuncOp step;
  const TensorBlocks &blocks;
  int64_t count;
  OpBuilder builder;
  llvm::DenseMap<Value, ShardState> states;
  llvm::DenseMap<Operation *, ShardedOperator> operators;
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
    if (failed(TensorSharder(step, blocks, tensor.getInt()).run()))
      signalPassFailure();
  }

  /// What each gradient is over replicas; where the rules do not say, the operator that is to blame.
  void nameDataStates(func::FuncOp step, const DimTable &dims) {
    DataStates states(step, dims);
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
