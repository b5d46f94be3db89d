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
// parameters that no loss reaches have no such result.
//
// In a section, the gradient of a result that leaves over an edge arrives as an argument
// (nn.edge_gradient), and the gradient of what came over an edge is a result, where the edge carries
// gradients. A section where nothing trains gets a @step that is its @graph without counts.
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
  StringRef getDescription() const override { return "Adds @step: loss sums and parameter gradients"; }

  void runOnOperation() override {
    func::FuncOp graph = findFunction(getOperation(), attributes::kGraphFunction);
    if (!graph || failed(buildStep(graph)))
      return signalPassFailure();
    getOperation().walk([](nn::DetachOp detached) { // It has said what it had to.
      detached.replaceAllUsesWith(detached.getX());
      detached.erase();
    });
  }

  LogicalResult buildStep(func::FuncOp graph) {
    func::FuncOp step = graph.clone();
    step.setName(attributes::kStepFunction);
    graph->getBlock()->getOperations().insertAfter(Block::iterator(graph), step);
    llvm::SmallVector<FunctionResult> results;
    llvm::SmallVector<IncomingGradient> incoming = addScales(step, results);
    addEdgeGradients(step, incoming, results);
    llvm::SmallVector<unsigned> wantedArguments;
    llvm::SmallVector<Value> wanted;
    for (unsigned i = 0; i < step.getNumArguments(); ++i)
      if (step.getArgAttr(i, attributes::kTrainable) ||
          (step.getArgAttr(i, attributes::kCarriesGradient) && step.getArgAttr(i, attributes::kEdge))) {
        wantedArguments.push_back(i);
        wanted.push_back(step.getArgument(i));
      }
    OpBuilder builder(step.getBody().front().getTerminator());
    auto gradients = differentiate(builder, step.getBody().front(), wanted, incoming);
    if (failed(gradients))
      return failure();
    if (failed(nameGradients(step, wantedArguments, *gradients, results)))
      return failure();
    setResults(step, results);
    eraseDeadOperations(step);
    return success();
  }

  /// What leaves over an edge stays a result; its gradient arrives as an argument where the edge carries one.
  void addEdgeGradients(func::FuncOp step, llvm::SmallVectorImpl<IncomingGradient> &incoming,
                        llvm::SmallVectorImpl<FunctionResult> &results) {
    Builder builder(&getContext());
    for (unsigned i = 0; i < step.getNumResults(); ++i) {
      StringRef edge = resultText(step, i, attributes::kEdge);
      if (edge.empty())
        continue;
      Value value = returnedValues(step)[i];
      results.push_back({value, step.getResultAttrDict(i)});
      if (!step.getResultAttr(i, attributes::kCarriesGradient))
        continue;
      auto attribute = builder.getNamedAttr(attributes::kEdgeGradient, builder.getStringAttr(edge));
      unsigned index = step.getNumArguments();
      (void)step.insertArgument(index, value.getType(), builder.getDictionaryAttr(attribute), value.getLoc());
      incoming.push_back({value, step.getArgument(index)});
    }
  }

  /// One scale argument per loss sum, which becomes that sum's gradient and a result of @step.
  llvm::SmallVector<IncomingGradient> addScales(func::FuncOp step, llvm::SmallVectorImpl<FunctionResult> &results) {
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
      (void)step.insertArgument(index, scalar, attributes.getDictionary(&getContext()), sum.getLoc());
      incoming.push_back({sum, step.getArgument(index)});
      results.push_back({sum, lossAttributes(&getContext(), loss)});
    }
    return incoming;
  }

  LogicalResult nameGradients(func::FuncOp step, llvm::ArrayRef<unsigned> wanted, llvm::ArrayRef<Value> gradients,
                              llvm::SmallVectorImpl<FunctionResult> &results) {
    Builder builder(&getContext());
    OpBuilder zeros(step.getBody().front().getTerminator());
    bool anyEdge =
        llvm::any_of(results, [](const FunctionResult &result) { return result.attributes.get(attributes::kEdge); });
    size_t before = results.size();
    for (auto [index, found] : llvm::zip_equal(wanted, gradients)) {
      Value gradient = found;
      bool isEdge = step.getArgAttr(index, attributes::kEdge) != nullptr;
      StringRef kind = isEdge ? attributes::kEdge : attributes::kParameter;
      StringAttr name = step.getArgAttrOfType<StringAttr>(index, kind);
      if (!gradient && isEdge) // Read by comparisons and their like alone.
        gradient =
            nn::FillOp::create(zeros, step.getLoc(), step.getArgument(index).getType(), zeros.getF64FloatAttr(0.0));
      if (!gradient)
        continue;
      auto attribute = builder.getNamedAttr(isEdge ? attributes::kEdgeGradient : attributes::kGradient, name);
      results.push_back({gradient, builder.getDictionaryAttr(attribute)});
    }
    if (results.size() > before || anyEdge || getOperation()->getParentOp() /* a section */)
      return success();
    return step.emitError() << "no trainable parameter reaches a loss (of " << wanted.size()
                            << "): nothing would be learned. Check the loss, and which "
                            << "components and parameters are frozen";
  }
};

} // namespace

std::unique_ptr<Pass> createDifferentiatePass() { return std::make_unique<DifferentiatePass>(); }

} // namespace maestro
