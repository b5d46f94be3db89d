// --maestro-lower-precision=components=m: products in bf16, everything that sums or normalises in f32.
//
//   %y = nn.matmul %x, %w : (!nn.tensor<[batch, 8], f32>, !nn.tensor<[8, 4], f32>) -> !nn.tensor<[batch, 4], f32>
//   %z = nn.relu %y : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[batch, 4], f32>
//   %s = nn.softmax %z {axis = 1 : i64} : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[batch, 4], f32>
//
// becomes, %w being a parameter of the component m,
//
//   %a = nn.cast %x : (!nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], bf16>
//   %b = nn.cast %w : (!nn.tensor<[8, 4], f32>) -> !nn.tensor<[8, 4], bf16>
//   %y = nn.matmul %a, %b : (!nn.tensor<[batch, 8], bf16>, !nn.tensor<[8, 4], bf16>) -> !nn.tensor<[batch, 4], bf16>
//   %z = nn.relu %y : (!nn.tensor<[batch, 4], bf16>) -> !nn.tensor<[batch, 4], bf16>
//   %v = nn.cast %z : (!nn.tensor<[batch, 4], bf16>) -> !nn.tensor<[batch, 4], f32>
//   %s = nn.softmax %v {axis = 1 : i64} : (!nn.tensor<[batch, 4], f32>) -> !nn.tensor<[batch, 4], f32>
//
// Which products: those that read a weight of a bf16 component; those without weights of their own (attention), where
// all weights they follow from are bf16 components'. A product of positions and buffers, or over one element (the
// angles of rotary embeddings), is no product of activations: it stays.
//
// What follows a product stays in bf16 for as long as it meets nothing but bf16: data movement, and elementwise
// operators that round once, as their kernels compute in f32. The residual stream, sums, norms, softmax and losses are
// f32; cross_entropy and kl_divergence read bf16 logits as they are, since they compute in f32 whatever they read.
// Parameters stay f32: gradients pass through the casts, and a weight's gradient is never rounded (ir/nn/gradients.h).
// But those of a component that is frozen as a whole (`frozen=t`) are held in bf16 where nothing else is read of them:
// two bytes instead of six.
#include "passes/graph_functions.h"
#include "passes/passes.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace maestro {
namespace {

bool isF32(Value value) { return nn::typeOf(value).getElementType().isF32(); }

/// What a value was widened from, or null.
Value widenedFrom(Value value) {
  auto cast = value.getDefiningOp<nn::CastOp>();
  return cast && isF32(value) && nn::typeOf(cast.getX()).getElementType().isBF16() ? cast.getX() : Value();
}

bool isProduct(Operation *op) { return isa<nn::MatmulOp, nn::ConvOp, nn::ConvGradInputOp, nn::AttentionOp>(op); }

/// a·bᵀ over one element is an elementwise product in disguise.
bool isOuterProduct(Operation *op) {
  auto matmul = dyn_cast<nn::MatmulOp>(op);
  if (!matmul)
    return false;
  ArrayRef<DimExpr> shape = nn::typeOf(matmul.getA()).getShape();
  return shape[shape.size() - (matmul.getTransposeA() ? 2 : 1)].isConstant(1);
}

/// Operators that may compute on bf16 when all they read is bf16.
bool mayFollow(Operation *op) { return op->hasTrait<nn::MovesData>() || op->hasTrait<nn::RoundsOnce>(); }

/// A constant that bf16 holds exactly.
bool isExactInBFloat16(Value value) {
  std::optional<double> number = nn::constantValue(value);
  if (!number)
    return false;
  bool inexact = false;
  llvm::APFloat(*number).convert(llvm::APFloat::BFloat(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  return !inexact;
}

/// The precision that the weights behind a value ask for.
enum class Asked : uint8_t { Nothing, BF16, F32 };
Asked join(Asked a, Asked b) { return std::max(a, b); }

class PrecisionLowering {
public:
  PrecisionLowering(func::FuncOp function, const llvm::StringSet<> &components, const llvm::StringSet<> &frozen)
      : function(function), components(components), frozen(frozen), builder(function.getContext()) {}

  void run() {
    SmallVector<Operation *> operations;
    for (Operation &op : function.getBody().front().without_terminator())
      operations.push_back(&op);
    for (Operation *op : operations) {
      Asked precision = askedOf(op);
      for (Value result : op->getResults())
        asked[result] = precision;
      if (isProduct(op) && precision == Asked::BF16 && !isOuterProduct(op) && isF32(op->getOperand(0)))
        lower(op, floatOperands(op));
      else if (mayFollow(op) && meetsOnlyBFloat16(op))
        lower(op, floatOperands(op));
      else if (isa<nn::CrossEntropyOp, nn::KlDivergenceOp>(op))
        readAsTheyAre(op);
    }
    for (Operation &op : function.getBody().front())
      if (isa<nn::LayerNormOp, nn::RmsNormOp>(op))
        writeNarrow(&op);
    eraseDeadOperations(function);
    for (BlockArgument argument : function.getArguments())
      if (isOnlyReadNarrow(argument))
        holdNarrow(argument);
  }

private:
  /// A norm whose result is read in bf16 alone writes it so.
  void writeNarrow(Operation *norm) {
    Value y = norm->getResult(0);
    auto narrows = [](Operation *user) {
      return isa<nn::CastOp>(user) && nn::typeOf(user->getResult(0)).getElementType().isBF16();
    };
    if (!isF32(y) || y.use_empty() || !llvm::all_of(y.getUsers(), narrows))
      return;
    norm->setAttr("bf16_result", builder.getBoolAttr(true));
    y.setType(narrowType(y.getType()));
    for (Operation *cast : llvm::make_early_inc_range(y.getUsers())) {
      cast->replaceAllUsesWith(ValueRange{y});
      cast->erase();
    }
  }

  bool isOnlyReadNarrow(BlockArgument argument) const {
    auto component = argumentText(function, argument.getArgNumber(), attributes::kParameter).split('/').first;
    return frozen.contains(component) && isF32(argument) && !argument.use_empty() &&
           llvm::all_of(argument.getUsers(), [](Operation *user) {
             return isa<nn::CastOp>(user) && nn::typeOf(user->getResult(0)).getElementType().isBF16();
           });
  }

  void holdNarrow(BlockArgument argument) {
    argument.setType(narrowType(argument.getType()));
    for (Operation *cast : llvm::make_early_inc_range(argument.getUsers())) {
      cast->replaceAllUsesWith(ValueRange{argument});
      cast->erase();
    }
    llvm::SmallVector<Type> inputs(function.getArgumentTypes());
    inputs[argument.getArgNumber()] = argument.getType();
    function.setType(FunctionType::get(function.getContext(), inputs, function.getResultTypes()));
  }

  /// A parameter's own component; buffers and data ask for nothing.
  Asked askedOf(BlockArgument argument) const {
    unsigned number = argument.getArgNumber();
    auto [component, name] = argumentText(function, number, attributes::kParameter).split('/');
    StringRef kind = argumentText(function, number, "nn.kind");
    if (component.empty() || (!kind.empty() && kind != "parameter"))
      return Asked::Nothing;
    return components.contains(component) ? Asked::BF16 : Asked::F32;
  }

  /// The weights that an operator reads decide; without any, those that its operands follow from.
  Asked askedOf(Operation *op) {
    Asked own = Asked::Nothing, inherited = Asked::Nothing;
    for (Value operand : op->getOperands()) {
      if (BlockArgument argument = nn::argumentBehind(operand))
        own = join(own, askedOf(argument));
      else
        inherited = join(inherited, asked.lookup(operand));
    }
    return own != Asked::Nothing ? own : inherited;
  }

  /// Indices of the operands that change type. Masks, tables of rotary embeddings and states stay as they are.
  static SmallVector<unsigned> floatOperands(Operation *op) {
    SmallVector<unsigned> indices;
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      bool stays = (isa<nn::RopeOp>(op) && i > 0) || (isa<nn::AttentionOp>(op) && i > 2);
      if (!stays && isF32(op->getOperand(i)))
        indices.push_back(i);
    }
    return indices;
  }

  static bool meetsOnlyBFloat16(Operation *op) {
    SmallVector<unsigned> indices = floatOperands(op);
    auto isNarrow = [&](unsigned i) { return bool(widenedFrom(op->getOperand(i))); };
    return isF32(op->getResult(0)) && llvm::any_of(indices, isNarrow) &&
           llvm::all_of(indices, [&](unsigned i) { return isNarrow(i) || isExactInBFloat16(op->getOperand(i)); });
  }

  Type narrowType(Type type) {
    auto tensor = cast<nn::TensorType>(type);
    return nn::TensorType::get(builder.getContext(), tensor.getShape(), builder.getBF16Type());
  }

  /// `value` in bf16, made where `value` is made, once. A parameter is converted before it changes layout: that copy
  /// is kept between steps.
  Value narrow(Value value) {
    if (Value source = widenedFrom(value))
      return source;
    if (Value known = narrowed.lookup(value))
      return known;
    Operation *producer = value.getDefiningOp();
    bool moved = isa_and_nonnull<nn::ReshapeOp, nn::TransposeOp>(producer) && nn::argumentBehind(value);
    Value operand = moved ? narrow(producer->getOperand(0)) : Value();
    builder.setInsertionPointAfterValue(value);
    Value result;
    if (moved || isa_and_nonnull<nn::FillOp>(producer)) {
      Operation *copy = builder.clone(*producer);
      if (moved)
        copy->setOperand(0, operand);
      result = copy->getResult(0);
      result.setType(narrowType(value.getType()));
    } else {
      result = nn::CastOp::create(builder, value.getLoc(), narrowType(value.getType()), value);
    }
    return narrowed[value] = result;
  }

  /// The first result of `op` becomes bf16, from operands in bf16; its readers see it widened.
  void lower(Operation *op, ArrayRef<unsigned> operands) {
    for (unsigned i : operands)
      op->setOperand(i, narrow(op->getOperand(i)));
    Value result = op->getResult(0);
    Type wide = result.getType();
    result.setType(narrowType(wide));
    builder.setInsertionPointAfter(op);
    Value widened = nn::CastOp::create(builder, op->getLoc(), wide, result);
    result.replaceAllUsesExcept(widened, widened.getDefiningOp());
    asked[widened] = asked.lookup(result);
  }

  /// Losses read logits of either type; both operands of a divergence must be alike for its fast kernel.
  static void readAsTheyAre(Operation *op) {
    unsigned count = isa<nn::KlDivergenceOp>(op) ? 2 : 1;
    for (unsigned i = 0; i < count; ++i)
      if (!widenedFrom(op->getOperand(i)))
        return;
    for (unsigned i = 0; i < count; ++i)
      op->setOperand(i, widenedFrom(op->getOperand(i)));
  }

  func::FuncOp function;
  const llvm::StringSet<> &components, &frozen;
  OpBuilder builder;
  llvm::DenseMap<Value, Asked> asked;
  llvm::DenseMap<Value, Value> narrowed;
};

struct LowerPrecisionPass : PassWrapper<LowerPrecisionPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerPrecisionPass)
  LowerPrecisionPass() = default;
  LowerPrecisionPass(const LowerPrecisionPass &other) : PassWrapper(other) {}
  LowerPrecisionPass(ArrayRef<std::string> names, ArrayRef<std::string> frozenNames) {
    components = names;
    frozen = frozenNames;
  }
  StringRef getArgument() const override { return "maestro-lower-precision"; }
  StringRef getDescription() const override { return "Products of some components in bf16"; }

  void runOnOperation() override {
    func::FuncOp graph = findFunction(getOperation(), attributes::kGraphFunction);
    if (!graph)
      return signalPassFailure();
    llvm::StringSet<> names, frozenNames;
    names.insert_range(components);
    frozenNames.insert_range(frozen);
    PrecisionLowering(graph, names, frozenNames).run();
  }

  ListOption<std::string> components{*this, "components", llvm::cl::desc("Components whose products are bf16")};
  ListOption<std::string> frozen{*this, "frozen", llvm::cl::desc("Of these, those that are frozen as a whole")};
};

} // namespace

std::unique_ptr<Pass> createLowerPrecisionPass(ArrayRef<std::string> components, ArrayRef<std::string> frozen) {
  return std::make_unique<LowerPrecisionPass>(components, frozen);
}

} // namespace maestro
