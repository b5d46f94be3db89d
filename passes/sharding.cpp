// See sharding.h.
#include "passes/sharding.h"

using namespace mlir;

namespace maestro {

std::string ShardState::str() const {
  return kind == Replicated ? "replicated" : kind == Partial ? "partial" : "split(" + std::to_string(dim) + ")";
}

namespace {

bool isSplit(ShardState state) { return state.kind == ShardState::Split; }
bool isPartial(ShardState state) { return state.kind == ShardState::Partial; }

/// Only the first factor of a dim's product splits it into contiguous parts.
std::optional<unsigned> splitFactor(const nn::TensorFactors &tensor, unsigned dim) {
  if (tensor[dim].empty())
    return std::nullopt;
  return tensor[dim].front();
}

/// The dim of which `factor` is the first; nothing where the tensor lacks it. Fails where it lies inside a product.
FailureOr<std::optional<unsigned>> dimOf(const nn::TensorFactors &tensor, unsigned factor) {
  for (auto [dim, factors] : llvm::enumerate(tensor))
    if (llvm::is_contained(factors, factor)) {
      if (factors.front() != factor)
        return failure();
      return std::optional<unsigned>(dim);
    }
  return std::optional<unsigned>();
}

/// The one factor that all split operands carry first; fails where they carry different ones.
FailureOr<unsigned> commonFactor(const nn::FactorRule &rule, llvm::ArrayRef<ShardState> states) {
  std::optional<unsigned> common;
  for (auto [i, state] : llvm::enumerate(states)) {
    if (!isSplit(state))
      continue;
    std::optional<unsigned> factor = splitFactor(rule.operandDims[i], state.dim);
    if (!factor || (common && *common != *factor))
      return failure();
    common = factor;
  }
  return *common;
}

/// Every tensor that carries the factor is split there; results that lack a summed factor are partial.
FailureOr<ShardedOperator> splitBy(const nn::FactorRule &rule, unsigned factor) {
  nn::FactorKind kind = rule.factors[factor].kind;
  if (kind != nn::FactorKind::Parallel && kind != nn::FactorKind::ReduceSum)
    return failure();
  ShardedOperator sharded;
  for (bool results : {false, true})
    for (const nn::TensorFactors &tensor : results ? rule.resultDims : rule.operandDims) {
      FailureOr<std::optional<unsigned>> dim = dimOf(tensor, factor);
      if (failed(dim) || (results && !*dim && kind == nn::FactorKind::Parallel))
        return failure();
      ShardState without = results ? ShardState::partial() : ShardState();
      (results ? sharded.results : sharded.operands).push_back(*dim ? ShardState::split(**dim) : without);
    }
  return sharded;
}

} // namespace

ShardedOperator shardOperator(Operation *op, llvm::ArrayRef<ShardState> states) {
  ShardedOperator whole{llvm::SmallVector<ShardState>(states.size()),
                        llvm::SmallVector<ShardState>(op->getNumResults())};
  auto shardable = dyn_cast<nn::ShardableOpInterface>(op);
  bool anySplit = llvm::any_of(states, isSplit), anyPartial = llvm::any_of(states, isPartial);
  if (!shardable || (!anySplit && !anyPartial))
    return whole;
  if (!anySplit) {
    llvm::SmallVector<bool> partial(llvm::map_range(states, isPartial));
    if (!shardable.isLinearIn(partial))
      return whole;
    whole.operands.assign(states.begin(), states.end());
    whole.results.assign(whole.results.size(), ShardState::partial());
    return whole;
  }
  nn::FactorRule rule = shardable.getFactorRule();
  FailureOr<unsigned> factor = commonFactor(rule, states);
  if (failed(factor))
    return whole;
  FailureOr<ShardedOperator> sharded = splitBy(rule, *factor);
  return succeeded(sharded) ? *sharded : whole;
}

//===----------------------------------------------------------------------===//
// The axis "data"
//===----------------------------------------------------------------------===//

DataStates::DataStates(func::FuncOp function, const DimTable &dims) : dims(dims) {
  for (BlockArgument argument : function.getArguments())
    if (std::optional<unsigned> rows = rowsOf(argument))
      states[argument] = ShardState::split(*rows);
  for (Operation &op : function.getBody().front().without_terminator())
    visit(&op);
}

/// The dim that holds rows; nothing for what all samples share.
std::optional<unsigned> DataStates::rowsOf(Value value) const {
  for (auto [dim, size] : llvm::enumerate(nn::typeOf(value).getShape()))
    if (dims.summedSymbol(size))
      return dim;
  return std::nullopt;
}

void DataStates::visit(Operation *op) {
  llvm::SmallVector<ShardState> operands;
  Operation *lost = nullptr;
  for (Value operand : op->getOperands()) {
    operands.push_back(of(operand));
    lost = lost ? lost : unknownSince(operand);
  }
  ShardedOperator sharded = shardOperator(op, operands);
  // Nothing is moved along this axis: where the rule wants operands in other states, it does not say.
  bool fits = sharded.operands == operands;
  if (auto sizes = dyn_cast<nn::DimValuesOp>(op)) // A number of rows is a sum over replicas.
    for (const DimExpr &value : sizes.getValues().getValues())
      if (dims.summedSymbol(value))
        sharded.results[0] = ShardState::partial(),
        fits = dims.isAdditive(value) && sizes.getValues().getValues().size() == 1;
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    if (std::optional<unsigned> rows = rowsOf(result)) // Its own rows, as --maestro-check-samples has shown.
      states[result] = ShardState::split(*rows);
    else if (lost || !fits)
      unknown[result] = lost ? lost : op;
    else
      states[result] = sharded.results[i];
  }
}

} // namespace maestro
