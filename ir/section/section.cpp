#include "ir/section/section.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#include "llvm/ADT/TypeSwitch.h"

#include "ir/section/section_dialect.cpp.inc"

#define GET_OP_CLASSES
#include "ir/section/section_ops.cpp.inc"

using namespace mlir;

namespace maestro::section {

void SectionDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "ir/section/section_ops.cpp.inc"
      >();
}

LogicalResult SectionOp::verify() {
  auto stage = static_cast<int64_t>(getStage()), stages = static_cast<int64_t>(getStages());
  if (stage < 0 || stage >= stages)
    return emitOpError() << "is stage " << stage << " of " << stages;
  return success();
}

ModuleOp SectionOp::getBody() {
  for (auto body : (*this)->getParentOfType<ModuleOp>().getOps<ModuleOp>())
    if (body.getSymName() == getName())
      return body;
  return nullptr;
}

SectionOp findSection(ModuleOp module, StringRef name) {
  for (auto section : module.getOps<SectionOp>())
    if (section.getName() == name)
      return section;
  return nullptr;
}

} // namespace maestro::section
