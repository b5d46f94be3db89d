#include "passes/loss_regions.h"

#include <algorithm>

using namespace mlir;

namespace maestro {
namespace {

/// So many leading dims of the shape are the rows, and the others are fixed; nothing where that is not so.
std::optional<unsigned> rowRank(ArrayRef<DimExpr> shape, const DimExpr &rows) {
  DimExpr product = 1;
  for (unsigned rank = 0; rank < shape.size(); ++rank) {
    product = product * shape[rank];
    if (product == rows)
      return llvm::all_of(shape.drop_front(rank + 1), [](const DimExpr &dim) { return dim.isConstant(); })
                 ? std::optional(rank + 1)
                 : std::nullopt;
  }
  return std::nullopt;
}

} // namespace

std::optional<unsigned> rowRank(Value value, const DimExpr &rows) {
  return rowRank(nn::typeOf(value).getShape(), rows);
}

namespace {

/// Elements of a row; 0 of what has no rows.
int64_t rowWidth(Value value, const DimExpr &rows) {
  std::optional<unsigned> rank = rowRank(value, rows);
  return rank ? nn::productOf(nn::typeOf(value).getShape().drop_front(*rank)).asConstant().value_or(0) : 0;
}

/// Operators that are the same on a matrix of rows as on rows in several dims, but for the numbers of their axes.
bool mayFlatten(Operation *op) {
  return op->hasTrait<nn::Elementwise>() ||
         isa<nn::MatmulOp, nn::ReshapeOp, nn::BroadcastToOp, nn::SoftmaxOp, nn::SoftmaxGradOp, nn::LogSoftmaxOp,
             nn::LogSoftmaxGradOp, nn::ReduceSumOp, nn::ReduceMeanOp, nn::ReduceMaxOp, nn::ReduceMinOp,
             nn::GatherElementsOp, nn::ScatterElementsOp, nn::FillOp, nn::CrossEntropyOp, nn::CrossEntropyGradOp,
             nn::KlDivergenceOp, nn::KlDivergenceGradOp>(op);
}

} // namespace

RowRole roleOf(Operation *op, const DimExpr &rows) {
  auto shardable = dyn_cast<nn::ShardableOpInterface>(op);
  if (!shardable || !mayFlatten(op))
    return RowRole::None;
  nn::FactorRule rule = shardable.getFactorRule();
  auto leadingFactors = [&](Value value, const nn::TensorFactors &tensor) {
    llvm::SmallVector<unsigned> factors;
    if (std::optional<unsigned> rank = rowRank(value, rows))
      for (const nn::DimFactors &dim : ArrayRef(tensor).take_front(*rank))
        factors.append(dim.begin(), dim.end());
    return factors;
  };
  llvm::SmallVector<std::pair<Value, const nn::TensorFactors *>> tensors;
  for (auto [result, factors] : llvm::zip_equal(op->getResults(), rule.resultDims))
    tensors.push_back({result, &factors});
  for (auto [operand, factors] : llvm::zip_equal(op->getOperands(), rule.operandDims))
    tensors.push_back({operand, &factors});
  llvm::SmallVector<unsigned> own;
  for (auto [value, factors] : tensors)
    if (own.empty())
      own = leadingFactors(value, *factors);
  if (own.empty())
    return RowRole::None;
  size_t withRows = 0;
  for (auto [number, tensor] : llvm::enumerate(tensors)) {
    auto [value, factors] = tensor;
    if (leadingFactors(value, *factors) == own)
      withRows += number < op->getNumResults();
    else if (llvm::any_of(*factors, [&](const nn::DimFactors &dim) {
               return llvm::any_of(dim, [&](unsigned factor) { return llvm::is_contained(own, factor); });
             }))
      return RowRole::None;
  }
  auto areAll = [&](nn::FactorKind kind) {
    return llvm::all_of(own, [&](unsigned factor) { return rule.factors[factor].kind == kind; });
  };
  if (areAll(nn::FactorKind::Parallel) && withRows == op->getNumResults())
    return RowRole::Keeps;
  auto keepdims = op->getAttrOfType<BoolAttr>("keepdims");
  return areAll(nn::FactorKind::ReduceSum) && withRows == 0 && !(keepdims && keepdims.getValue()) ? RowRole::Sums
                                                                                                  : RowRole::None;
}

namespace {

class RegionFinder {
public:
  explicit RegionFinder(func::FuncOp step) : step(step), body(step.getBody().front()) {}

