// Structural checks of a parsed model, and the order of its nodes.
#pragma once

#include "base/status.h"

#include <cstdint>

namespace onnx {
class ModelProto;
}

namespace maestro::planner {

/// Checks IR and operator set versions, that names are defined exactly once, that initializers' data
/// matches their shapes, and that the graph has no cycle; sorts nodes that are out of order. `opset`
/// becomes the default domain's version.
Status checkModel(onnx::ModelProto &model, int64_t &opset);

} // namespace maestro::planner
