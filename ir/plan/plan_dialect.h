// The `plan` dialect (plan_ops.td): the one header for those who build or read plans as IR.
//
// maestro-dump --format mlir prints a plan as this dialect prints itself, without linking MLIR (plan/print/mlir.cpp);
// test/plan holds the two together.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"

#include <cstdint>

namespace maestro::plan_ir {

/// As DimOp of plan/plan.fbs; Node refers to an entry of the table.
enum class ExprOp : uint8_t { Constant, Symbol, Add, Mul, FloorDiv, CeilDiv, Mod, Min, Max, Node };

/// In place of a buffer: an absent operand, or a result that nobody reads.
inline constexpr int64_t kNoBuffer = -1;

inline llvm::hash_code hash_value(ExprOp op) { return llvm::hash_value(static_cast<uint8_t>(op)); }

} // namespace maestro::plan_ir

#include "ir/plan/plan_dialect.h.inc"
#include "ir/plan/plan_enums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "ir/plan/plan_attrs.h.inc"

#define GET_OP_CLASSES
#include "ir/plan/plan_ops.h.inc"
