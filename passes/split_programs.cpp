// --maestro-split-programs: @graph and @step become the programs of a training task.
//
//   @count     data fields -> counts: what the losses divide by, from data alone
//   @forward   -> loss sums, and what @backward needs of this micro-batch: {nn.saved = 0 : i64} …
//   @backward  saved values, loss scales, parameters, fields -> gradients
//   @weight_gradient   only of a section with nn.split_backward: saved values, also @backward's -> what of the
//   gradients
//              nothing else waits for
//   @evaluate  only of a section whose losses are done over chunks of rows (chunk_losses.cpp): -> loss sums. @backward
//              computes them in training, each chunk's right before its gradients, and @forward what comes before
//
// A section without losses has no @count, and one in which nothing trains no @backward; what arrives
// over edges and leaves over them are arguments and results like others.
//
//   func.func @step(%x: …, %w: …, %scale: …)
//       -> (… {nn.loss = "loss", nn.role = "sum"}, … {nn.gradient = "m/w"}) {
//     %h = nn.matmul %x, %w : …
//     %y = nn.relu %h : …
//     …
//     %dh = nn.relu_grad %y, %dy : …
//
// becomes
//
//   func.func @forward(%x: …, %w: …)
//       -> (… {nn.loss = "loss", nn.role = "sum"}, … {nn.saved = 0 : i64}) {
//     …
//     return %sum, %y
//   func.func @backward(%y: … {nn.saved = 0 : i64}, %scale: …, %x: …)
//       -> (… {nn.gradient = "m/w"}) {
//     …
//     %dh = nn.relu_grad %y, %dy : …
//
// What crosses is the fewest bytes at the dims' bounds (save_choice.h); cheap values are computed
// again where they are first read. @step stays: a plan with one micro-batch in flight may run it
// whole.
//
// Split, the backward of a pipeline's stage sends its input's gradient before it turns to the weights' ("zero bubble",
// Qi et al., arXiv 2401.10241): a product's gradient by its weight waits in @weight_gradient, with what it multiplies
// kept until then.
#include "passes/graph_facts.h"
#include "passes/graph_functions.h"
#include "passes/passes.h"
#include "passes/save_choice.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace maestro {
namespace {

/// Copies parts of one function into another; values are copied when they are first asked for.
class ProgramBuilder {
public:
  ProgramBuilder(func::FuncOp source, StringRef name)
      : source(source), builder(source.getContext()),
        program(func::FuncOp::create(source.getLoc(), name, builder.getFunctionType({}, {}))) {
    program.addEntryBlock();
    builder.setInsertionPointToEnd(&program.getBody().front());
    func::ReturnOp::create(builder, source.getLoc());
    builder.setInsertionPoint(program.getBody().front().getTerminator());
  }

  /// An argument that stands for `value`.
  void addArgument(Value value, DictionaryAttr attributes) {
    unsigned index = program.getNumArguments();
    (void)program.insertArgument(index, value.getType(), attributes, value.getLoc());
    copies.map(value, program.getArgument(index));
  }

  /// The copy of `value`, with everything it is computed from. Arguments of the source are taken
  /// over on demand.
  Value copy(Value value) {
    llvm::SmallVector<Value> pending{value};
    while (!pending.empty()) {
      Value current = pending.back();
      if (copies.contains(current)) {
        pending.pop_back();
        continue;
      }
      Operation *op = current.getDefiningOp();
      if (!op) {
        takeArgument(cast<BlockArgument>(current));
        continue;
      }
      size_t before = pending.size();
      for (Value operand : llvm::reverse(op->getOperands()))
        if (!copies.contains(operand))
          pending.push_back(operand);
      if (pending.size() == before)
        clone(op);
    }
    return copies.lookup(value);
  }

  void clone(Operation *op) {
    for (Value operand : op->getOperands())
      copy(operand);
    Operation *copied = builder.clone(*op, copies);
    // A kept result keeps its argument, though a sibling had to be computed again.
    for (auto [from, to] : llvm::zip_equal(op->getResults(), copied->getResults()))
      if (Value argument = kept.lookup(from))
        copies.map(from, argument);
      else
        copies.map(from, to);
  }

  void addKept(Value value, DictionaryAttr attributes) {
    addArgument(value, attributes);
    kept[value] = copies.lookup(value);
  }

  func::FuncOp finish(llvm::ArrayRef<FunctionResult> results, Operation *after) {
    setResults(program, results);
    after->getBlock()->getOperations().insertAfter(Block::iterator(after), program);
    return program;
  }

private:
  void takeArgument(BlockArgument argument) { addArgument(argument, source.getArgAttrDict(argument.getArgNumber())); }

