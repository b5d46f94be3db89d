#include "base/nearest.h"

#include <algorithm>
#include <cstddef>

namespace maestro {
namespace {
/// Names that differ in case alone are the nearest of all.
char lowered(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Levenshtein distance without regard to case; swapped neighbours count once (optimal string alignment).
size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j)
    d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t cost = lowered(a[i - 1]) == lowered(b[j - 1]) ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + cost});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}
} // namespace

std::string nearestName(std::string_view name, std::span<const std::string> candidates) {
  size_t best = std::max<size_t>(name.size() / 2, 1) + 1;
  std::string nearest;
  for (const std::string &candidate : candidates) {
    size_t longer = std::max(candidate.size(), name.size());
    size_t shorter = std::min(candidate.size(), name.size());
    if (longer - shorter >= best)
      continue;
    size_t distance = editDistance(name, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string didYouMean(std::string_view name, std::span<const std::string> candidates) {
  std::string nearest = nearestName(name, candidates);
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

} // namespace maestro
