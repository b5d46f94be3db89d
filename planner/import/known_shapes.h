// What is known of shapes and indices while they are still symbolic: for the import functions that move data.
#pragma once

#include "planner/import/emitter.h"

#include <string_view>
#include <vector>

namespace maestro::planner {

bool isConstantShape(const Shape &shape);
/// Requires isConstantShape().
std::vector<int64_t> constantShape(const Shape &shape);
/// InvalidInput naming `what` where a dim is known to be negative.
Status checkSizes(const Shape &shape, std::string_view what);

} // namespace maestro::planner
