// See differentiation.h.
#include "passes/differentiation.h"

#include "ir/nn/gradients.h"
#include "passes/graph_functions.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace maestro {
namespace {

bool isFloat(Value value) {
  auto type = dyn_cast<nn::TensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

/// Step functions, whose derivative is zero wherever it exists, and what was detached.
bool isPiecewiseConstant(Operation *op) {
  return isa<nn::FloorOp, nn::CeilOp, nn::RoundOp, nn::SignOp, nn::DetachOp>(op);
}

class Differentiator {
public:
  Differentiator(OpBuilder &builder, Block &block) : builder(builder), block(block) {}

  /// Values that depend on a wanted one in a way that a gradient can follow.
  void markActive(ValueRange wanted) {
    for (Value value : wanted)
      active.insert(value);
    for (Operation &op : block) {
      if (isPiecewiseConstant(&op) ||
          llvm::none_of(op.getOperands(), [&](Value operand) { return active.contains(operand); }))
        continue;
      for (Value result : op.getResults())
        if (isFloat(result))
          active.insert(result);
    }
  }

  void add(Value value, Value gradient) {
    if (gradient && active.contains(value))
      contributions[value].push_back(gradient);
  }

  /// Passes the gradients of an operation's results on to its operands.
  LogicalResult visit(Operation *op) {
    bool reached = llvm::any_of(op->getResults(), [&](Value result) { return contributions.count(result); });
    if (!reached)
      return success();
    llvm::SmallVector<bool> needed;
    for (Value operand : op->getOperands())
      needed.push_back(active.contains(operand));
    if (llvm::none_of(needed, [](bool need) { return need; }))
      return success();
    auto differentiable = dyn_cast<nn::DifferentiableOpInterface>(op);
    if (!differentiable)
      return op->emitError() << describe(op) << " has no gradient, and a trainable parameter's gradient would "
                             << "have to pass through it. Freeze what comes before, or express it otherwise";
    llvm::SmallVector<Value> resultGradients, operandGradients;
    for (Value result : op->getResults())
      resultGradients.push_back(total(result));
    if (failed(differentiable.buildGradient(builder, resultGradients, needed, operandGradients)))
      return failure();
    for (auto [operand, gradient] : llvm::zip_equal(op->getOperands(), operandGradients))
      add(operand, gradient);
    return success();
  }

  /// The sum of what arrived at `value`, or null.
  Value total(Value value) {
    auto found = contributions.find(value);
    if (found == contributions.end())
      return Value();
    llvm::SmallVector<Value> &parts = found->second;
    if (parts.size() > 1) {
      Value joined = joinSlices(value, parts);
      parts.assign(1, joined ? joined : sum(value, parts));
    }
    return parts.front();
  }

private:
  /// In f32 when one part of a parameter's gradient is: a tied weight's are not rounded before they
  /// meet.
  Value sum(Value value, llvm::ArrayRef<Value> parts) {
    nn::GradientBuilder b(value.getLoc(), builder);
    llvm::SmallVector<Value> exact;
    bool wide = false;
    for (Value part : parts) {
      exact.push_back(nn::argumentBehind(value) ? nn::beforeRounding(part) : part);
      wide |= exact.back() != part;
    }
    Value result = wide ? b.widened(exact.front()) : parts.front();
    for (size_t i = 1; i < parts.size(); ++i)
      result = b.emit<nn::AddOp>(result, wide ? b.widened(exact[i]) : parts[i]);
    return b.cast(result, nn::typeOf(value).getElementType());
  }

  /// Gradients of adjacent slices that together cover `value` (the three parts of a qkv projection)
  /// are concatenated, which is cheaper than to add tensors that are mostly zero. Null when they do
  /// not.
  Value joinSlices(Value value, llvm::ArrayRef<Value> parts) {
    llvm::SmallVector<nn::SliceGradOp> slices;
    for (Value part : parts) {
      auto slice = part.getDefiningOp<nn::SliceGradOp>();
      if (!slice || llvm::any_of(slice.getSteps(), [](int64_t step) { return step != 1; }))
        return Value();
      slices.push_back(slice);
    }
    llvm::ArrayRef<DimExpr> whole = nn::typeOf(value).getShape();
    for (size_t axis = 0; axis < whole.size(); ++axis)
      if (llvm::SmallVector<Value> ordered = chain(slices, whole, axis); !ordered.empty()) {
        nn::GradientBuilder b(value.getLoc(), builder);
        return b.emit<nn::ConcatOp>(ordered, axis);
      }
    return Value();
  }

  /// The slices' operands in order along `axis`, when each begins where the one before ends, the
  /// last ends with the tensor, and all other dims are whole.
  static llvm::SmallVector<Value> chain(llvm::ArrayRef<nn::SliceGradOp> slices, llvm::ArrayRef<DimExpr> whole,
                                        size_t axis) {
    llvm::SmallVector<Value> ordered;
    DimExpr position(0);
    while (ordered.size() < slices.size()) {
      auto next = llvm::find_if(slices, [&](nn::SliceGradOp slice) {
        return slice.getOffsets().getValues()[axis] == position && isWholeBut(slice, whole, axis) &&
               !llvm::is_contained(ordered, slice.getDy());
      });
      if (next == slices.end())
        return {};
      ordered.push_back(nn::SliceGradOp(*next).getDy());
      position = position + nn::typeOf(ordered.back()).getShape()[axis];
    }
    return position == whole[axis] ? ordered : llvm::SmallVector<Value>();
  }

  static bool isWholeBut(nn::SliceGradOp slice, llvm::ArrayRef<DimExpr> whole, size_t axis) {
    for (size_t i = 0; i < whole.size(); ++i)
      if (i != axis && nn::typeOf(slice.getDy()).getShape()[i] != whole[i])
        return false;
    return true;
  }

  OpBuilder &builder;
  Block &block;
  llvm::DenseSet<Value> active;
  llvm::DenseMap<Value, llvm::SmallVector<Value>> contributions;
};

} // namespace

FailureOr<llvm::SmallVector<Value>> differentiate(OpBuilder &builder, Block &block, ValueRange wanted,
                                                  llvm::ArrayRef<IncomingGradient> incoming) {
  Differentiator differentiator(builder, block);
  differentiator.markActive(wanted);
  for (const IncomingGradient &seed : incoming)
    differentiator.add(seed.value, seed.gradient);
  llvm::SmallVector<Operation *> forward;
  for (Operation &op : block.without_terminator())
    forward.push_back(&op);
  for (Operation *op : llvm::reverse(forward))
    if (failed(differentiator.visit(op)))
      return failure();
  llvm::SmallVector<Value> gradients;
  for (Value value : wanted)
    gradients.push_back(differentiator.total(value));
  return gradients;
}

} // namespace maestro
