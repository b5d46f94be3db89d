// Which kernels operators want, where they may write over an operand, and what they can add to.
#include "ir/nn/nn.h"

namespace maestro::nn {

// Nothing runs: a reshape's result is its operand, a constant's bytes lie in the plan.
llvm::StringRef ReshapeOp::getKernelName() { return ""; }
llvm::StringRef ConstantOp::getKernelName() { return ""; }

llvm::StringRef MatmulAddOp::getKernelName() { return "matmul"; }

//===----------------------------------------------------------------------===//
// Reuse: these read a whole row before they write it
//===----------------------------------------------------------------------===//

bool SoftmaxOp::canReuse(unsigned, unsigned) { return true; }
bool LogSoftmaxOp::canReuse(unsigned, unsigned) { return true; }
bool SoftmaxGradOp::canReuse(unsigned, unsigned) { return true; }
bool LogSoftmaxGradOp::canReuse(unsigned, unsigned) { return true; }
bool CrossEntropyGradOp::canReuse(unsigned operand, unsigned) { return operand == 0; }
bool KlDivergenceGradOp::canReuse(unsigned operand, unsigned) { return operand == 0; }

/// Element by element.
bool GluGradOp::canReuse(unsigned, unsigned) { return true; }
/// The addend is where sums begin.
bool MatmulAddOp::canReuse(unsigned operand, unsigned) { return operand == 2; }

//===----------------------------------------------------------------------===//
// Accumulation: gradients of parameters add up over micro-batches where they are formed
//===----------------------------------------------------------------------===//

bool MatmulOp::canAccumulate(unsigned) { return true; }
bool ReduceSumOp::canAccumulate(unsigned) { return true; }
bool GatherGradOp::canAccumulate(unsigned) { return true; }
bool ConvGradWeightOp::canAccumulate(unsigned) { return true; }
bool LayerNormGradOp::canAccumulate(unsigned result) { return result > 0; }
bool RmsNormGradOp::canAccumulate(unsigned result) { return result > 0; }

} // namespace maestro::nn
