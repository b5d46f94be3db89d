// What parameters begin with where no file holds their values.
#pragma once

#include "planner/emit/emit_plan.h"

namespace maestro::planner {

/// Norms' scales are one, biases zero, the rest normal with the deviation 0.02 that GPT-2 and its successors use.
void chooseInitialValues(const GraphParameter &source, plan::fb::ParameterT &parameter);

} // namespace maestro::planner
