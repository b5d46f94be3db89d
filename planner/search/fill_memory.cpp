#include "planner/search/fill_memory.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace maestro::planner {
namespace {

/// The first of [0, count) that fits, where each fits if the one before it does; count: none.
template <typename Fits> uint32_t firstThatFits(uint32_t count, Fits fits) {
  uint32_t low = 0, high = count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (fits(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

class Filler {
public:
  Filler(const SearchProblem &problem, const Cuts &cuts, Candidates &candidates, Layout layout)
      : problem(problem), cuts(cuts), candidates(candidates), layout(std::move(layout)) {}

  std::optional<Layout> run() {
    std::vector<uint32_t> splits; // Sections that have some.
    for (uint32_t s = 0; s < layout.sections.size(); ++s) {
      if (layout.sections[s].cut.splitStages > 0 && !problem.pins[s].splitStages)
        splits.push_back(s);
      set(s, choicesOf(s).back(), problem.pins[s].splitStages.value_or(0));
    }
    if (!shrinkToFit())
      return std::nullopt;
    for (uint32_t s : byWork())
      lighten(s);
    addSplits(splits);
    return std::move(layout);
  }

private:
  std::vector<uint32_t> byWork() const {
    std::vector<uint32_t> sections(layout.sections.size());
    std::iota(sections.begin(), sections.end(), 0u);
    std::ranges::stable_sort(sections, std::greater<>(), [&](uint32_t s) { return cuts.work().least(s); });
    return sections;
  }

  /// What a section may have with its split backward, lightest first.
  std::vector<RecomputeChoice> choicesOf(uint32_t section) const {
    bool splits = layout.sections[section].cut.splitStages > 0;
    std::vector<RecomputeChoice> choices = recomputeChoices(problem, section);
    std::erase_if(choices, [&](const RecomputeChoice &choice) {
      return splits && !problem.model.sections[section].has(choice, true);
    });
    auto work = [&](const RecomputeChoice &choice) {
      auto atoms = static_cast<uint32_t>(problem.model.sections[section].classOf.size());
      return cuts.work().work(section, choice, layout.sections[section].microBatch, 0, atoms);
    };
    std::stable_sort(choices.begin(), choices.end(), [&](const auto &a, const auto &b) { return work(a) < work(b); });
    return choices.empty() ? std::vector{layout.sections[section].cut.recompute} : choices;
  }

  void set(uint32_t section, const RecomputeChoice &recompute, uint32_t split) {
    SectionOption &own = layout.sections[section];
    if (problem.model.sections[section].trains)
      own.cut = cuts.cut(section, recompute, own.stages(), split);
  }

  bool fits() { return candidates.fits(layout); }

  /// The next smaller size of micro-batches where it brings most, until all fits.
  bool shrinkToFit() {
    for (uint64_t missing = candidates.missingBytes(layout); missing > 0;) {
      std::optional<uint32_t> best;
      for (uint32_t s = 0; s < layout.sections.size(); ++s) {
        uint32_t &microBatch = layout.sections[s].microBatch;
        if (problem.pins[s].microBatch || microBatch == 0)
          continue;
        --microBatch;
        if (uint64_t left = candidates.missingBytes(layout); left < missing)
          missing = left, best = s;
        ++microBatch;
      }
      if (!best)
        return false;
      --layout.sections[*best].microBatch;
    }
    return true;
  }

  void lighten(uint32_t section) {
    if (!problem.model.sections[section].trains)
      return;
    std::vector<RecomputeChoice> choices = choicesOf(section);
    uint32_t split = layout.sections[section].cut.splitStages;
    auto count = static_cast<uint32_t>(choices.size());
    uint32_t first = firstThatFits(count - 1, [&](uint32_t index) {
      set(section, choices[index], split);
      return fits();
    });
    set(section, choices[first], split);
  }

  void addSplits(const std::vector<uint32_t> &sections) {
    for (uint32_t s : sections) {
      SectionCut &cut = layout.sections[s].cut;
      if (!problem.model.sections[s].has(cut.recompute, true))
        continue;
      auto stages = static_cast<uint32_t>(cut.stages());
      uint32_t fewer = firstThatFits(stages, [&](uint32_t less) {
        cut.splitStages = stages - less;
        return fits();
      });
      cut.splitStages = stages - fewer;
    }
  }

  const SearchProblem &problem;
  const Cuts &cuts;
  Candidates &candidates;
  Layout layout;
};

} // namespace

std::optional<Layout> fillMemory(const SearchProblem &problem, const Cuts &cuts, Candidates &candidates,
                                 Layout layout) {
  return Filler(problem, cuts, candidates, std::move(layout)).run();
}

} // namespace maestro::planner
