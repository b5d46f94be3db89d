// Gradient of dropout: what was dropped is drawn again.
#include "ir/nn/gradients.h"

using namespace mlir;

namespace maestro::nn {

MAESTRO_GRADIENT(DropoutOp) {
  operandGradients.assign(3, Value());
  if (needed[0] && resultGradients[0])
    operandGradients[0] = GradientBuilder(*this, builder)
                              .emit<DropoutOp>(resultGradients[0], getState(), getSampleIds(), getRatioAttr(),
                                               getStreamAttr(), getStridesAttr());
  return success();
}

} // namespace maestro::nn
