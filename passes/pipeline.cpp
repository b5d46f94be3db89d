// The way of a graph from import to programs, top to bottom, and the names of its phases.
#include "passes/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

#include <array>

using namespace mlir;

namespace maestro {
namespace {

constexpr std::array<std::pair<Phase, llvm::StringLiteral>, 6> kPhases{{
    {Phase::Import, "import"},
    {Phase::Raise, "raise"},
    {Phase::Loss, "loss"},
    {Phase::Partition, "partition"},
    {Phase::Differentiate, "differentiate"},
    {Phase::Split, "split"},
}};

/// Dead and repeated operators go; the verifier of the phase has the last word.
void endPhase(OpPassManager &manager, Phase phase) {
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createVerifyPhasePass(phase));
}

struct PipelineFlags : PassPipelineOptions<PipelineFlags> {
  Option<Phase> stopAfter{*this, "stop-after", llvm::cl::desc("The last phase"), llvm::cl::init(Phase::Split),
                          llvm::cl::values(clEnumValN(Phase::Import, "import", "as imported"),
                                           clEnumValN(Phase::Raise, "raise", "coarse operators"),
                                           clEnumValN(Phase::Loss, "loss", "losses as sums and counts"),
                                           clEnumValN(Phase::Partition, "partition", "sections and edges"),
                                           clEnumValN(Phase::Differentiate, "differentiate", "@step"),
                                           clEnumValN(Phase::Split, "split", "programs"))};
  Option<Recompute> recompute{
      *this, "recompute", llvm::cl::desc("What @backward may compute again"), llvm::cl::init(Recompute::None),
      llvm::cl::values(clEnumValN(Recompute::None, "none", "views, casts, masks"),
                       clEnumValN(Recompute::Selective, "selective", "elementwise operators and norms, too"),
                       clEnumValN(Recompute::Full, "full", "all but what passes from layer to layer"))};
  ListOption<std::string> bf16Components{*this, "bf16-components",
                                         llvm::cl::desc("Components whose products are computed in bf16")};
};

} // namespace

llvm::StringRef nameOf(Phase phase) {
  for (const auto &[value, name] : kPhases)
    if (value == phase)
      return name;
  return "";
}

std::optional<Phase> phaseFromName(llvm::StringRef text) {
  for (const auto &[value, name] : kPhases)
    if (name == text)
      return value;
  return std::nullopt;
}

std::string phaseNames() {
  std::string text;
  for (const auto &[value, name] : kPhases)
    text += (text.empty() ? "" : ", ") + name.str();
  return text;
}

/// Up to Phase::Loss: the graph in one piece.
static void buildGraphPhases(OpPassManager &manager, const PipelineOptions &options) {
  // What the importer wrote, without what nothing reads.
  endPhase(manager, Phase::Import);
  if (options.stopAfter == Phase::Import)
    return;

  // Coarse operators: their gradients, costs and kernels are better than those of their parts.
  addRaisePasses(manager);
  endPhase(manager, Phase::Raise);
  if (options.stopAfter == Phase::Raise)
    return;

  // Means of a batch are not means of micro-batches' means: sums and counts from here on. Checked
  // on the forward graph, before gradients blur whose fault a refusal is.
  manager.addNestedPass<func::FuncOp>(createFoldBroadcastsPass());
  manager.addPass(createDecomposeLossPass());
  manager.addPass(createCheckSamplesPass());
  manager.addPass(createCheckPaddingPass());
  // Before gradients, so that theirs are products in bf16, too.
  if (!options.bf16Components.empty())
    manager.addPass(createLowerPrecisionPass(options.bf16Components, options.bf16Parameters));
  endPhase(manager, Phase::Loss);
}

void buildPipeline(OpPassManager &manager, const PipelineOptions &options) {
  if (!options.startAfter || *options.startAfter < Phase::Loss)
    buildGraphPhases(manager, options);
  if (options.stopAfter <= Phase::Loss)
    return;

  // From here on every section is a world of its own, with edges as its arguments and results.
  manager.addPass(createPartitionSectionsPass(options.partition));
  manager.addPass(createCheckPaddingPass());
  endPhase(manager, Phase::Partition);
  if (options.stopAfter == Phase::Partition)
    return;

  // CSE at the end merges what several gradients compute alike; gradients of sums are broadcasts.
  OpPassManager &differentiation = manager.nest<ModuleOp>();
  differentiation.addPass(createDifferentiatePass());
  differentiation.addNestedPass<func::FuncOp>(createFoldBroadcastsPass());
  endPhase(manager, Phase::Differentiate);
  if (options.stopAfter == Phase::Differentiate)
    return;

  // Gradients are there now, and what crosses is not chosen yet: split values are kept split.
  manager.addNestedPass<ModuleOp>(createShardPass());
  // States of rows are known by now: chunks hide them.
  manager.addNestedPass<ModuleOp>(createChunkLossesPass());
  // Last: what crosses from forward to backward is final after this.
  manager.addNestedPass<ModuleOp>(createSplitProgramsPass(options.recompute));
  // Behind it: the additions are no operators that anything asks for gradients or states of sums.
  manager.nest<ModuleOp>().addNestedPass<func::FuncOp>(createFuseAdditionsPass());
  endPhase(manager, Phase::Split);
}

void registerPasses() {
  registerRaisePasses();
  registerPass([] { return createFoldBroadcastsPass(); });
  registerPass([] { return createDecomposeLossPass(); });
  registerPass([] { return createCheckSamplesPass(); });
  registerPass([] { return createCheckPaddingPass(); });
  registerPass([] { return createLowerPrecisionPass(); });
  registerPass([] { return createPartitionSectionsPass(); });
  registerPass([] { return createDifferentiatePass(); });
  registerPass([] { return createShardPass(); });
  registerPass([] { return createChunkLossesPass(); });
  registerPass([] { return createSplitProgramsPass(); });
  registerPass([] { return createFuseAdditionsPass(); });
  registerPass([] { return createVerifyPhasePass(Phase::Import); });
  PassPipelineRegistration<PipelineFlags>(
      "maestro-pipeline", "From an imported graph to programs", [](OpPassManager &manager, const PipelineFlags &flags) {
        PipelineOptions options;
        options.stopAfter = flags.stopAfter;
        options.recompute = flags.recompute;
        options.bf16Components.assign(flags.bf16Components.begin(), flags.bf16Components.end());
        buildPipeline(manager, options);
      });
}

} // namespace maestro
