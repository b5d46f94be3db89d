// Symbolic dims of the IR as expressions of the plan.
#pragma once

#include "ir/dim_expr.h"
#include "plan/builder.h"

namespace maestro::planner {

/// Index into Plan.exprs. Every symbol of `expr` must have been declared (PlanBuilder::symbol).
uint32_t toPlan(plan::PlanBuilder &builder, const DimExpr &expr);

} // namespace maestro::planner