  /// The last heads first.
  std::vector<LossRegion> find() {
    llvm::SmallVector<Value> losses;
    for (unsigned i = 0; i < step.getNumResults(); ++i)
      if (step.getResultAttr(i, attributes::kLoss))
        losses.push_back(returnedValues(step)[i]);
    llvm::DenseSet<Operation *> forward = backwardSlice(losses), beforeProduct;
    std::vector<LossRegion> found;
    for (Operation &op : llvm::reverse(body.without_terminator())) {
      auto product = dyn_cast<nn::MatmulOp>(op);
      bool isFollowed = llvm::any_of(op.getUsers(), [&](Operation *user) {
        return forward.contains(user) && (isa<nn::MatmulOp>(user) || beforeProduct.contains(user));
      });
      if (isFollowed)
        beforeProduct.insert(&op);
      if (!product || !forward.contains(&op) || isFollowed || taken.contains(&op))
        continue;
      if (std::optional<LossRegion> region = regionOf(product)) {
        taken.insert(region->ops.begin(), region->ops.end());
        found.push_back(std::move(*region));
      }
    }
    return found;
  }

private:
  std::optional<LossRegion> regionOf(nn::MatmulOp head) {
    ArrayRef<DimExpr> result = nn::typeOf(head.getResult()).getShape(), weight = nn::typeOf(head.getB()).getShape();
    std::optional<int64_t> inner = nn::typeOf(head.getA()).getShape().back().asConstant(),
                           width = result.back().asConstant();
    if (head.getTransposeA() || weight.size() != 2 || !inner || !width || *width <= *inner)
      return std::nullopt;
    LossRegion region{nn::productOf(result.drop_back(1)), *width / *inner, std::max(*inner, *width / 2), {}};
    if (region.rows.isConstant() || !add(region, head))
      return std::nullopt;
    while (true) {
      size_t before = region.ops.size();
      if (!addWide(region) || !addBetween(region))
        return std::nullopt;
      if (region.ops.size() == before)
        return region;
    }
  }

  bool add(LossRegion &region, Operation *op) {
    if (region.ops.contains(op))
      return true;
    return !taken.contains(op) && roleOf(op, region.rows) != RowRole::None && region.ops.insert(op);
  }

  bool isWide(const LossRegion &region, Value value) { return rowWidth(value, region.rows) > region.narrow; }

  /// What reads wide values, and what makes those that are read beside them.
  bool addWide(LossRegion &region) {
    for (size_t i = 0; i < region.ops.size(); ++i) { // It grows meanwhile.
      for (Value result : region.ops[i]->getResults())
        if (isWide(region, result))
          for (Operation *user : result.getUsers())
            if (!add(region, user))
              return false;
      for (Value operand : region.ops[i]->getOperands())
        if (Operation *producer = operand.getDefiningOp(); producer && isWide(region, operand))
          if (!add(region, producer))
            return false;
    }
    return true;
  }

  /// What is computed from the region and read by it. Nothing but losses and gradients may be computed from it.
  bool addBetween(LossRegion &region) {
    llvm::DenseSet<Operation *> behind;
    for (Operation &op : body.without_terminator()) {
      bool depends = llvm::any_of(op.getOperands(), [&](Value operand) {
        Operation *producer = operand.getDefiningOp();
        return producer && (region.ops.contains(producer) || behind.contains(producer));
      });
      if (!region.ops.contains(&op)) {
        if (depends)
          behind.insert(&op);
        continue;
      }
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp(); producer && behind.contains(producer))
          if (!add(region, producer))
            return false;
    }
    for (OpOperand &returned : body.getTerminator()->getOpOperands()) {
      Operation *producer = returned.get().getDefiningOp();
      unsigned number = returned.getOperandNumber();
      bool isLossOrGradient = step.getResultAttr(number, attributes::kLoss) ||
                              step.getResultAttr(number, attributes::kGradient) ||
                              step.getResultAttr(number, attributes::kEdgeGradient);
      if (producer && !isLossOrGradient && (region.ops.contains(producer) || behind.contains(producer)))
        return false;
    }
    return true;
  }

  func::FuncOp step;
  Block &body;
  llvm::DenseSet<Operation *> taken;
};

} // namespace

std::vector<LossRegion> findLossRegions(func::FuncOp step) { return RegionFinder(step).find(); }

} // namespace maestro
