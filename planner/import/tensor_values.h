// The values of small TensorProtos, from raw bytes or typed fields.
#pragma once

#include "planner/import/symbolic_value.h"

#include "mlir/IR/BuiltinAttributes.h"

namespace onnx {
class TensorProto;
}

namespace maestro::planner {

/// Whether the values stand in the parsed model (stripWeights() took large ones out).
bool hasValues(const onnx::TensorProto &tensor);

/// Of at most kMaxFoldedElements elements. Fails when data and shape contradict each other.
Result<FoldedTensor> readFolded(const onnx::TensorProto &tensor);
/// Of any number of elements.
Result<mlir::DenseElementsAttr> readElements(const onnx::TensorProto &tensor, mlir::MLIRContext &context);

} // namespace maestro::planner
