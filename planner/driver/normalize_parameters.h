// Parameters as the optimizer wants them: the state_dict's shape, f32 master values.
#pragma once

#include "base/status.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace maestro::planner {

/// Gives arguments whose bytes are stored transposed the state_dict's shape (followed by a transpose), and
/// trainable ones of 16 bits the type f32 (followed by a cast), so that every later step, the executor and
/// the checkpoint see one form.
Status normalizeParameters(mlir::func::FuncOp graph);

} // namespace maestro::planner
