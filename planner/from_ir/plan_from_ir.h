// From the `plan` dialect to the bytes of a plan file: each operation is a row of the table that it is named after.
//
//   maestro-dump plan.mpl --format mlir | maestro-opt --maestro-emit-plan=file=same.mpl
//
// gives the same bytes for every plan whose kernels, scopes and attribute lists are in order of first use, as
// PlanBuilder makes them; a plan edited as text gets a file that the verifier has passed.
#pragma once

#include "base/status.h"
#include "ir/plan/plan_dialect.h"

#include <cstdint>
#include <vector>

namespace maestro::planner {

/// `plan` must have passed its verifier. InvalidInput where the verifier of plan files refuses what it says.
Result<std::vector<uint8_t>> planFromIr(plan_ir::PlanOp plan);

/// --maestro-emit-plan=file=FILE
void registerEmitPlanPass();

} // namespace maestro::planner
