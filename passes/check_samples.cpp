// --maestro-check-samples: refuses losses that do not decompose over samples.
//
// The gradient of a global batch is the sum of its micro-batches' gradients only when no sample's
// loss depends on another sample. Each operator's factor rule (ir/nn/factor_rule.h) says what
// happens to the dim that carries the rows, that is, the symbols that combine by sum:
//
//   %h = nn.matmul %x, %w        : [batch, 8] · [8, 4]      rows stay dim 0
//   %m = nn.reduce_mean %h {0}   : [batch, 4] -> [4]        refused: a mean over the batch inside
//   %s = nn.reduce_sum %l {0, 1} : [batch, seq] -> []       a sum over samples: what a loss must be
//
// A tensor is *uniform* (the same for every sample), has *rows* in one dim, or is a *sum* over
// samples. Positions in the batch (an iota over rows) may only be used to address one's own row, as
// exported masks do:
//   gather_nd(data[batch, …], concat(iota(batch), …)),  scatter_nd(data[batch, …], iota(batch), …).
// What is addressed must then have just these rows: a table of 16 entries or rows of another symbol are
// refused, since a micro-batch numbers its rows from 0 again.
// The pass changes nothing.
#include "passes/graph_functions.h"
#include "passes/passes.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace maestro {
namespace {

struct RowState {
  enum Kind {
    Uniform,  ///< The same for every sample; a dim of rows, if any, is a broadcast.
    Rows,     ///< Dim `dim` holds the samples' rows, one after the other.
    RowIndex, ///< As Rows, and every element is its row's number.
    Address,  ///< As Rows; along the last dim first the row's number, then addresses inside the row.
    Sum,      ///< A sum over samples.
  };
  Kind kind = Uniform;
  unsigned dim = 0;
  DimExpr numbered = 1; ///< Of RowIndex and Address: how many rows are numbered, such as `batch`.

  bool hasRows() const { return kind == Rows || kind == RowIndex || kind == Address; }
};

class SampleChecker {
public:
  SampleChecker(func::FuncOp graph, const DimTable &dims) : graph(graph), dims(dims) {}

  LogicalResult check() {
    for (const LossResult &loss : lossResults(graph))
      if (failed(checkLoss(loss)))
        return failure();
    return success();
  }

private:
  LogicalResult checkLoss(const LossResult &loss) {
    lossName = loss.name;
    Value value = returnedValues(graph)[loss.index];
    llvm::DenseSet<Operation *> wanted = backwardSlice(value);
    for (Operation &op : graph.getBody().front().without_terminator())
      if (wanted.contains(&op) && !states.count(op.getResult(0)) && failed(visit(&op)))
        return failure();
    FailureOr<RowState> state = stateOf(value);
    if (failed(state))
      return failure();
    if (state->kind == RowState::Sum)
      return success();
    Operation *op = value.getDefiningOp();
    return (op ? op->emitError() : graph.emitError())
           << "the " << loss.role << " of the loss '" << loss.name << "' is not a sum over the samples of a batch"
           << (op ? ": " + describe(op) : "") << " gives the same for any batch";
  }

  FailureOr<RowState> stateOf(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument)
      return states.lookup(value);
    if (!argumentText(graph, argument.getArgNumber(), attributes::kParameter).empty())
      return RowState{};
    RowState state;
    for (auto [i, dim] : llvm::enumerate(nn::typeOf(value).getShape())) {
      if (!dims.summedSymbol(dim))
        continue;
      if (state.kind == RowState::Rows)
        return graph.emitError()
               << "the data field '" << argumentText(graph, argument.getArgNumber(), attributes::kField) << "' of type "
               << value.getType()
               << " has two dims that combine by sum; samples are stacked along one: write combine: max "
               << "for the other under dims";
      state = {RowState::Rows, unsigned(i)};
    }
    return state;
  }

  InFlightDiagnostic refuse(Operation *op) {
    return op->emitError() << "the loss '" << lossName << "' does not decompose over samples: " << describe(op) << " ";
  }

  LogicalResult setAll(Operation *op, RowState state) {
    for (Value result : op->getResults())
      states[result] = state;
    return success();
  }

  LogicalResult visit(Operation *op) {
    llvm::SmallVector<RowState> operands;
    for (Value operand : op->getOperands()) {
      FailureOr<RowState> state = stateOf(operand);
      if (failed(state))
        return failure();
      operands.push_back(*state);
    }
    if (auto iota = dyn_cast<nn::IotaOp>(op))
      return visitIota(iota);
    if (auto values = dyn_cast<nn::DimValuesOp>(op))
      return visitDimValues(values);
    if (auto dropout = dyn_cast<nn::DropoutOp>(op))
      return visitDropout(dropout, operands[0]);
    if (isa<nn::MaskedScatterOp>(op) && inOrder(operands))
      return setAll(op, {RowState::Rows, 0});
    if (operands.size() > 1 && isRowAddress(op->getOperand(1), operands[1]))
      if (isa<nn::GatherNDOp, nn::ScatterNDOp>(op))
        return visitAddressed(op, operands);
    if (llvm::any_of(operands, [](RowState state) { return state.kind == RowState::Sum; }))
      return visitLinear(op, operands);
    return visitByRule(op, operands);
  }

