#include "wavefront/choices.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <type_traits>

namespace maestro::wavefront {
namespace {

enum class Change : uint8_t {
  Ends,
  Alike,
  Pools,
  Finer,
  Coarser,
  Slack,
  SlackLittle,
  Bands,
  ManyBands,
  Slope, // One part of the recipe,
  EndsLittle,
  Shelves,
  ManyShelves,
  Taper,
  TaperMore,
  Lag,
  LagLittle,
  EndsFiner,
  EndsCoarser,
  EndsAlike, // two parts,
  LongestTail,
  BackwardFirst,
  ForwardFirst,
  Alternate,
  Thrifty,
  ZeroBubble, // or the rule.
};

constexpr Change dedicatedChanges[] = {
    Change::TaperMore,    Change::ManyBands,   Change::EndsLittle,   Change::EndsAlike,   Change::Lag,
    Change::LagLittle,    Change::Taper,       Change::ManyShelves,  Change::Coarser,     Change::Bands,
    Change::Alike,        Change::Slope,       Change::Finer,        Change::Pools,       Change::EndsFiner,
    Change::Slack,        Change::Shelves,     Change::Ends,         Change::LongestTail, Change::SlackLittle,
    Change::ForwardFirst, Change::EndsCoarser, Change::BackwardFirst};
constexpr Change dedicatedFarChanges[] = {
    Change::ManyBands, Change::EndsLittle,  Change::ManyShelves,  Change::Coarser,   Change::Lag,
    Change::LagLittle, Change::EndsAlike,   Change::TaperMore,    Change::Slack,     Change::Bands,
    Change::Alike,     Change::Finer,       Change::Pools,        Change::Taper,     Change::ForwardFirst,
    Change::Shelves,   Change::Slope,       Change::LongestTail,  Change::EndsFiner, Change::SlackLittle,
    Change::Ends,      Change::EndsCoarser, Change::BackwardFirst};
constexpr Change splitChanges[] = {Change::ZeroBubble,  Change::TaperMore, Change::EndsLittle,  Change::EndsAlike,
                                   Change::Lag,         Change::LagLittle, Change::ManyShelves, Change::Thrifty,
                                   Change::ManyBands,   Change::Finer,     Change::Bands,       Change::Ends,
                                   Change::Taper,       Change::Shelves,   Change::Alike,       Change::EndsFiner,
                                   Change::Slack,       Change::Pools,     Change::LongestTail, Change::Coarser,
                                   Change::EndsCoarser, Change::Slope,     Change::SlackLittle, Change::BackwardFirst};
constexpr Change splitFarChanges[] = {
    Change::ZeroBubble, Change::EndsLittle,  Change::ManyShelves, Change::ManyBands,    Change::Lag,
    Change::LagLittle,  Change::TaperMore,   Change::Finer,       Change::SlackLittle,  Change::EndsAlike,
    Change::Thrifty,    Change::Taper,       Change::Alike,       Change::Coarser,      Change::Bands,
    Change::Shelves,    Change::Slack,       Change::Ends,        Change::LongestTail,  Change::EndsFiner,
    Change::Pools,      Change::EndsCoarser, Change::Slope,       Change::BackwardFirst};
constexpr Change colocatedChanges[] = {
    Change::TaperMore,   Change::EndsAlike, Change::Taper,      Change::EndsCoarser,  Change::Lag,
    Change::LagLittle,   Change::Coarser,   Change::EndsLittle, Change::Ends,         Change::ManyShelves,
    Change::Slack,       Change::Pools,     Change::Slope,      Change::ForwardFirst, Change::Alike,
    Change::LongestTail, Change::ManyBands, Change::Finer,      Change::EndsFiner,    Change::Shelves,
    Change::SlackLittle, Change::Alternate, Change::Thrifty};
constexpr Change colocatedFarChanges[] = {
    Change::EndsAlike, Change::TaperMore,   Change::EndsCoarser, Change::Taper,        Change::Lag,
    Change::LagLittle, Change::ManyShelves, Change::Coarser,     Change::EndsLittle,   Change::Slack,
    Change::Slope,     Change::ManyBands,   Change::Pools,       Change::Shelves,      Change::Ends,
    Change::Finer,     Change::LongestTail, Change::EndsFiner,   Change::ForwardFirst, Change::SlackLittle,
    Change::Alike,     Change::Alternate,   Change::Thrifty};

std::span<const Change> changes(const Traits &traits) {
  if (traits.colocated)
    return traits.far ? std::span<const Change>(colocatedFarChanges) : colocatedChanges;
  if (traits.splits)
    return traits.far ? std::span<const Change>(splitFarChanges) : splitChanges;
  return traits.far ? std::span<const Change>(dedicatedFarChanges) : dedicatedChanges;
}

/// Several parts at once, where the starts are far from the bound and the budget lets few trials be made: of some 300
/// random ones and the single ones, those that brought 1,300 to 2,200 training problems (first seeds 41 to 46, 61 to 76
/// and 84 to 99 million) nearest to 1.15 of the bound, one after the other, each from the best so far and while its
/// budget lasted. (Those with a lead are by hand where sections split their backward or share devices.) What is not
/// named stays as it is.
struct Leap {
  static constexpr int8_t keep = -1;
  int8_t finer = 1, coarser = 1; ///< Times the pace, or divided by.
  int8_t slack = keep, bands = keep, slope = keep, pools = keep, ends = keep, alike = keep, run = keep, shelves = keep,
         taper = keep;
  int8_t lead = keep, lag = keep, rule = keep;
};

constexpr int8_t of(Rule rule) { return static_cast<int8_t>(rule); }

constexpr Leap dedicatedLeaps[] = {
    {.alike = 1, .lead = 2},
    {.bands = 8, .alike = 0},
    {.shelves = 16},
    {.finer = 2, .bands = 1},
    {.finer = 2, .coarser = 4, .bands = 2},
    {.ends = 1, .rule = of(Rule::LongestTail)},
    {.bands = 4, .ends = 1, .lead = 2, .rule = of(Rule::Alternate)},
    {.finer = 2, .alike = 1},
    {.ends = 1},
    {.finer = 2, .run = 2},
    {.shelves = 4},
    {.slack = 4, .bands = 4},
    {.run = 4, .shelves = 64},
    {.run = 8, .rule = of(Rule::LongestTail)},
};
constexpr Leap dedicatedAboveLeaps[] = {
    {.shelves = 0, .lead = 2, .lag = 1},
    {.bands = 8, .ends = 1},
    {.finer = 4, .shelves = 64, .lead = 0, .lag = 1},
    {.finer = 2, .pools = 0, .lead = 4, .rule = of(Rule::Alternate)},
    {.alike = 1, .shelves = 4},
    {.bands = 4, .ends = 1, .taper = 4},
    {.ends = 0, .lag = 2},
    {.slack = 1, .bands = 2, .lag = 2},
    {.alike = 1, .run = 1},
    {.coarser = 2, .pools = 1, .ends = 0, .taper = 1},
    {.finer = 2, .bands = 2, .alike = 0},
    {.finer = 2, .coarser = 4, .shelves = 4},
    {.bands = 4, .pools = 0},
};
constexpr Leap splitLeaps[] = {
    {.coarser = 2, .alike = 0, .run = 4, .shelves = 16},
    {.slack = 4, .bands = 4, .shelves = 4},
    {.alike = 1, .lead = 2},
    {.finer = 2, .shelves = 16},
    {.bands = 4, .alike = 1},
    {.ends = 1, .shelves = 16},
    {.finer = 2, .ends = 1, .lead = 4},
    {.coarser = 2, .run = 1, .taper = 1},
    {.shelves = 64},
    {.bands = 2, .pools = 1},
    {.run = 2, .shelves = 16},
    {.finer = 2, .bands = 1},
    {.ends = 4},
    {.slack = 1, .bands = 1, .shelves = 0},
};
constexpr Leap splitAboveLeaps[] = {
    {.finer = 2, .bands = 1, .lag = 1},
    {.lead = 2, .lag = 1},
    {.ends = 0, .lag = 2},
    {.slack = 1, .bands = 4, .taper = 2},
    {.slack = 4, .bands = 4, .shelves = 4},
    {.finer = 2, .ends = 1, .lead = 4},
    {.ends = 1},
    {.finer = 2, .pools = 0, .run = 1, .shelves = 64},
    {.bands = 8, .ends = 1, .lag = 4},
    {.finer = 2, .alike = 1},
    {.lag = 4},
    {.slack = 2},
    {.finer = 4, .pools = 1, .taper = 1},
    {.bands = 8, .pools = 0, .lag = 1},
};
constexpr Leap colocatedLeaps[] = {
    {.finer = 4, .ends = 1},
    {.coarser = 4, .slack = 2, .shelves = 0},
    {.bands = 4},
    {.taper = 0},
    {.lead = 2, .lag = 1},
    {.bands = 1, .shelves = 16},
    {.finer = 2, .bands = 8},
    {.rule = of(Rule::Thrifty)},
    {.finer = 2, .ends = 1, .lead = 4},
    {.finer = 4, .coarser = 2, .slope = 1, .taper = 4},
    {.slack = 4, .run = 2},
    {.finer = 4, .bands = 4, .ends = 4, .run = 8},
    {.slope = 1, .pools = 1, .ends = 1},
    {.coarser = 2, .pools = 0},
};

constexpr std::span<const Leap> leapTables[] = {dedicatedLeaps, dedicatedAboveLeaps, splitLeaps, splitAboveLeaps,
                                                colocatedLeaps};

/// Which of them comes first.
size_t ownTable(const Traits &traits) { return traits.colocated ? 4 : 2 * traits.splits + traits.below; }

std::span<const Leap> leaps(const Traits &traits) { return leapTables[ownTable(traits)]; }

/// The others, one after the other: where the budget is not spent yet.
size_t otherLeapCount(const Traits &traits) {
  size_t count = 0;
  for (std::span<const Leap> table : leapTables)
    count += table.size();
  return count - leaps(traits).size();
}

const Leap &otherLeap(const Traits &traits, size_t index) {
  size_t table = (ownTable(traits) + 1) % std::size(leapTables);
  for (; index >= leapTables[table].size(); table = (table + 1) % std::size(leapTables))
    index -= leapTables[table].size();
  return leapTables[table][index];
}

Choice leapt(const Traits &traits, const Choice &choice, const Leap &leap) {
  Choice made = choice;
  Recipe &recipe = made.recipe;
  auto set = [](auto &part, int8_t value) {
    if (value != Leap::keep)
      part = static_cast<std::remove_reference_t<decltype(part)>>(value);
  };
  recipe.pace = recipe.pace * leap.finer / leap.coarser;
  recipe.slope &= leap.bands == Leap::keep; // Bands are for goal chasing.
  set(recipe.slack, leap.slack);
  set(recipe.bands, leap.bands);
  set(recipe.slope, leap.slope);
  set(recipe.pools, leap.pools);
  set(recipe.ends, leap.ends);
  set(recipe.alike, leap.alike);
  set(recipe.run, leap.run);
  set(recipe.shelves, leap.shelves);
  set(recipe.taper, leap.taper);
  set(recipe.lead, leap.lead);
  set(recipe.lag, leap.lag);
  set(made.rule, leap.rule);
  return within(traits, made);
}

constexpr int64_t fullEnds = 4;

Recipe recipe(int64_t pace, int64_t slack, int64_t bands, bool slope, bool pools, int64_t ends) {
  return {.pace = pace, .slack = slack, .bands = bands, .slope = slope, .pools = pools, .ends = ends};
}

/// Those that come after the changes where the first ones were far from the bound.
size_t skippedStarts(const Traits &traits) { return startCount(traits) - mostStartsWhenFar; }

} // namespace

size_t startCount(const Traits &traits) { return traits.colocated ? 2 : 3; }

Choice within(const Traits &traits, Choice choice) {
  choice.recipe.pace = std::clamp<int64_t>(choice.recipe.pace, 1, traits.mostPace);
  if (!traits.shelves)
    choice.recipe.shelves = 0;
  if (!traits.below)
    choice.recipe.lag = 0;
  return choice;
}

Choice start(const Traits &traits, size_t index) {
  // Tapered ends fill and drain sooner than goodPace() reckons with.
  int64_t pace = std::max<int64_t>(1, traits.pace * 4 / 5), half = std::max<int64_t>(1, pace / 2);
  int64_t more = std::min(traits.mostPace, pace * 3 / 2), twice = std::min(traits.mostPace, pace * 2);
  Choice choice{recipe(pace, 2, 2, false, false, 0), Rule::Alternate};
  if (traits.colocated)
    choice = index == 0 ? Choice{recipe(half, 1, 2, false, false, fullEnds), Rule::ShortestFirst}
                        : Choice{recipe(pace, 1, 2, true, true, fullEnds), Rule::ShortestFirst};
  else if (index == 2)
    choice.recipe = recipe(twice, 1, 2, true, false, fullEnds);
  else if (traits.below && index == 1) // One band, which suits the trunk alone, starves what lies below.
    choice.recipe = recipe(more, 2, 2, false, false, 1);
  else if (!traits.below && index == 1)
    choice.recipe = recipe(pace, 4, 1, false, false, fullEnds);
  return choice;
}

size_t changeCount(const Traits &traits) {
  return changes(traits).size() +
         (traits.far ? leaps(traits).size() + skippedStarts(traits) + otherLeapCount(traits) : 0);
}

Choice changed(const Traits &traits, const Choice &choice, size_t index) {
  size_t own = traits.far ? leaps(traits).size() : 0, last = own + changes(traits).size();
  if (index < own)
    return leapt(traits, choice, leaps(traits)[index]);
  if (index >= last + skippedStarts(traits))
    return leapt(traits, choice, otherLeap(traits, index - last - skippedStarts(traits)));
  if (index >= last)
    return start(traits, mostStartsWhenFar + index - last);
  Choice made = choice;
  Recipe &recipe = made.recipe;
  Change change = changes(traits)[index - own];
  if (change == Change::EndsFiner || change == Change::EndsCoarser || change == Change::EndsAlike ||
      change == Change::Ends)
    recipe.ends = recipe.ends > 0 ? 0 : fullEnds;
  switch (change) {
  case Change::Ends:
    break;
  case Change::EndsLittle:
    recipe.ends = recipe.ends == 1 ? fullEnds : 1;
    break;
  case Change::Shelves:
    recipe.shelves = recipe.shelves == 4 || !traits.shelves ? 0 : 4;
    break;
  case Change::ManyShelves:
    recipe.shelves = recipe.shelves == 16 || !traits.shelves ? 0 : 16;
    break;
  case Change::Taper:
    recipe.taper = recipe.taper == 2 ? 0 : 2;
    break;
  case Change::TaperMore:
    recipe.taper = recipe.taper == 4 ? 1 : 4;
    break;
  case Change::Lag:
    recipe.lag = recipe.lag == 2 || !traits.below ? 0 : 2;
    break;
  case Change::LagLittle:
    recipe.lag = recipe.lag == 1 || !traits.below ? 0 : 1;
    break;
  case Change::Alike:
  case Change::EndsAlike:
    recipe.alike = !recipe.alike;
    break;
  case Change::Pools:
    recipe.pools = !recipe.pools;
    break;
  case Change::Finer:
  case Change::EndsFiner:
    recipe.pace = std::min(traits.mostPace, recipe.pace * 2);
    break;
  case Change::Coarser:
  case Change::EndsCoarser:
    recipe.pace = std::max<int64_t>(1, recipe.pace / 2);
    break;
  case Change::Slack:
    recipe.slack = recipe.slack == 4 ? 1 : 4;
    break;
  case Change::SlackLittle:
    recipe.slack = recipe.slack == 2 ? 1 : 2;
    break;
  case Change::Bands:
    recipe.slope = false, recipe.bands = recipe.bands == 2 ? 1 : 2;
    break;
  case Change::ManyBands:
    recipe.slope = false, recipe.bands = recipe.bands == 8 ? 1 : 8;
    break;
  case Change::Slope:
    recipe.slope = !recipe.slope;
    break;
  case Change::LongestTail:
    made.rule = Rule::LongestTail;
    break;
  case Change::BackwardFirst:
    made.rule = Rule::BackwardFirst;
    break;
  case Change::ForwardFirst:
    made.rule = Rule::ForwardFirst;
    break;
  case Change::Alternate:
    made.rule = Rule::Alternate;
    break;
  case Change::Thrifty:
    made.rule = Rule::Thrifty;
    break;
  case Change::ZeroBubble:
    made.rule = Rule::ZeroBubble;
    break;
  }
  return made;
}

} // namespace maestro::wavefront
