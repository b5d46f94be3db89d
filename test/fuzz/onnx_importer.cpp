// Reads the input as an ONNX model and imports what passes the checks. A refusal is fine; anything else is a defect.
#include "planner/import/importer.h"

#include <cstdint>

using namespace maestro;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  // One context for all inputs: types and attributes that it collects are small beside what a run may use.
  static auto *context = [] {
    auto *made = new mlir::MLIRContext(mlir::MLIRContext::Threading::DISABLED);
    planner::loadImportDialects(*made);
    return made;
  }();
  auto file = planner::parseOnnx({bytes, size}, "input.onnx");
  if (!file)
    return 0;
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(mlir::UnknownLoc::get(context));
  auto model = planner::importModel(*file, planner::ImportOptions(), *module);
  (void)model.isOk();
  return 0;
}
