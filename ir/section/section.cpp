#include "ir/section/section.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#include "llvm/ADT/TypeSwitch.h"

#include "ir/section/section_dialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "ir/section/section_attrs.cpp.inc"

#define GET_OP_CLASSES
#include "ir/section/section_ops.cpp.inc"

using namespace mlir;

namespace maestro::section {

void SectionDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/section/section_attrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/section/section_ops.cpp.inc"
      >();
}

LogicalResult LayoutAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t dataParallel,
                                 int64_t stages, int64_t microBatch, bool, int64_t tensor) {
  if (dataParallel < 1 || stages < 1 || microBatch < 1 || tensor < 1)
    return emitError() << "data_parallel " << dataParallel << ", stages " << stages << ", micro_batch " << microBatch
                       << " and tensor " << tensor << " must be at least 1";
  return success();
}

LogicalResult SectionOp::verify() {
  int64_t stages = getLayout() ? getLayout()->getStages() : 1;
  auto stage = static_cast<int64_t>(getStage());
  if (stage < 0 || (getOf() && stage >= stages))
    return emitOpError() << "is stage " << stage << " of " << stages;
  if (std::optional<llvm::ArrayRef<int64_t>> devices = getDevices()) {
    if (!getLayout())
      return emitOpError() << "has devices and no layout";
    if (static_cast<int64_t>(devices->size()) != getLayout()->getDataParallel())
      return emitOpError() << "has " << devices->size() << " devices for " << getLayout()->getDataParallel()
                           << " replicas";
    for (int64_t device : *devices)
      if (device < 0)
        return emitOpError() << "device " << device << " is negative";
  }
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
