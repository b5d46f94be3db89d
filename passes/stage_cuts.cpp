#include "passes/stage_cuts.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace maestro {

namespace {

/// A piece with more than this share of the work is cut further, if it can be.
constexpr double kLargePiece = 0.5;

/// Operators [first, last).
struct Piece {
  unsigned first, last;
};

/// Where a piece can be cut, and the least that crosses in its midst; infinite where nothing is possible there.
struct Places {
  std::vector<unsigned> all;
  double fewest = std::numeric_limits<double>::infinity();

  Places(const CutCosts &costs, Piece piece, double edge) {
    double begin = costs.work[piece.first], end = costs.work[piece.last], share = (end - begin) * edge;
    for (unsigned cut = piece.first + 1; cut < piece.last; ++cut) {
      if (!costs.possible[cut])
        continue;
      all.push_back(cut);
      if (costs.work[cut] - begin >= share && end - costs.work[cut] >= share)
        fewest = std::min(fewest, costs.crossing[cut]);
    }
  }
  std::vector<unsigned> where(const CutCosts &costs, double allowed) const {
    std::vector<unsigned> places;
    std::copy_if(all.begin(), all.end(), std::back_inserter(places),
                 [&](unsigned cut) { return costs.crossing[cut] <= allowed; });
    return places;
  }
};

Piece largestPiece(const CutCosts &costs, const std::vector<unsigned> &places) {
  Piece largest{0, 0};
  unsigned first = 0;
  auto consider = [&](unsigned last) {
    if (costs.work[last] - costs.work[first] > costs.work[largest.last] - costs.work[largest.first])
      largest = {first, last};
    first = last;
  };
  std::for_each(places.begin(), places.end(), consider);
  consider(static_cast<unsigned>(costs.work.size()) - 1);
  return largest;
}

} // namespace

std::vector<unsigned> cheapPlaces(const CutCosts &costs, double edge, double slack, size_t least) {
  Places whole(costs, {0, static_cast<unsigned>(costs.work.size()) - 1}, edge);
  std::vector<unsigned> places;
  for (double allowed = slack * whole.fewest; places.size() < least && places.size() < whole.all.size(); allowed *= 2)
    places = whole.where(costs, allowed);
  // Losses that take long lie in the midst, too, and less crosses before them than between layers.
  for (;;) {
    Piece piece = largestPiece(costs, places);
    if (costs.work[piece.last] - costs.work[piece.first] <= kLargePiece * costs.work.back())
      return places;
    Places within(costs, piece, edge);
    if (within.fewest == std::numeric_limits<double>::infinity())
      return places;
    std::vector<unsigned> more = within.where(costs, slack * within.fewest);
    places.insert(std::lower_bound(places.begin(), places.end(), piece.first + 1), more.begin(), more.end());
  }
}

std::vector<unsigned> bestCuts(const CutCosts &costs, int64_t stages) {
  std::vector<unsigned> places =
      cheapPlaces(costs, 1.0 / static_cast<double>(2 * stages), 2, static_cast<size_t>(stages) - 1);
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