  func::FuncOp source;
  OpBuilder builder;
  func::FuncOp program;
  IRMapping copies;
  llvm::DenseMap<Value, Value> kept;
};

/// What is computed again, and of how many layers.
struct LayerPolicy {
  RecomputeChoice choice;
  uint32_t layers = std::numeric_limits<uint32_t>::max();
  Recompute of(int64_t layer) const { return choice.of(static_cast<uint32_t>(layer), layers); }
};

class ProgramSplitter {
public:
  ProgramSplitter(func::FuncOp graph, func::FuncOp step, const DimTable &dims, LayerPolicy policy)
      : graph(graph), step(step), dims(dims), policy(policy), builder(graph.getContext()) {}

  LogicalResult split() {
    markForward();
    chooseCrossing();
    if (step->getParentOp()->hasAttr(attributes::kSplitBackward))
      markWeightWork();
    func::FuncOp forward = buildForward();
    if (!putOff.empty())
      buildEvaluate(forward);
    if (llvm::any_of(llvm::seq(step.getNumResults()), [&](unsigned i) { return isGradient(i); }))
      buildWeightGradient(buildBackward(forward));
    describeStash();
    return buildCount();
  }

private:
  /// Whether a value is computed by one of these.
  static auto isOf(const llvm::DenseSet<Operation *> &operations) {
    return [&operations](Value value) { return operations.contains(value.getDefiningOp()); };
  }

  /// What the loss sums are computed by is forward work, all else backward: also the part of a
  /// gradient that does not depend on what arrives (a cosine, a comparison). Chunks of rows, and what follows from
  /// them, wait for their gradients.
  void markForward() {
    llvm::SmallVector<Value> wanted;
    bool trains = false;
    for (unsigned i = 0; i < step.getNumResults(); ++i)
      if (isForwardResult(i))
        wanted.push_back(returnedValues(step)[i]);
      else
        trains = true;
    evaluationWork = forwardWork = backwardSlice(wanted);
    for (Operation &op : step.getBody().front().without_terminator())
      if (trains && forwardWork.contains(&op) &&
          (op.hasAttr(attributes::kChunked) || llvm::any_of(op.getOperands(), isOf(putOff)))) {
        putOff.insert(&op);
        forwardWork.erase(&op);
      }
  }

  bool isPutOff(unsigned result) { return isForwardResult(result) && isOf(putOff)(returnedValues(step)[result]); }

  /// Losses, and what leaves over an edge.
  bool isForwardResult(unsigned result) {
    return step.getResultAttr(result, attributes::kLoss) || step.getResultAttr(result, attributes::kEdge);
  }

  bool isGradient(unsigned result) { return !isForwardResult(result); }

  /// What leads to nothing but parameters' gradients and no longer has a dim of the samples: the last product or sum
  /// over them, and what follows. All else, also what only a first stage's weights need, stays in @backward, and so do
  /// sums over chunks of rows, whose values are not kept.
  void markWeightWork() {
    Operation *end = step.getBody().front().getTerminator();
    auto isParameters = [&](OpOperand &use) {
      return use.getOwner() == end ? !isForwardResult(use.getOperandNumber()) &&
                                         !step.getResultAttr(use.getOperandNumber(), attributes::kEdgeGradient)
                                   : weightWork.contains(use.getOwner());
    };
    auto isFixed = [](Value value) {
      return llvm::all_of(nn::typeOf(value).getShape(),
                          [](const DimExpr &dim) { return dim.asConstant().has_value(); });
    };
    llvm::DenseSet<Operation *> sumsOfChunks;
    for (Operation &op : step.getBody().front().without_terminator())
      if (llvm::all_of(op.getResults(), isFixed) &&
          (op.hasAttr(attributes::kChunked) || llvm::any_of(op.getOperands(), isOf(sumsOfChunks))))
        sumsOfChunks.insert(&op);
    for (Operation &op : llvm::reverse(step.getBody().front().without_terminator()))
      if (!forwardWork.contains(&op) && !op.use_empty() && llvm::all_of(op.getUses(), isParameters) &&
          llvm::all_of(op.getResults(), isFixed) && !sumsOfChunks.contains(&op))
        weightWork.insert(&op);
    SaveProblem problem;
    llvm::SetVector<Value> needed;
    for (Operation &op : step.getBody().front().without_terminator()) {
      if (!weightWork.contains(&op)) {
        problem.operations.push_back(&op);
        continue;
      }
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp(); producer && !weightWork.contains(producer))
          needed.insert(operand);
    }
    problem.needed.append(needed.begin(), needed.end());
    // Whole layers are not computed a third time.
    llvm::DenseSet<Value> there(saved.begin(), saved.end());
    auto policyOf = [&](int64_t layer) { return std::min(policy.of(layer), Recompute::Selective); };
    for (Value value : chooseSaved(problem, policyOf, [&](Value own) { return bytesAtBounds(own); }))
      if (there.contains(value))
        savedAgain.push_back(value);
      else
        savedByBackward.push_back(value);
  }

