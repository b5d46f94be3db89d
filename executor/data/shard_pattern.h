// From what --data says to a list of files.
#pragma once

#include "base/status.h"

#include <span>
#include <string>
#include <vector>

namespace maestro::data {

/// Expands braces ('part-{000..012}.tar', '{train,extra}.tar'; a range keeps its zeros) and then
/// globs
/// ('shards/*.tar'; in alphabetic order; without the indexes that are kept there). The result is in the order of the
/// patterns; every path is a regular file. A pattern that matches nothing is an error, as is a folder.
Result<std::vector<std::string>> expandShardPatterns(std::span<const std::string> patterns);

/// The brace step alone, without looking at files.
Result<std::vector<std::string>> expandBraces(const std::string &pattern);

} // namespace maestro::data
