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

/// By product of symbols (Plan.symbols): a polynomial, of picoseconds where it is the time of work.
using CostPolynomial = std::map<std::vector<uint32_t>, double>;

constexpr double kPicoseconds = 1e12; ///< In a second.

/// Adds factor · work. A remainder, minimum or maximum counts as at the bounds.
void addTerms(CostPolynomial &sum, const DimExpr &work, double factor, const std::map<std::string, int64_t> &bounds,
              plan::PlanBuilder &tables);

/// At the bounds of the symbols.
double valueAtBounds(const DimExpr &work, const std::map<std::string, int64_t> &bounds);

std::vector<std::unique_ptr<plan::fb::CostTermT>> toTerms(const CostPolynomial &cost);

} // namespace maestro::planner