  void chooseCrossing() {
    SaveProblem problem;
    llvm::SetVector<Value> needed;
    for (Operation &op : step.getBody().front().without_terminator()) {
      if (forwardWork.contains(&op)) {
        problem.operations.push_back(&op);
        continue;
      }
      for (Value operand : op.getOperands())
        if (Operation *producer = operand.getDefiningOp(); producer && forwardWork.contains(producer))
          needed.insert(operand);
    }
    problem.needed.append(needed.begin(), needed.end());
    saved = chooseSaved(
        problem, [&](int64_t layer) { return policy.of(layer); }, [&](Value value) { return bytesAtBounds(value); });
  }

  DimExpr bytesOf(Value value) {
    nn::TensorType type = nn::typeOf(value);
    int64_t bits = type.getElementType().getIntOrFloatBitWidth();
    return nn::productOf(type.getShape()) * DimExpr(std::max<int64_t>(bits / 8, 1));
  }

  int64_t bytesAtBounds(Value value) {
    auto bytes =
        bytesOf(value).evaluate([&](std::string_view symbol) { return dims.bound(symbol).value_or(kAssumedBound); });
    return bytes.value_or(std::numeric_limits<int32_t>::max());
  }

  DictionaryAttr savedAttributes(size_t number) {
    return builder.getDictionaryAttr(builder.getNamedAttr(attributes::kSaved, builder.getI64IntegerAttr(number)));
  }

  func::FuncOp buildForward() {
    ProgramBuilder program(step, attributes::kForwardFunction);
    // Operations in their order, so that forward work is done as the graph has it.
    for (Operation &op : step.getBody().front().without_terminator())
      if (forwardWork.contains(&op))
        program.clone(&op);
    llvm::SmallVector<FunctionResult> results;
    for (unsigned i = 0; i < step.getNumResults(); ++i)
      if (isForwardResult(i) && !isPutOff(i))
        results.push_back({program.copy(returnedValues(step)[i]), step.getResultAttrDict(i)});
    for (auto [number, value] : llvm::enumerate(saved))
      results.push_back({program.copy(value), savedAttributes(number)});
    return program.finish(results, step);
  }

  void buildEvaluate(func::FuncOp forward) {
    ProgramBuilder program(step, attributes::kEvaluateFunction);
    for (Operation &op : step.getBody().front().without_terminator())
      if (evaluationWork.contains(&op))
        program.clone(&op);
    llvm::SmallVector<FunctionResult> results;
    for (unsigned i = 0; i < step.getNumResults(); ++i)
      if (isForwardResult(i))
        results.push_back({program.copy(returnedValues(step)[i]), step.getResultAttrDict(i)});
    program.finish(results, forward);
  }

  func::FuncOp buildBackward(func::FuncOp forward) {
    ProgramBuilder program(step, attributes::kBackwardFunction);
    for (auto [number, value] : llvm::enumerate(saved))
      program.addKept(value, savedAttributes(number));
    for (unsigned i = 0; i < step.getNumArguments(); ++i)
      if (step.getArgAttr(i, attributes::kLossScale) || step.getArgAttr(i, attributes::kEdgeGradient))
        program.addArgument(step.getArgument(i), step.getArgAttrDict(i));
    for (Operation &op : step.getBody().front().without_terminator())
      if (!forwardWork.contains(&op) && !weightWork.contains(&op))
        program.clone(&op);
    llvm::SmallVector<FunctionResult> results;
    for (unsigned i = 0; i < step.getNumResults(); ++i)
      if (isPutOff(i) || (isGradient(i) && !isWeightWork(i)))
        results.push_back({program.copy(returnedValues(step)[i]), step.getResultAttrDict(i)});
    for (auto [number, value] : llvm::enumerate(savedByBackward))
      results.push_back({program.copy(value), savedAttributes(saved.size() + number)});
    return program.finish(results, forward);
  }

  bool isWeightWork(unsigned result) {
    Operation *op = returnedValues(step)[result].getDefiningOp();
    return op && weightWork.contains(op);
  }

