// --maestro-differentiate: @graph gets a companion @step, which also computes the gradients.
//
//   func.func @graph(%x: … {nn.field = "x"}, %w: … {nn.parameter = "m/w", nn.trainable})
//       -> (… {nn.loss = "loss", nn.role = "sum"}, … {nn.loss = "loss", nn.role = "count"})
//
// gives
//
//   func.func @step(%x: …, %w: …, %scale: !nn.tensor<[], f32> {nn.loss_scale = "loss"})
//       -> (… {nn.loss = "loss", nn.role = "sum"}, … {nn.gradient = "m/w"})
//
// where scale is weight ÷ global count, so that gradients of micro-batches simply add up. Trainable
// parameters that no loss reaches have no such result; the module's nn.without_gradient names them.
#include "passes/differentiation.h"
#include "passes/graph_functions.h"
#include "passes/passes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace maestro {
namespace {

struct DifferentiatePass : PassWrapper<DifferentiatePass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DifferentiatePass)
  StringRef getArgument() const override { return "maestro-differentiate"; }
  StringRef getDescription() const override {
    return "Adds @step: loss sums and parameter gradients";
  }

  void runOnOperation() override {
    func::FuncOp graph = findFunction(getOperation(), attributes::kGraphFunction);
    if (!graph || failed(buildStep(graph)))
      signalPassFailure();
  }

  LogicalResult buildStep(func::FuncOp graph) {
    func::FuncOp step = graph.clone();
    step.setName(attributes::kStepFunction);
    OpBuilder(getOperation().getBodyRegion()).setInsertionPointAfter(graph);
    graph->getBlock()->getOperations().insertAfter(Block::iterator(graph), step);
    llvm::SmallVector<FunctionResult> results;
    llvm::SmallVector<IncomingGradient> incoming = addScales(step, results);
    llvm::SmallVector<unsigned> trainable;
    llvm::SmallVector<Value> wanted;
    for (unsigned i = 0; i < step.getNumArguments(); ++i)
      if (step.getArgAttr(i, attributes::kTrainable)) {
        trainable.push_back(i);
        wanted.push_back(step.getArgument(i));
      }
    OpBuilder builder(step.getBody().front().getTerminator());
    auto gradients = differentiate(builder, step.getBody().front(), wanted, incoming);
    if (failed(gradients))
      return failure();
    if (failed(nameGradients(step, trainable, *gradients, results)))
      return failure();
    setResults(step, results);
    eraseDeadOperations(step);
    return success();
  }

  /// One scale argument per loss sum, which becomes that sum's gradient and a result of @step.
  llvm::SmallVector<IncomingGradient> addScales(func::FuncOp step,
                                                llvm::SmallVectorImpl<FunctionResult> &results) {
    llvm::SmallVector<IncomingGradient> incoming;
    Builder builder(&getContext());
    auto scalar = nn::TensorType::get(&getContext(), {}, builder.getF32Type());
    for (const LossResult &loss : lossResults(step)) {
      if (loss.role != "sum")
        continue;
      NamedAttrList attributes;
      attributes.set(attributes::kLossScale, builder.getStringAttr(loss.name));
      if (loss.term != 0)
        attributes.set(attributes::kTerm, builder.getI64IntegerAttr(loss.term));
      Value sum = returnedValues(step)[loss.index];
      unsigned index = step.getNumArguments();
      (void)step.insertArgument(index, scalar, attributes.getDictionary(&getContext()),
                                sum.getLoc());
      incoming.push_back({sum, step.getArgument(index)});
      results.push_back({sum, lossAttributes(&getContext(), loss)});
    }
    return incoming;
  }

  LogicalResult nameGradients(func::FuncOp step, llvm::ArrayRef<unsigned> trainable,
                              llvm::ArrayRef<Value> gradients,
                              llvm::SmallVectorImpl<FunctionResult> &results) {
    Builder builder(&getContext());
    llvm::SmallVector<Attribute> without;
    size_t sums = results.size();
    for (auto [index, gradient] : llvm::zip_equal(trainable, gradients)) {
      StringAttr name = step.getArgAttrOfType<StringAttr>(index, attributes::kParameter);
      if (!gradient) {
        without.push_back(name);
        continue;
      }
      auto attribute = builder.getNamedAttr(attributes::kGradient, name);
      results.push_back({gradient, builder.getDictionaryAttr(attribute)});
    }
    if (!without.empty())
      getOperation()->setAttr(attributes::kWithoutGradient, builder.getArrayAttr(without));
    if (results.size() > sums)
      return success();
    return step.emitError() << "no trainable parameter reaches a loss (of " << trainable.size()
                            << "): nothing would be learned. Check the loss, and which "
                            << "components and parameters are frozen";
  }
};

} // namespace

std::unique_ptr<Pass> createDifferentiatePass() { return std::make_unique<DifferentiatePass>(); }

} // namespace maestro
