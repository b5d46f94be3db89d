// --maestro-check-samples: refuses losses that do not decompose over samples.
//
// The gradient of a global batch is the sum of its micro-batches' gradients only when no sample's loss depends on
// another sample. Micro-batches are to samples what replicas are: the states of @graph along the axis "data"
// (sharding.h) say what happens to the rows, and where operands do not fit an operator, it mixes samples:
//
//   %h = nn.matmul %x, %w        : [batch, 8] · [8, 4]      rows stay dim 0: split(0)
//   %m = nn.reduce_mean %h {0}   : [batch, 4] -> [4]        refused: a mean over the batch inside
//   %s = nn.reduce_sum %l {0, 1} : [batch, seq] -> []       partial, a sum over samples: what a loss must be
//
// Positions in the batch (an iota over rows) may only be used to address one's own row, as exported masks do:
//   gather_nd(data[batch, …], concat(iota(batch), …)),  scatter_nd(data[batch, …], iota(batch), …).
// What is addressed must then have just these rows: a table of 16 entries or rows of another symbol are
// refused, since a micro-batch numbers its rows from 0 again.
// The pass changes nothing.
#include "passes/passes.h"
#include "passes/sharding.h"

using namespace mlir;

namespace maestro {
namespace {

/// Of a tensor with rows: the elements are their rows' numbers, or addresses that begin with them along the last dim.
struct RowNumbers {
  DimExpr count; ///< How many rows are numbered, such as `batch`.
  bool areAddresses = false;
};

class SampleChecker {
public:
  SampleChecker(func::FuncOp graph, const DimTable &dims)
      : graph(graph), dims(dims), states(graph.getBody().front(), DataAxis(dims)) {}

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
      if (wanted.contains(&op) && checked.insert(&op).second &&
          (failed(checkFields(&op)) || failed(checkOperator(&op))))
        return failure();
    if (states.of(value).isPartial())
      return success();
    Operation *op = value.getDefiningOp();
    return (op ? op->emitError() : graph.emitError())
           << "the " << loss.role << " of the loss '" << loss.name << "' is not a sum over the samples of a batch"
           << (op ? ": " + describe(op) : "") << " gives the same for any batch";
  }

  LogicalResult checkFields(Operation *op) {
    for (Value operand : op->getOperands()) {
      auto argument = dyn_cast<BlockArgument>(operand);
      if (argument && llvm::count_if(nn::typeOf(argument).getShape(),
                                     [&](const DimExpr &dim) { return dims.summedSymbol(dim).has_value(); }) > 1)
        return graph.emitError() << "the data field '"
                                 << argumentText(graph, argument.getArgNumber(), attributes::kField) << "' of type "
                                 << argument.getType()
                                 << " has two dims that combine by sum; samples are stacked along one: write combine: "
                                    "max for the other under dims";
    }
    return success();
  }

  InFlightDiagnostic refuse(Operation *op) {
    return op->emitError() << "the loss '" << lossName << "' does not decompose over samples: " << describe(op) << " ";
  }

  LogicalResult checkOperator(Operation *op) {
    if (auto iota = dyn_cast<nn::IotaOp>(op))
      return checkIota(iota);
    if (auto values = dyn_cast<nn::DimValuesOp>(op))
      return checkDimValues(values);
    if (auto dropout = dyn_cast<nn::DropoutOp>(op))
      return checkDropout(dropout);
    if (isa<nn::MaskedScatterOp>(op) && llvm::all_of(op->getOperands(), [&](Value each) { return isInOrder(each); }))
      return success();
    if (isa<nn::GatherNDOp, nn::ScatterNDOp>(op) && isRowAddress(op->getOperand(1)))
      return checkAddressed(op);
    if (failed(checkMisfit(op)))
      return failure();
    return checkNumbers(op);
  }

  LogicalResult checkMisfit(Operation *op) {
    switch (states.at(op).misfit) {
    case Misfit::None:
      return success();
    case Misfit::Mixed:
      return refuse(op) << "combines rows of different samples of the batch";
    case Misfit::Interleaved:
      return refuse(op) << "interleaves the rows of different samples of the batch";
    case Misfit::Sum:
      return refuse(op) << "reads a sum over the whole batch";
    case Misfit::Whole:
      bool isStatistic = isa<nn::ReduceMeanOp, nn::ReduceMaxOp, nn::ReduceMinOp>(op);
      return refuse(op) << (isStatistic ? "is a statistic of the whole batch" : "works along the rows of the batch");
    }
    llvm_unreachable("a misfit without a message");
  }

