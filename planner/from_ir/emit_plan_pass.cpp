// --maestro-emit-plan: a module in the `plan` dialect -> a plan file.
#include "planner/from_ir/plan_from_ir.h"

#include "plan/builder.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace maestro::planner {
namespace {

struct EmitPlanPass : mlir::PassWrapper<EmitPlanPass, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(EmitPlanPass)

  EmitPlanPass() = default;
  EmitPlanPass(const EmitPlanPass &other) : PassWrapper(other) {}

  llvm::StringRef getArgument() const override { return "maestro-emit-plan"; }
  llvm::StringRef getDescription() const override { return "Writes a module in the plan dialect as a plan file"; }

  void runOnOperation() override {
    mlir::Block &body = *getOperation().getBody();
    auto plan = body.empty() ? plan_ir::PlanOp() : mlir::dyn_cast<plan_ir::PlanOp>(body.front());
    if (!plan) {
      getOperation().emitError("begins with no plan.plan: print a plan with maestro-dump --format mlir");
      return signalPassFailure();
    }
    if (Status written = write(plan); !written.isOk()) {
      plan.emitError(std::string(written.message()));
      signalPassFailure();
    }
  }

  Status write(plan_ir::PlanOp plan) {
    if (file.empty())
      return Status::invalidInput("say where to write it: --maestro-emit-plan=file=plan.mpl");
    MAESTRO_ASSIGN(std::vector<uint8_t> bytes, planFromIr(plan));
    return plan::writePlan(bytes, file);
  }

  Option<std::string> file{*this, "file", llvm::cl::desc("The plan file to write")};
};

} // namespace

void registerEmitPlanPass() { mlir::PassRegistration<EmitPlanPass>(); }

} // namespace maestro::planner
