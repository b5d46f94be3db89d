// See sharding.h.
#include "passes/sharding.h"

using namespace mlir;

namespace maestro {

std::string ShardState::str() const {
  return isSplit() ? "split(" + std::to_string(dim) + ")" : isPartial() ? "partial" : "replicated";
}

//===----------------------------------------------------------------------===//
// One operator
//===----------------------------------------------------------------------===//

namespace {

/// The one factor that all split operands carry first, since only a dim's first factor splits it into contiguous parts;
/// nothing where they carry different ones.
std::optional<unsigned> commonFactor(const nn::FactorRule &rule, llvm::ArrayRef<ShardState> states) {
  std::optional<unsigned> common;
  for (auto [i, state] : llvm::enumerate(states)) {
    if (!state.isSplit())
      continue;
    const nn::DimFactors &factors = rule.operandDims[i][state.dim];
    if (factors.empty() || (common && *common != factors.front()))
      return std::nullopt;
    common = factors.front();
  }
  return common;
}

/// The state of a tensor whose dims carry these factors, when `factor` is split; `without` where none carries it.
/// Nothing where it lies inside a dim.
std::optional<ShardState> stateBy(const nn::TensorFactors &tensor, unsigned factor, ShardState without) {
  for (auto [dim, factors] : llvm::enumerate(tensor))
    if (llvm::is_contained(factors, factor))
      return factors.front() == factor ? std::optional(ShardState::split(dim)) : std::nullopt;
  return without;
}

/// Every tensor that carries the factor is split there; results that lack a summed factor are partial.
ShardedOperator splitBy(const nn::FactorRule &rule, unsigned factor) {
  nn::FactorKind kind = rule.factors[factor].kind;
  if (kind != nn::FactorKind::Parallel && kind != nn::FactorKind::ReduceSum)
    return {{}, {}, Misfit::Whole};
  ShardedOperator sharded;
  for (bool results : {false, true})
    for (const nn::TensorFactors &tensor : results ? rule.resultDims : rule.operandDims) {
      std::optional<ShardState> state = stateBy(tensor, factor, results ? ShardState::partial() : ShardState());
      if (!state)
        return {{}, {}, Misfit::Interleaved};
      if (state->isPartial() && kind == nn::FactorKind::Parallel)
        return {{}, {}, Misfit::Mixed};
      (results ? sharded.results : sharded.operands).push_back(*state);
    }
  return sharded;
}

ShardedOperator replicated(Operation *op, Misfit misfit) {
  return {llvm::SmallVector<ShardState>(op->getNumOperands()), llvm::SmallVector<ShardState>(op->getNumResults()),
          misfit};
}

} // namespace

ShardedOperator shardOperator(Operation *op, llvm::ArrayRef<ShardState> states) {
  bool anySplit = llvm::any_of(states, [](ShardState state) { return state.isSplit(); });
  bool anyPartial = llvm::any_of(states, [](ShardState state) { return state.isPartial(); });
  if (!anySplit && !anyPartial)
    return replicated(op, Misfit::None);
  auto shardable = dyn_cast<nn::ShardableOpInterface>(op);
  if (!shardable)
    return replicated(op, Misfit::Whole);
  if (!anySplit) {
    llvm::SmallVector<bool> partial(llvm::map_range(states, [](ShardState state) { return state.isPartial(); }));
    if (!shardable.isLinearIn(partial))
      return replicated(op, Misfit::Sum);
    return {llvm::SmallVector<ShardState>(states),
            llvm::SmallVector<ShardState>(op->getNumResults(), ShardState::partial()), Misfit::None};
  }
  nn::FactorRule rule = shardable.getFactorRule();
  std::optional<unsigned> factor = commonFactor(rule, states);
  ShardedOperator sharded = factor ? splitBy(rule, *factor) : ShardedOperator{{}, {}, Misfit::Mixed};
  if (anyPartial) // Added up before it meets what is split.
    sharded.misfit = Misfit::Sum;
  return sharded.operands.empty() ? replicated(op, sharded.misfit) : sharded;
}

//===----------------------------------------------------------------------===//
// The propagation
//===----------------------------------------------------------------------===//

AxisStates::AxisStates(Block &block, const Axis &axis) {
  for (BlockArgument argument : block.getArguments())
    states[argument] = axis.seed(argument);
  for (Operation &op : block.without_terminator()) {
    llvm::SmallVector<ShardState> operands;
    Operation *lost = nullptr;
    for (Value operand : op.getOperands()) {
      operands.push_back(of(operand));
      lost = lost ? lost : unknownSince(operand);
    }
    ShardedOperator sharded = axis.visit(&op, operands);
    if (!lost && sharded.misfit != Misfit::None)
      lost = &op;
    for (auto [result, state] : llvm::zip_equal(op.getResults(), sharded.results)) {
      states[result] = state;
      if (lost && !state.isSplit())
        unknown[result] = lost;
    }
    operators[&op] = std::move(sharded);
  }
}

//===----------------------------------------------------------------------===//
// The axis "data"
//===----------------------------------------------------------------------===//

/// The dim that holds rows; nothing for what all samples share.
std::optional<unsigned> DataAxis::rowsOf(Value value) const {
  for (auto [dim, size] : llvm::enumerate(nn::typeOf(value).getShape()))
    if (dims.summedSymbol(size))
      return dim;
  return std::nullopt;
}

ShardState DataAxis::seed(BlockArgument argument) const {
  std::optional<unsigned> rows = rowsOf(argument);
  return rows ? ShardState::split(*rows) : ShardState();
}

/// Whether rows that no operand has are all alike, as a fill's or a broadcast's are, and an iota's are not.
static bool makesRowsAlike(Operation *op, unsigned result, unsigned dim) {
  auto shardable = dyn_cast<nn::ShardableOpInterface>(op);
  if (!shardable)
    return false;
  nn::FactorRule rule = shardable.getFactorRule();
  return llvm::all_of(rule.resultDims[result][dim],
                      [&](unsigned factor) { return rule.factors[factor].kind == nn::FactorKind::Parallel; });
}

ShardedOperator DataAxis::visit(Operation *op, llvm::ArrayRef<ShardState> states) const {
  ShardedOperator sharded = shardOperator(op, states);
  if (sharded.misfit == Misfit::None && llvm::ArrayRef(sharded.operands) != states)
    sharded.misfit = Misfit::Mixed;
  if (auto sizes = dyn_cast<nn::DimValuesOp>(op)) {
    llvm::ArrayRef<DimExpr> values = sizes.getValues().getValues();
    if (llvm::any_of(values, [&](const DimExpr &value) { return dims.summedSymbol(value).has_value(); })) {
      sharded.results[0] = ShardState::partial();
      sharded.misfit = values.size() == 1 && dims.isAdditive(values[0]) ? Misfit::None : Misfit::Sum;
    }
  }
  for (auto [i, result] : llvm::enumerate(op->getResults())) {
    std::optional<unsigned> rows = rowsOf(result);
    if (!rows || sharded.results[i].isSplit())
      continue;
    if (sharded.misfit == Misfit::None && sharded.results[i].isPartial())
      sharded.misfit = Misfit::Sum;
    else if (sharded.misfit == Misfit::None && !makesRowsAlike(op, i, *rows))
      sharded.misfit = Misfit::Whole;
    sharded.results[i] = ShardState::split(*rows);
  }
  return sharded;
}

} // namespace maestro
