#include "passes/stage_cuts.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace maestro {

std::vector<unsigned> cheapPlaces(const CutCosts &costs, double edge, double slack, size_t least) {
  std::vector<unsigned> all, places;
  for (unsigned cut = 1; cut + 1 < costs.work.size(); ++cut)
    if (costs.possible[cut])
      all.push_back(cut);
  double share = costs.work.back() * edge, fewest = std::numeric_limits<double>::infinity();
  for (unsigned cut : all)
    if (costs.work[cut] >= share && costs.work.back() - costs.work[cut] >= share)
      fewest = std::min(fewest, costs.crossing[cut]);
  for (double allowed = slack * fewest; places.size() < least && places.size() < all.size(); allowed *= 2) {
    places.clear();
    std::copy_if(all.begin(), all.end(), std::back_inserter(places), [&](unsigned cut) { return costs.crossing[cut] <= allowed; });
  }
  return places;
}

std::vector<unsigned> bestCuts(const CutCosts &costs, int64_t stages) {
  std::vector<unsigned> places = cheapPlaces(costs, 1.0 / static_cast<double>(2 * stages), 2, static_cast<size_t>(stages) - 1);
  places.push_back(static_cast<unsigned>(costs.work.size()) - 1);
  using Value = std::pair<double, double>;
  const Value never{std::numeric_limits<double>::infinity(), 0};
  std::vector<std::vector<Value>> best(static_cast<size_t>(stages), std::vector<Value>(places.size(), never));
  std::vector<std::vector<unsigned>> previous(static_cast<size_t>(stages), std::vector<unsigned>(places.size(), 0));
  for (unsigned end = 0; end < places.size(); ++end)
    best[0][end] = {costs.work[places[end]], 0};
  for (size_t stage = 1; stage < best.size(); ++stage)
    for (unsigned end = 1; end < places.size(); ++end)
      for (unsigned begin = 0; begin < end; ++begin) {
        const Value &before = best[stage - 1][begin];
        Value value{std::max(before.first, costs.work[places[end]] - costs.work[places[begin]]),
                    before.second + costs.crossing[places[begin]]};
        if (value < best[stage][end]) {
          best[stage][end] = value;
          previous[stage][end] = begin;
        }
      }
  unsigned end = static_cast<unsigned>(places.size()) - 1;
  if (best.back()[end] == never)
    return std::vector<unsigned>(std::min<size_t>(places.size(), best.size() - 1));
  std::vector<unsigned> ends(best.size());
  for (size_t stage = best.size(); stage-- > 0; end = previous[stage][end])
    ends[stage] = places[end];
  return ends;
}

} // namespace maestro
