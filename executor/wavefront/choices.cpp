#include "executor/wavefront/choices.h"

#include <algorithm>
#include <span>

namespace maestro::wavefront {
namespace {

enum class Change : uint8_t {
  Ends, Alike, Pools, Finer, Coarser, Slack, SlackLittle, Bands, ManyBands, Slope, // One part of the recipe,
  EndsFiner, EndsCoarser, EndsAlike,                                               // two parts,
  LongestTail, BackwardFirst, ForwardFirst, Alternate, Thrifty, ZeroBubble,        // or the rule.
};

constexpr Change dedicatedChanges[] = {
    Change::ManyBands, Change::EndsAlike,   Change::Bands,    Change::Alike, Change::Coarser,     Change::Slack,
    Change::Slope,     Change::Finer,       Change::LongestTail, Change::EndsFiner, Change::Ends, Change::SlackLittle,
    Change::EndsCoarser, Change::Pools, Change::BackwardFirst, Change::ForwardFirst};
constexpr Change splitChanges[] = {
    Change::ZeroBubble, Change::Thrifty,
    Change::ManyBands, Change::EndsAlike,   Change::Bands,    Change::Alike, Change::Coarser,     Change::Slack,
    Change::Slope,     Change::Finer,       Change::LongestTail, Change::EndsFiner, Change::Ends, Change::SlackLittle,
    Change::EndsCoarser, Change::Pools, Change::BackwardFirst};
constexpr Change colocatedChanges[] = {
    Change::Coarser, Change::EndsFiner, Change::EndsAlike, Change::ManyBands, Change::SlackLittle, Change::Alike,
    Change::Slack,   Change::Ends,      Change::EndsCoarser, Change::Finer,   Change::Slope,       Change::Pools,
    Change::LongestTail, Change::Alternate, Change::ForwardFirst, Change::Thrifty};

std::span<const Change> changes(const Traits &traits) {
  if (traits.colocated)
    return colocatedChanges;
  return traits.splits ? std::span<const Change>(splitChanges) : std::span<const Change>(dedicatedChanges);
}

Recipe recipe(int64_t pace, int64_t slack, int64_t bands, bool slope, bool pools, bool ends, bool alike) {
  return {pace, slack, bands, slope, pools, ends, alike};
}

} // namespace

size_t startCount(const Traits &traits) { return traits.colocated ? 2 : 3; }

Choice start(const Traits &traits, size_t index) {
  int64_t pace = traits.pace, half = std::max<int64_t>(1, pace / 2), twice = std::min(traits.mostPace, pace * 2);
  if (traits.colocated)
    return index == 0 ? Choice{recipe(half, 1, 2, false, false, true, false), Rule::ShortestFirst}
                      : Choice{recipe(pace, 1, 2, true, true, true, false), Rule::ShortestFirst};
  return {index == 0   ? recipe(pace, 2, 2, false, false, false, false)
          : index == 1 ? recipe(pace, 4, 1, false, false, true, false)
                       : recipe(twice, 1, 2, true, false, true, false),
          Rule::Alternate};
}

size_t changeCount(const Traits &traits) { return changes(traits).size(); }

Choice changed(const Traits &traits, const Choice &choice, size_t index) {
  Choice made = choice;
  Recipe &recipe = made.recipe;
  Change change = changes(traits)[index];
  if (change == Change::EndsFiner || change == Change::EndsCoarser || change == Change::EndsAlike || change == Change::Ends)
    recipe.ends = !recipe.ends;
  switch (change) {
  case Change::Ends: break;
  case Change::Alike:
  case Change::EndsAlike: recipe.alike = !recipe.alike; break;
  case Change::Pools: recipe.pools = !recipe.pools; break;
  case Change::Finer:
  case Change::EndsFiner: recipe.pace = std::min(traits.mostPace, recipe.pace * 2); break;
  case Change::Coarser:
  case Change::EndsCoarser: recipe.pace = std::max<int64_t>(1, recipe.pace / 2); break;
  case Change::Slack: recipe.slack = recipe.slack == 4 ? 1 : 4; break;
  case Change::SlackLittle: recipe.slack = recipe.slack == 2 ? 1 : 2; break;
  case Change::Bands: recipe.slope = false, recipe.bands = recipe.bands == 2 ? 1 : 2; break;
  case Change::ManyBands: recipe.slope = false, recipe.bands = recipe.bands == 8 ? 1 : 8; break;
  case Change::Slope: recipe.slope = !recipe.slope; break;
  case Change::LongestTail: made.rule = Rule::LongestTail; break;
  case Change::BackwardFirst: made.rule = Rule::BackwardFirst; break;
  case Change::ForwardFirst: made.rule = Rule::ForwardFirst; break;
  case Change::Alternate: made.rule = Rule::Alternate; break;
  case Change::Thrifty: made.rule = Rule::Thrifty; break;
  case Change::ZeroBubble: made.rule = Rule::ZeroBubble; break;
  }
  return made;
}

} // namespace maestro::wavefront
