// The `section` dialect (section_ops.td): the one header for those who build or read sections.
//
// Sections are no symbols and hold no regions: libMLIR and this library may be built by different compilers, and then
// disagree about the identity of upstream's traits.
#pragma once

#include "ir/nn/nn.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"

#include "ir/section/section_dialect.h.inc"

#define GET_OP_CLASSES
#include "ir/section/section_ops.h.inc"

namespace maestro::section {

/// The section, or stage, of that name in the module; null when there is none.
SectionOp findSection(mlir::ModuleOp module, llvm::StringRef name);

} // namespace maestro::section