  LogicalResult checkDimValues(nn::DimValuesOp op) {
    llvm::ArrayRef<DimExpr> values = op.getValues().getValues();
    for (const DimExpr &value : values)
      if (dims.summedSymbol(value) && (!dims.isAdditive(value) || values.size() != 1))
        return refuseSize(op, value);
    return success();
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

  /// What is dropped is keyed by sample and row within it, so dim 0 must hold equally many rows of every sample.
  LogicalResult checkDropout(nn::DropoutOp op) {
    const DimExpr &rows = nn::typeOf(op.getX()).getShape()[0];
    std::string own = dims.own();
    std::optional<DimExpr> rowsPerSample = rows.exactQuotient(DimExpr::symbol(own));
    bool isOwn = states.of(op.getX()) == ShardState::split(0) && rowsPerSample && !dims.summedSymbol(*rowsPerSample);
    if (isOwn && dims.bound(own).value_or(1) == 1)
      return success();
    return refuse(op) << "drops elements of " << nn::typeOf(op.getX()) << ": dim 0 must hold the rows of the samples ("
                      << own
                      << ", one a sample), by which what is dropped stays the same in any micro-batch. Drop "
                         "elements of a tensor whose dim 0 is "
                      << own << ", or export the module in eval mode";
  }

  //===--------------------------------------------------------------------===//
  // Row numbers
  //===--------------------------------------------------------------------===//

  LogicalResult checkIota(nn::IotaOp op) {
    const DimExpr &size = nn::typeOf(op.getResult()).getShape()[0];
    if (!dims.summedSymbol(size))
      return success();
    if (!size.asSymbol() || !op.getStart().getValues()[0].isConstant(0) || !op.getStep().getValues()[0].isConstant(1))
      return refuse(op) << "numbers the rows of the batch";
    numbers[op.getResult()] = {size};
    return success();
  }

  /// Row numbers stay what they are while they are only moved, and become addresses when joined with others. Nothing
  /// else may compute with them.
  LogicalResult checkNumbers(Operation *op) {
    llvm::SmallVector<bool> numbered(
        llvm::map_range(op->getOperands(), [&](Value operand) { return numbers.contains(operand); }));
    if (!llvm::is_contained(numbered, true))
      return success();
    RowNumbers first = numbers.lookup(op->getOperand(0));
    auto concat = dyn_cast<nn::ConcatOp>(op);
    bool isMoved = op->hasTrait<nn::Rearranges>() || isa<nn::CastOp>(op);
    if (!isMoved && !(concat && isAddress(concat) && llvm::count(numbered, true) == 1 && numbered[0]))
      return refuse(op) << "computes with the position of a sample in the batch";
    numbers[op->getResult(0)] = {first.count, first.areAddresses || concat};
    return success();
  }

  /// Whether single numbers are joined with others along the last dim.
  static bool isAddress(nn::ConcatOp op) {
    llvm::ArrayRef<DimExpr> first = nn::typeOf(op.getInputs()[0]).getShape();
    return op.getAxis() + 1 == first.size() && first.back().isConstant(1);
  }

  /// Indices that begin with their own row's number.
  bool isRowAddress(Value indices) const {
    auto found = numbers.find(indices);
    return found != numbers.end() &&
           (found->second.areAddresses || nn::typeOf(indices).getShape().back().isConstant(1));
  }

  /// Whether what is read in the order of rows may be these elements: each sample's own in dim 0, or all alike.
  bool isInOrder(Value value) const {
    return !numbers.contains(value) && !states.of(value).isPartial() && states.of(value).dim == 0;
  }

  /// gather_nd reads, and scatter_nd writes, elements of the rows that the indices themselves stand in: dim 0 of what
  /// is addressed has the rows that are numbered, each a sample's own or all alike.
  LogicalResult checkAddressed(Operation *op) {
    const DimExpr &addressed = nn::typeOf(op->getOperand(0)).getShape()[0];
    const DimExpr &numbered = numbers.find(op->getOperand(1))->second.count;
    if (!(addressed == numbered))
      return refuse(op) << "addresses a dim of " << addressed.str() << " by the numbers of " << numbered.str()
                        << " rows, which begin at 0 in every micro-batch: what a sample reads would depend on its "
                           "place in the batch";
    auto gather = dyn_cast<nn::GatherNDOp>(op);
    bool isOwn =
        gather ? gather.getBatchDims() == 0 : states.of(op->getOperand(1)).dim == 0 && isInOrder(op->getOperand(2));
    if (isOwn && isInOrder(op->getOperand(0)))
      return success();
    return refuse(op) << "reads or writes rows of other samples";
  }

  func::FuncOp graph;
  const DimTable &dims;
  AxisStates states;
  std::string lossName;
  llvm::DenseSet<Operation *> checked;
  llvm::DenseMap<Value, RowNumbers> numbers;
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
