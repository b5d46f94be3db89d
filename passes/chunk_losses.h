// Over how many chunks of rows what is behind a section's heads may be done (chunk_losses.cpp).
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <vector>

namespace maestro {

/// Numbers to choose from, ascending, such that a chunk's logits are no smaller than all that they are computed from:
/// more chunks would save little more (Liger Kernel, arXiv 2410.10989). Empty where nothing can be chunked. Of a
/// section that has gone through Phase::Differentiate, in one piece.
std::vector<uint32_t> lossChunkCounts(mlir::ModuleOp section);

} // namespace maestro
