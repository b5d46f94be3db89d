// Result types of dropout.
#include "ir/nn/infer.h"

namespace maestro::nn {

using llvm::Twine;
using mlir::failed;
using mlir::failure;

MAESTRO_INFER(DropoutOp) {
  Inference inference(getOperationName(), location, types);
  TensorType x = tensorOf(adaptor.getX()), state = tensorOf(adaptor.getState()), ids = tensorOf(adaptor.getSampleIds());
  double ratio = adaptor.getRatio().convertToDouble();
  if (failed(inference.checkFloat("x", x)) || failed(inference.checkRank("x", x, 1, TensorType::kMaxRank)) ||
      failed(inference.checkShape("state", state, {DimExpr(2)})) ||
      failed(inference.checkRank("sample_ids", ids, 1, 1)))
    return failure();
  if (!state.getElementType().isInteger(64) || !ids.getElementType().isInteger(64))
    return inference.fail("state and sample_ids must be i64");
  if (!(ratio >= 0.0 && ratio < 1.0))
    return inference.fail("ratio must lie in [0, 1), is " + std::to_string(ratio));
  if (static_cast<int64_t>(adaptor.getStrides().size()) != x.getRank() - 1)
    return inference.fail("wants " + Twine(x.getRank() - 1) + " strides, one for each dim of x " +
                          "after the first, has " + Twine(adaptor.getStrides().size()));
  return inference.add(x);
}

} // namespace maestro::nn