  void buildWeightGradient(func::FuncOp backward) {
    if (weightWork.empty())
      return;
    ProgramBuilder program(step, attributes::kWeightGradientFunction);
    for (auto [number, value] : llvm::enumerate(saved))
      if (llvm::is_contained(savedAgain, value))
        program.addKept(value, savedAttributes(number));
    for (auto [number, value] : llvm::enumerate(savedByBackward))
      program.addKept(value, savedAttributes(saved.size() + number));
    for (Operation &op : step.getBody().front().without_terminator())
      if (weightWork.contains(&op))
        program.clone(&op);
    llvm::SmallVector<FunctionResult> results;
    for (unsigned i = 0; i < step.getNumResults(); ++i)
      if (isGradient(i) && isWeightWork(i))
        results.push_back({program.copy(returnedValues(step)[i]), step.getResultAttrDict(i)});
    program.finish(results, backward);
  }

  void describeStash() {
    DimExpr total(0);
    for (Value value : saved)
      total = total + bytesOf(value);
    std::string text = std::to_string(saved.size()) + " values, " + total.str() + " bytes";
    step->getParentOp()->setAttr(attributes::kStash, builder.getStringAttr(text));
  }

  LogicalResult buildCount() {
    if (lossResults(graph).empty()) // A section without a loss.
      return success();
    ProgramBuilder program(graph, attributes::kCountFunction);
    llvm::SmallVector<FunctionResult> results;
    for (const LossResult &loss : lossResults(graph)) {
      if (loss.role != "count")
        continue;
      Value count = returnedValues(graph)[loss.index];
      if (std::optional<ParameterUse> use = dependsOnParameter(count, /*trainableOnly=*/true))
        return graph.emitError() << "the count of the loss '" << loss.name << "' depends on the parameter '"
                                 << use->name << "'; a count comes from data alone";
      results.push_back({program.copy(count), graph.getResultAttrDict(loss.index)});
    }
    program.finish(results, graph);
    return success();
  }

  func::FuncOp graph, step;
  const DimTable &dims;
  LayerPolicy policy;
  Builder builder;
  llvm::DenseSet<Operation *> evaluationWork, forwardWork, weightWork;
  llvm::DenseSet<Operation *> putOff; ///< From @forward to @backward.
  llvm::SmallVector<Value> saved, savedByBackward,
      savedAgain; ///< The last: of the first, what @weight_gradient reads, too.
};

struct SplitProgramsPass : PassWrapper<SplitProgramsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SplitProgramsPass)
  SplitProgramsPass() = default;
  SplitProgramsPass(const SplitProgramsPass &other) : PassWrapper(other) { recompute = other.recompute; }
  SplitProgramsPass(Recompute policy) { recompute = policy; }
  StringRef getArgument() const override { return "maestro-split-programs"; }
  StringRef getDescription() const override {
    return "@step becomes @count, @forward and @backward, and, where needed, @weight_gradient and @evaluate";
  }

  void runOnOperation() override {
    func::FuncOp graph = findFunction(getOperation(), attributes::kGraphFunction);
    func::FuncOp step = findFunction(getOperation(), attributes::kStepFunction);
    FailureOr<DimTable> dims = DimTable::of(getOperation());
    if (!graph || !step || failed(dims) || failed(ProgramSplitter(graph, step, *dims, policy()).split()))
      signalPassFailure();
  }

  LayerPolicy policy() {
    LayerPolicy policy{recompute.getValue()};
    auto own = getOperation()->getAttrOfType<StringAttr>(attributes::kRecompute);
    if (!own)
      return policy;
    policy.choice.most = recomputeFromName(own.getValue()).value_or(policy.choice.most);
    auto lighter = getOperation()->getAttrOfType<IntegerAttr>(attributes::kLighterLayers);
    auto layers = getOperation()->getAttrOfType<IntegerAttr>(attributes::kLayers);
    if (lighter && layers && policy.choice.most != Recompute::None) {
      policy.choice.lighter = static_cast<uint32_t>(lighter.getInt());
      policy.choice.evenly = getOperation()->hasAttr(attributes::kLighterEvenly);
      policy.layers = static_cast<uint32_t>(layers.getInt());
    }
    return policy;
  }

  Option<Recompute> recompute{
      *this, "recompute", llvm::cl::desc("What @backward may compute again"), llvm::cl::init(Recompute::None),
      llvm::cl::values(clEnumValN(Recompute::None, "none", "views, casts, masks"),
                       clEnumValN(Recompute::Selective, "selective", "elementwise operators and norms, too"),
                       clEnumValN(Recompute::Full, "full", "all but what passes from layer to layer"))};
};

} // namespace

std::unique_ptr<Pass> createSplitProgramsPass(Recompute recompute) {
  return std::make_unique<SplitProgramsPass>(recompute);
}

} // namespace maestro
