// maestro-opt: runs passes on IR in text, each by itself, for developers and lit tests.
//
//   maestro-opt model.mlir --maestro-differentiate --canonicalize
#include "ir/annotate_answers.h"
#include "ir/nn/nn.h"
#include "ir/section/section.h"
#include "passes/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::func::FuncDialect, maestro::nn::NNDialect, maestro::section::SectionDialect>();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
  maestro::registerAnnotateAnswersPass();
  maestro::registerPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Maestro's passes, one by one\n", registry));
}