  LogicalResult visitIota(nn::IotaOp op) {
    const DimExpr &size = nn::typeOf(op.getResult()).getShape()[0];
    if (!dims.summedSymbol(size))
      return setAll(op, {});
    if (size.asSymbol() && op.getStart().getValues()[0].isConstant(0) && op.getStep().getValues()[0].isConstant(1))
      return setAll(op, {RowState::RowIndex, 0, size});
    return refuse(op) << "numbers the rows of the batch";
  }

  LogicalResult visitDimValues(nn::DimValuesOp op) {
    bool summed = false;
    for (const DimExpr &value : op.getValues().getValues()) {
      if (!dims.summedSymbol(value))
        continue;
      summed = true;
      if (!dims.isAdditive(value) || op.getValues().getValues().size() != 1)
        return refuseSize(op, value);
    }
    return setAll(op, summed ? RowState{RowState::Sum, 0} : RowState{});
  }

  LogicalResult refuseSize(Operation *op, const DimExpr &value) {
    for (const std::string &symbol : value.symbols())
      if (!dims.sums(symbol))
        return refuse(op) << "counts " << value.str() << " positions, and '" << symbol
                          << "' is padded to the longest sample of a micro-batch: count the "
                             "positions that matter (a mask's sum), or export with a fixed '"
                          << symbol << "'";
    return refuse(op) << "computes with " << value.str() << ", which is not a sum over samples";
  }

  /// masked_scatter takes source's elements in the order of the rows that ask for them.
  static bool inOrder(llvm::ArrayRef<RowState> operands) {
    return llvm::all_of(operands, [](RowState state) {
      return state.kind == RowState::Uniform || (state.kind == RowState::Rows && state.dim == 0);
    });
  }

  /// Indices that begin with their own row's number.
  static bool isRowAddress(Value indices, RowState state) {
    return state.kind == RowState::Address ||
           (state.kind == RowState::RowIndex && nn::typeOf(indices).getShape().back().isConstant(1));
  }

  /// gather_nd reads, and scatter_nd writes, elements of the rows that the indices themselves stand
  /// in: dim 0 of what is addressed has the rows that are numbered, each a sample's own or all alike.
  LogicalResult visitAddressed(Operation *op, llvm::ArrayRef<RowState> operands) {
    auto inFirstDim = [](RowState state) {
      return state.kind == RowState::Uniform || (state.kind == RowState::Rows && state.dim == 0);
    };
    const DimExpr &addressed = nn::typeOf(op->getOperand(0)).getShape()[0];
    if (!(addressed == operands[1].numbered))
      return refuse(op) << "addresses a dim of " << addressed.str() << " by the numbers of "
                        << operands[1].numbered.str()
                        << " rows, which begin at 0 in every micro-batch: what a sample reads would depend on its "
                           "place in the batch";
    auto gather = dyn_cast<nn::GatherNDOp>(op);
    if (gather && gather.getBatchDims() == 0 && inFirstDim(operands[0]))
      return setAll(op, {RowState::Rows, operands[1].dim});
    if (!gather && operands[1].dim == 0 && inFirstDim(operands[0]) && inFirstDim(operands[2]))
      return setAll(op, {RowState::Rows, 0});
    return refuse(op) << "reads or writes rows of other samples";
  }

  /// What is dropped is keyed by sample and row within it, so dim 0 must hold equally many rows of every sample.
  LogicalResult visitDropout(nn::DropoutOp op, RowState state) {
    const DimExpr &rows = nn::typeOf(op.getX()).getShape()[0];
    std::string own = dims.own();
    std::optional<DimExpr> rowsPerSample = rows.exactQuotient(DimExpr::symbol(own));
    bool isOwn = state.kind == RowState::Rows && state.dim == 0 && rowsPerSample && !dims.summedSymbol(*rowsPerSample);
    if (isOwn && dims.bound(own).value_or(1) == 1)
      return setAll(op, state);
    return refuse(op) << "drops elements of " << nn::typeOf(op.getX()) << ": dim 0 must hold the rows of the samples ("
                      << own
                      << ", one a sample), by which what is dropped stays the same in any micro-batch. Drop "
                         "elements of a tensor whose dim 0 is "
                      << own << ", or export the module in eval mode";
  }

  /// A sum over samples passes through what commutes with adding micro-batches up.
  LogicalResult visitLinear(Operation *op, llvm::ArrayRef<RowState> operands) {
    llvm::SmallVector<bool> sums;
    bool linear = true;
    for (RowState state : operands) {
      sums.push_back(state.kind == RowState::Sum);
      linear &= !state.hasRows();
    }
    auto shardable = dyn_cast<nn::ShardableOpInterface>(op);
    linear &= shardable && shardable.isLinearIn(sums);
    if (!linear)
      return refuse(op) << "reads a sum over the whole batch";
    return setAll(op, {RowState::Sum, 0});
  }

