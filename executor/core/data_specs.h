// What a plan says of its data: symbols and fields, as the data library wants them.
#pragma once

#include "executor/data/field.h"
#include "plan/plan.h"

#include <vector>

namespace maestro::executor {

std::vector<data::SymbolSpec> symbolSpecs(const plan::Plan &plan);
std::vector<data::FieldSpec> fieldSpecs(const plan::Plan &plan);

} // namespace maestro::executor
