#include "executor/wavefront/choices.h"

#include <algorithm>
#include <span>
#include <type_traits>

namespace maestro::wavefront {
namespace {

enum class Change : uint8_t {
  Ends, Alike, Pools, Finer, Coarser, Slack, SlackLittle, Bands, ManyBands, Slope, // One part of the recipe,
  EndsLittle, Shelves, ManyShelves, Taper, TaperMore, Lead,
  EndsFiner, EndsCoarser, EndsAlike,                                               // two parts,
  LongestTail, BackwardFirst, ForwardFirst, Alternate, Thrifty, ZeroBubble,        // or the rule.
};

constexpr Change dedicatedChanges[] = {
    Change::TaperMore, Change::ManyBands, Change::EndsLittle, Change::EndsAlike, Change::Taper, Change::ManyShelves,
    Change::Coarser, Change::Bands, Change::Alike, Change::Slope, Change::Finer, Change::Pools, Change::EndsFiner,
    Change::Slack, Change::Shelves, Change::Ends, Change::LongestTail, Change::SlackLittle, Change::ForwardFirst,
    Change::EndsCoarser, Change::BackwardFirst};
constexpr Change dedicatedFarChanges[] = {
    Change::ManyBands, Change::EndsLittle, Change::ManyShelves, Change::Coarser, Change::EndsAlike, Change::TaperMore,
    Change::Slack, Change::Bands, Change::Alike, Change::Finer, Change::Pools, Change::Taper, Change::ForwardFirst,
    Change::Shelves, Change::Slope, Change::LongestTail, Change::EndsFiner, Change::SlackLittle, Change::Ends,
    Change::EndsCoarser, Change::BackwardFirst};
constexpr Change splitChanges[] = {
    Change::ZeroBubble, Change::TaperMore, Change::EndsLittle, Change::EndsAlike, Change::ManyShelves, Change::Thrifty,
    Change::ManyBands, Change::Finer, Change::Bands, Change::Ends, Change::Taper, Change::Shelves, Change::Alike,
    Change::EndsFiner, Change::Slack, Change::Pools, Change::LongestTail, Change::Coarser, Change::EndsCoarser, Change::Slope,
    Change::SlackLittle, Change::BackwardFirst};
constexpr Change splitFarChanges[] = {
    Change::ZeroBubble, Change::EndsLittle, Change::ManyShelves, Change::ManyBands, Change::TaperMore, Change::Finer,
    Change::SlackLittle, Change::EndsAlike, Change::Thrifty, Change::Taper, Change::Alike, Change::Coarser, Change::Bands,
    Change::Shelves, Change::Slack, Change::Ends, Change::LongestTail, Change::EndsFiner, Change::Pools, Change::EndsCoarser,
    Change::Slope, Change::BackwardFirst};
constexpr Change colocatedChanges[] = {
    Change::TaperMore, Change::EndsAlike, Change::Taper, Change::EndsCoarser, Change::Coarser, Change::EndsLittle,
    Change::Ends, Change::ManyShelves, Change::Slack, Change::Pools, Change::Slope, Change::ForwardFirst, Change::Alike,
    Change::LongestTail, Change::ManyBands, Change::Finer, Change::EndsFiner, Change::Shelves, Change::SlackLittle,
    Change::Alternate, Change::Thrifty};
constexpr Change colocatedFarChanges[] = {
    Change::EndsAlike, Change::TaperMore, Change::EndsCoarser, Change::Taper, Change::ManyShelves, Change::Coarser,
    Change::EndsLittle, Change::Slack, Change::Slope, Change::ManyBands, Change::Pools, Change::Shelves, Change::Ends,
    Change::Finer, Change::LongestTail, Change::EndsFiner, Change::ForwardFirst, Change::SlackLittle, Change::Alike,
    Change::Alternate, Change::Thrifty};

std::span<const Change> changes(const Traits &traits) {
  if (traits.colocated)
    return traits.far ? std::span<const Change>(colocatedFarChanges) : colocatedChanges;
  if (traits.splits)
    return traits.far ? std::span<const Change>(splitFarChanges) : splitChanges;
  return traits.far ? std::span<const Change>(dedicatedFarChanges) : dedicatedChanges;
}

/// Several parts at once, where the starts are far from the bound and the budget lets few trials be made: of 240 random ones, those
/// that together helped most, one after the other, in 287 training problems (of first seeds 500000, 800000, 1200000, 4000000, 7000000,
/// 7100000, … 7600000) that ended more than a tenth above the bound. What is not named stays as it is.
struct Leap {
  static constexpr int8_t keep = -1;
  int8_t finer = 1, coarser = 1; ///< Times the pace, or divided by.
  int8_t slack = keep, bands = keep, slope = keep, pools = keep, ends = keep, alike = keep, run = keep, shelves = keep, taper = keep, lead = keep;
  int8_t rule = keep;
};

constexpr int8_t of(Rule rule) { return static_cast<int8_t>(rule); }

constexpr Leap dedicatedLeaps[] = {
    {.finer = 2, .ends = 1, .lead = 4},
    {.bands = 4, .lead = 6},
    {.finer = 2, .ends = 1},
    {.bands = 2, .pools = 0, .shelves = 16, .rule = of(Rule::Alternate)},
    {.bands = 8, .alike = 1},
    {.alike = 0, .run = 4},
    {.ends = 1, .shelves = 4, .rule = of(Rule::ShortestFirst)},
    {.finer = 2, .bands = 1, .pools = 1},
    {.bands = 4, .pools = 1, .run = 2},
    {.slack = 1, .bands = 1, .run = 2},
    {.bands = 2, .ends = 4},
    {.finer = 2, .slack = 4, .ends = 0, .taper = 0},
    {.finer = 2, .slack = 4, .alike = 0, .run = 2},
    {.pools = 0, .ends = 0, .alike = 0, .rule = of(Rule::ForwardFirst)},
    {.finer = 2, .bands = 8},
    {.finer = 2, .shelves = 16},
};
constexpr Leap splitLeaps[] = {
    {.finer = 2, .ends = 1, .lead = 4},
    {.bands = 4, .lead = 6},
    {.finer = 4, .bands = 1, .pools = 1, .taper = 1},
    {.slack = 4, .ends = 0, .shelves = 4},
    {.finer = 2, .shelves = 64, .taper = 4},
    {.bands = 4, .alike = 0},
    {.bands = 2, .ends = 1},
    {.coarser = 2, .pools = 1},
    {.coarser = 2, .pools = 0, .shelves = 64},
    {.finer = 2, .pools = 0, .ends = 0, .taper = 0},
    {.ends = 1, .run = 4, .shelves = 64, .taper = 0},
    {.slack = 4, .pools = 1, .ends = 4},
    {.finer = 2, .bands = 1, .shelves = 0},
    {.bands = 2, .shelves = 4},
    {.slack = 4, .run = 4, .taper = 1},
    {.finer = 2, .slack = 2, .bands = 4},
};
constexpr Leap colocatedLeaps[] = {
    {.finer = 2, .ends = 1, .lead = 4},
    {.bands = 4, .lead = 6},
    {.coarser = 2, .run = 2},
    {.finer = 4, .shelves = 16},
    {.finer = 4, .bands = 8, .shelves = 4},
    {.coarser = 2, .bands = 1, .ends = 1, .run = 8},
    {.slope = 1, .ends = 0},
    {.coarser = 4, .slope = 1, .alike = 0},
    {.slack = 1, .ends = 0, .taper = 0},
    {.finer = 4, .bands = 1, .pools = 1, .taper = 1},
    {.bands = 2, .run = 8, .shelves = 4},
    {.finer = 4, .shelves = 4, .rule = of(Rule::Thrifty)},
    {.bands = 2, .pools = 0, .shelves = 16, .rule = of(Rule::Alternate)},
    {.coarser = 4, .slack = 2, .slope = 1, .shelves = 0},
    {.slack = 1, .bands = 1, .run = 2},
    {.ends = 1, .shelves = 4, .rule = of(Rule::ShortestFirst)},
};

std::span<const Leap> leaps(const Traits &traits) {
  if (!traits.far)
    return {};
  return traits.colocated ? std::span<const Leap>(colocatedLeaps) : traits.splits ? std::span<const Leap>(splitLeaps) : dedicatedLeaps;
}

Choice leapt(const Traits &traits, const Choice &choice, const Leap &leap) {
  Choice made = choice;
  Recipe &recipe = made.recipe;
  auto set = [](auto &part, int8_t value) {
    if (value != Leap::keep)
      part = static_cast<std::remove_reference_t<decltype(part)>>(value);
  };
  recipe.pace = std::clamp<int64_t>(recipe.pace * leap.finer / leap.coarser, 1, traits.mostPace);
  recipe.slope &= leap.bands == Leap::keep; // Bands are for goal chasing.
  set(recipe.slack, leap.slack);
  set(recipe.bands, leap.bands);
  set(recipe.slope, leap.slope);
  set(recipe.pools, leap.pools);
  set(recipe.ends, leap.ends);
  set(recipe.alike, leap.alike);
  set(recipe.run, leap.run);
  set(recipe.shelves, traits.shelves ? leap.shelves : int8_t{0});
  set(recipe.taper, leap.taper);
  set(recipe.lead, leap.lead);
  set(made.rule, leap.rule);
  return made;
}

constexpr int64_t fullEnds = 4;

Recipe recipe(int64_t pace, int64_t slack, int64_t bands, bool slope, bool pools, bool ends) {
  return {.pace = pace, .slack = slack, .bands = bands, .slope = slope, .pools = pools, .ends = ends ? fullEnds : 0};
}

} // namespace

size_t startCount(const Traits &traits) { return traits.colocated ? 2 : 3; }

Choice start(const Traits &traits, size_t index) {
  // Tapered ends fill and drain sooner than goodPace() reckons with.
  int64_t pace = std::max<int64_t>(1, traits.pace * 4 / 5);
  int64_t half = std::max<int64_t>(1, pace / 2), twice = std::min(traits.mostPace, pace * 2);
  if (traits.colocated)
    return index == 0 ? Choice{recipe(half, 1, 2, false, false, true), Rule::ShortestFirst}
                      : Choice{recipe(pace, 1, 2, true, true, true), Rule::ShortestFirst};
  return {index == 0   ? recipe(pace, 2, 2, false, false, false)
          : index == 1 ? recipe(pace, 4, 1, false, false, true)
                       : recipe(twice, 1, 2, true, false, true),
          Rule::Alternate};
}

size_t changeCount(const Traits &traits) { return leaps(traits).size() + changes(traits).size(); }

Choice changed(const Traits &traits, const Choice &choice, size_t index) {
  std::span<const Leap> first = leaps(traits);
  if (index < first.size())
    return leapt(traits, choice, first[index]);
  Choice made = choice;
  Recipe &recipe = made.recipe;
  Change change = changes(traits)[index - first.size()];
  if (change == Change::EndsFiner || change == Change::EndsCoarser || change == Change::EndsAlike || change == Change::Ends)
    recipe.ends = recipe.ends > 0 ? 0 : fullEnds;
  switch (change) {
  case Change::Ends: break;
  case Change::EndsLittle: recipe.ends = recipe.ends == 1 ? fullEnds : 1; break;
  case Change::Shelves: recipe.shelves = recipe.shelves == 4 || !traits.shelves ? 0 : 4; break;
  case Change::ManyShelves: recipe.shelves = recipe.shelves == 16 || !traits.shelves ? 0 : 16; break;
  case Change::Taper: recipe.taper = recipe.taper == 2 ? 0 : 2; break;
  case Change::Lead: recipe.lead = recipe.lead == 4 ? 0 : 4; break;
  case Change::TaperMore: recipe.taper = recipe.taper == 4 ? 1 : 4; break;
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