  LogicalResult visitByRule(Operation *op, llvm::ArrayRef<RowState> operands) {
    auto shardable = dyn_cast<nn::ShardableOpInterface>(op);
    if (!shardable)
      return refuse(op) << "says nothing about its dims";
    nn::FactorRule rule = shardable.getFactorRule();
    if (operands.empty())
      return setAll(op, {});
    std::optional<unsigned> rows;
    for (auto [i, state] : llvm::enumerate(operands)) {
      if (!state.hasRows())
        continue;
      const nn::DimFactors &factors = rule.operandDims[i][state.dim];
      if (factors.empty() || (rows && *rows != factors.front()))
        return refuse(op) << "combines rows of different samples of the batch";
      rows = factors.front();
    }
    for (auto [i, factor] : llvm::enumerate(rule.factors))
      if (!rows && dims.summedSymbol(factor.size) && isReduced(rule, i))
        rows = i;
    if (!rows)
      return checkUniform(op, rule);
    return propagate(op, rule, *rows, operands);
  }

  static bool isReduced(const nn::FactorRule &rule, unsigned factor) {
    return rule.factors[factor].kind == nn::FactorKind::ReduceSum;
  }

  /// Operands that are the same for all samples, perhaps repeated per row: only a running
  /// computation along the rows could tell them apart.
  LogicalResult checkUniform(Operation *op, const nn::FactorRule &rule) {
    for (const nn::Factor &factor : rule.factors)
      if (factor.kind == nn::FactorKind::Whole && dims.summedSymbol(factor.size))
        return refuse(op) << "works along the rows of the batch";
    return setAll(op, {});
  }

  LogicalResult propagate(Operation *op, const nn::FactorRule &rule, unsigned rows, llvm::ArrayRef<RowState> operands) {
    nn::FactorKind kind = rule.factors[rows].kind;
    if (isa<nn::ReduceMeanOp, nn::ReduceMaxOp, nn::ReduceMinOp>(op) && kind != nn::FactorKind::Parallel)
      return refuse(op) << "is a statistic of the whole batch";
    if (kind != nn::FactorKind::Parallel && kind != nn::FactorKind::ReduceSum)
      return refuse(op) << "works along the rows of the batch";
    RowState::Kind resultKind = kindOf(op, operands);
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      RowState state{RowState::Sum, 0};
      for (auto [dim, factors] : llvm::enumerate(rule.resultDims[i])) {
        auto found = llvm::find(factors, rows);
        if (found == factors.end())
          continue;
        if (found != factors.begin() && !rule.factors[factors.front()].size.isConstant(1))
          return refuse(op) << "interleaves the rows of different samples of the batch";
        state = {resultKind, unsigned(dim)};
      }
      if (state.kind == RowState::Sum && kind != nn::FactorKind::ReduceSum)
        return refuse(op) << "combines rows of different samples of the batch";
      if (llvm::any_of(operands, [](RowState s) { return s.kind == RowState::RowIndex; }) &&
          state.kind == RowState::Rows)
        return refuse(op) << "computes with the position of a sample in the batch";
      if (state.kind == RowState::RowIndex || state.kind == RowState::Address)
        state.numbered = operands[0].numbered;
      states[result] = state;
    }
    return success();
  }

  /// Row numbers stay what they are while they are only moved, and become addresses when joined
  /// with others.
  static RowState::Kind kindOf(Operation *op, llvm::ArrayRef<RowState> operands) {
    if (op->hasTrait<nn::Rearranges>() || isa<nn::CastOp>(op))
      return operands[0].kind;
    auto concat = dyn_cast<nn::ConcatOp>(op);
    if (!concat || operands[0].kind != RowState::RowIndex)
      return RowState::Rows;
    llvm::ArrayRef<DimExpr> first = nn::typeOf(concat.getInputs()[0]).getShape();
    bool lastAxis = concat.getAxis() + 1 == first.size() && first.back().isConstant(1);
    bool othersInside =
        llvm::none_of(operands.drop_front(), [](RowState state) { return state.kind == RowState::RowIndex; });
    return lastAxis && othersInside ? RowState::Address : RowState::Rows;
  }

  func::FuncOp graph;
  const DimTable &dims;
  std::string lossName;
  llvm::DenseMap<Value, RowState> states;
};

struct CheckSamplesPass : PassWrapper<CheckSamplesPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CheckSamplesPass)
  StringRef getArgument() const override { return "maestro-check-samples"; }
  StringRef getDescription() const override { return "Refuses losses that do not decompose over samples"; }

  void runOnOperation() override {
    func::FuncOp graph = findFunction(getOperation(), attributes::kGraphFunction);
    FailureOr<DimTable> dims = DimTable::of(getOperation());
    if (!graph || failed(dims) || failed(SampleChecker(graph, *dims).check()))
      signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace

std::unique_ptr<Pass> createCheckSamplesPass() { return std::make_unique<CheckSamplesPass>(); }

} // namespace maestro
