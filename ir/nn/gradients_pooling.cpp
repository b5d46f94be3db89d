// Gradients of pooling: one operator each.
#include "ir/nn/gradients.h"

using namespace mlir;

namespace maestro::nn {

MAESTRO_GRADIENT(MaxPoolOp) {
  operandGradients.assign(1, Value());
  if (needed[0] && resultGradients[0])
    operandGradients[0] =
        GradientBuilder(*this, builder)
            .emit<MaxPoolGradOp>(getX().getType(), getX(), resultGradients[0], getKernelAttr(), getStridesAttr(),
                                 getPadsAttr(), getDilationsAttr(), getCeilModeAttr(), getCountIncludePadAttr());
  return success();
}

MAESTRO_GRADIENT(AvgPoolOp) {
  operandGradients.assign(1, Value());
  if (needed[0] && resultGradients[0])
    operandGradients[0] =
        GradientBuilder(*this, builder)
            .emit<AvgPoolGradOp>(getX().getType(), resultGradients[0], getKernelAttr(), getStridesAttr(), getPadsAttr(),
                                 getDilationsAttr(), getCeilModeAttr(), getCountIncludePadAttr());
  return success();
}

} // namespace maestro::nn
