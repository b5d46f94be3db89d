// Predicted times as the plan holds them: picoseconds by product of symbols.
#pragma once

#include "ir/dim_expr.h"
#include "plan/builder.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace maestro::planner {

/// picoseconds by product of symbols (Plan.symbols): the time of work, as a polynomial.
using CostPolynomial = std::map<std::vector<uint32_t>, double>;

/// Adds work ÷ perSecond. What is no symbol (a rounded-up size) counts as at the bounds.
void addWork(CostPolynomial &cost, const DimExpr &work, double perSecond, const std::map<std::string, int64_t> &bounds,
             plan::PlanBuilder &tables);

std::vector<std::unique_ptr<plan::fb::CostTermT>> toTerms(const CostPolynomial &cost);

} // namespace maestro::planner
