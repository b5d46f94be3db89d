#include "planner/emit/name_patterns.h"

#include <algorithm>

namespace maestro::planner {

bool matchesPattern(std::string_view name, std::string_view pattern) {
  // On a mismatch, go back to the last star and let it swallow one more character.
  size_t n = 0, p = 0, star = std::string_view::npos, swallowed = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n]) && pattern[p] != '*') {
      ++n;
      ++p;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      swallowed = n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++swallowed;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*')
    ++p;
  return p == pattern.size();
}

bool matchesAny(std::string_view name, const std::vector<std::string> &patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string &pattern) { return matchesPattern(name, pattern); });
}

} // namespace maestro::planner
