// What operators answer to their interfaces, as attributes; see ir/annotate_answers.h.
#include "ir/annotate_answers.h"
#include "ir/nn/nn.h"

#include "llvm/ADT/StringExtras.h"

namespace maestro {
namespace {

std::string joinNumbers(llvm::ArrayRef<unsigned> numbers) {
  return llvm::join(llvm::map_range(numbers, [](unsigned n) { return std::to_string(n); }), ",");
}

/// "0->0,1->0": which operands results may be written over.
std::string reuseText(nn::KernelOpInterface op) {
  llvm::SmallVector<std::string> pairs;
  for (unsigned result = 0; result < op->getNumResults(); ++result)
    for (unsigned operand = 0; operand < op->getNumOperands(); ++operand)
      if (op.canReuse(operand, result))
        pairs.push_back(std::to_string(operand) + "->" + std::to_string(result));
  return llvm::join(pairs, ",");
}

std::string accumulateText(nn::KernelOpInterface op) {
  llvm::SmallVector<unsigned> results;
  for (unsigned result = 0; result < op->getNumResults(); ++result)
    if (op.canAccumulate(result))
      results.push_back(result);
  return joinNumbers(results);
}

/// "operands 0,1: 8*n bytes"
std::string saveText(const nn::SaveAlternative &alternative) {
  std::string text;
  if (!alternative.operands.empty())
    text += "operands " + joinNumbers(alternative.operands) + " ";
  if (!alternative.results.empty())
    text += "results " + joinNumbers(alternative.results) + " ";
  return text.empty() ? "nothing" : text + "(" + alternative.bytes.str() + " bytes)";
}

class AnnotateAnswersPass : public mlir::PassWrapper<AnnotateAnswersPass, mlir::OperationPass<>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(AnnotateAnswersPass)

  llvm::StringRef getArgument() const override { return "maestro-annotate-answers"; }
  llvm::StringRef getDescription() const override { return "Write down what operators answer to their interfaces"; }

  void runOnOperation() override {
    getOperation()->walk([&](nn::KernelOpInterface op) { annotate(op); });
  }

private:
  void annotate(nn::KernelOpInterface op) {
    auto cost = mlir::cast<nn::CostOpInterface>(op.getOperation());
    auto shardable = mlir::cast<nn::ShardableOpInterface>(op.getOperation());
    set(op, "nn.factors", shardable.getFactorRule().str());
    set(op, "nn.flops", cost.getFlops().str());
    set(op, "nn.bytes", cost.getBytes().str());
    set(op, "nn.kernel", op.getKernelName().str());
    set(op, "nn.reuse", reuseText(op));
    set(op, "nn.accumulate", accumulateText(op));
    if (auto differentiable = mlir::dyn_cast<nn::DifferentiableOpInterface>(op.getOperation())) {
      llvm::SmallVector<std::string> saves;
      for (const nn::SaveAlternative &alternative : differentiable.getSaveAlternatives())
        saves.push_back(saveText(alternative));
      set(op, "nn.saves", llvm::join(saves, " or "));
    }
  }

  void set(mlir::Operation *op, llvm::StringRef name, const std::string &text) {
    if (!text.empty())
      op->setDiscardableAttr(name, mlir::StringAttr::get(&getContext(), text));
  }
};

} // namespace

std::unique_ptr<mlir::Pass> createAnnotateAnswersPass() { return std::make_unique<AnnotateAnswersPass>(); }

void registerAnnotateAnswersPass() { mlir::PassRegistration<AnnotateAnswersPass>(); }

} // namespace maestro
