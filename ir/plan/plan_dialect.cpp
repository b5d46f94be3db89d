// The dialect and its operations; their syntax is in syntax.cpp, what they must say about each other in verify.cpp.
#include "ir/plan/plan_dialect.h"

#include "ir/plan/syntax.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#include "llvm/ADT/TypeSwitch.h"

#include "ir/plan/plan_dialect.cpp.inc"
#include "ir/plan/plan_enums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "ir/plan/plan_attrs.cpp.inc"

#define GET_OP_CLASSES
#include "ir/plan/plan_ops.cpp.inc"

namespace maestro::plan_ir {

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/plan/plan_attrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/plan/plan_ops.cpp.inc"
      >();
}

} // namespace maestro::plan_ir
