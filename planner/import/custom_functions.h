// Functions with a backward of their own (torch.autograd.Function): a file has what they compute, and nothing of the
// gradient that their author wrote.
#pragma once

#include "planner/import/metadata.h"

namespace maestro::planner {

/// A trained graph may have such functions where they are smooth and elementwise, so that there is one derivative
/// and a backward of one's own saves memory or time. Others are refused by name: a straight-through estimator's
/// gradient is not the derivative, which is 0, and no one can tell from outside.
Status checkCustomFunctions(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes);

} // namespace maestro::planner
