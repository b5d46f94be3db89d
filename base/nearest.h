// "Did you mean …": the nearest of a set of known names, for messages about misspelt ones.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace maestro {

/// The candidate with the smallest edit distance to `name`; empty when none is closer than half
/// of the name's length. Ties go to the earlier candidate.
std::string nearestName(std::string_view name, std::span<const std::string> candidates);

/// "; did you mean 'x'?" or "" — to be appended to a message.
std::string didYouMean(std::string_view name, std::span<const std::string> candidates);

} // namespace maestro
