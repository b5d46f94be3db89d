// The raising passes in their order: what an exporter decomposed becomes coarse operators again. Each is in
// passes/raise_*.cpp; what matches none of them stays as it is, and trains.
#include "passes/passes.h"
#include "passes/raise_patterns.h"

#include "ir/nn/nn.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

namespace maestro {
namespace {

using AddPatterns = void (*)(mlir::RewritePatternSet &);

/// One set of patterns, applied until nothing matches.
class RaisePass : public mlir::PassWrapper<RaisePass, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RaisePass)

  RaisePass(llvm::StringRef argument, llvm::StringRef description, AddPatterns addPatterns)
      : argument(argument), description(description), addPatterns(addPatterns) {}

  llvm::StringRef getArgument() const override { return argument; }
  llvm::StringRef getDescription() const override { return description; }

private:
  void runOnOperation() override {
    mlir::RewritePatternSet patterns(&getContext());
    addPatterns(patterns);
    if (mlir::succeeded(mlir::applyPatternsGreedily(getOperation(), std::move(patterns))))
      return;
    getOperation()->emitError() << "the patterns of --" << argument << " match again and again";
    signalPassFailure();
  }

  llvm::StringRef argument, description;
  AddPatterns addPatterns;
};

struct Raise {
  llvm::StringLiteral argument, description;
  AddPatterns addPatterns;
};

/// Products come before those that look for products: they see transposes inside them. Attention comes behind what it
/// contains.
constexpr Raise kRaises[] = {
    {"maestro-raise-gathers", "Gathers along rows out of flat ones", addRaiseGatherPatterns},
    {"maestro-raise-products", "Products absorb transposes and biases", addRaiseProductPatterns},
    {"maestro-raise-norms", "RMS norms out of their formula", addRaiseNormPatterns},
    {"maestro-raise-activations", "silu and gelu out of their formulas", addRaiseActivationPatterns},
    {"maestro-raise-glu", "Gated linear units out of activations and products", addRaiseGluPatterns},
    {"maestro-raise-rope", "Rotary embeddings out of their formula", addRaiseRopePatterns},
    {"maestro-raise-masks", "Masks of attention that are exact", addRaiseMaskPatterns},
    {"maestro-raise-attention", "Attention out of products and softmax", addRaiseAttentionPatterns},
    {"maestro-raise-causal", "Causality out of masks of attention", addRaiseCausalPatterns},
    {"maestro-raise-sequence-major", "Attention without transposes around it", addRaiseSequenceMajorPatterns},
};

std::unique_ptr<mlir::Pass> createRaisePass(const Raise &raise) {
  return std::make_unique<RaisePass>(raise.argument, raise.description, raise.addPatterns);
}

} // namespace

void addRaisePasses(mlir::OpPassManager &manager) {
  for (const Raise &raise : kRaises)
    manager.addPass(createRaisePass(raise));
}

void registerRaisePasses() {
  for (const Raise &raise : kRaises)
    mlir::registerPass([&raise] { return createRaisePass(raise); });
}

} // namespace maestro
