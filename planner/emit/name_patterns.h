// Globs over state_dict names, as `frozen` and `no_decay` of a workload use them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace maestro::planner {

/// `*` stands for any text (dots too), `?` for one character.
bool matchesPattern(std::string_view name, std::string_view pattern);
bool matchesAny(std::string_view name, const std::vector<std::string> &patterns);

} // namespace maestro::planner
