// Blocks of torch.no_grad() and torch.autocast(). PyTorch's exporter makes a function of such a block, and inlines it:
// of its nodes, the innermost line of code is one of generated code. Which of the two it was is not in the file, so
// that nothing says whether gradients end there, but a detach() behind the block: maestro.export writes one.
#pragma once

#include "planner/import/metadata.h"

namespace maestro::planner {

/// A result of such a block that depends on a trained parameter is refused where anything but detach() reads it.
Status checkWrappedBlocks(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes,
                          const onnx::GraphProto &graph, const GraphSignature &signature);

} // namespace maestro::planner
