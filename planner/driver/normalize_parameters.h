// Parameters as the optimizer wants them: f32 master values.
#pragma once

#include "base/status.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace maestro::planner {

/// Gives trainable arguments of 16 bits the type f32 (followed by a cast), so that every later step, the
/// executor and the checkpoint see one form.
Status normalizeParameters(mlir::func::FuncOp graph);

} // namespace maestro::planner
