#include "planner/search/groupings.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

namespace maestro::planner {
namespace {

/// More sections than this are grouped two by two only: nine have 21,147 groupings.
constexpr size_t kMaxSectionsForAllGroupings = 9;
/// Shares of a cluster's devices that are looked at.
constexpr uint32_t kShares = 64;
/// Layouts that are estimated to begin with, about: a tenth of a second.
constexpr size_t kMaxEstimated = 2000;

/// Ways to part `count` things: for each its part's number, parts in the order of their first things.
std::vector<std::vector<uint32_t>> partitions(size_t count) {
  std::vector<std::vector<uint32_t>> all;
  std::vector<uint32_t> part(count, 0);
  auto assign = [&](auto &self, size_t index, uint32_t parts) -> void {
    if (index == count) {
      all.push_back(part);
      return;
    }
    for (part[index] = 0; part[index] <= parts; ++part[index])
      self(self, index + 1, std::max(parts, part[index] + 1));
  };
  if (count <= kMaxSectionsForAllGroupings) {
    assign(assign, 0, 0);
    return all;
  }
  all.push_back(part); // Together, apart, and two of them together.
  std::iota(part.begin(), part.end(), 0u);
  all.push_back(part);
  for (size_t a = 0; a < count; ++a)
    for (size_t b = a + 1; b < count; ++b) {
      std::vector<uint32_t> merged = part;
      merged[b] = merged[a];
      for (size_t i = b + 1; i < count; ++i)
        --merged[i];
      all.push_back(std::move(merged));
    }
  return all;
}

/// Devices for groups, such that the slowest is as fast as can be.
class Allocator {
public:
  Allocator(const Estimator &estimator, uint32_t devices, uint32_t stride, const OptionLimits &limits)
      : estimator(estimator), devices(devices), limits(limits) {
    for (uint32_t size = stride; size < devices; size += stride)
      sizes.push_back(size);
    sizes.push_back(devices);
  }

  /// By group; nothing where there are not enough.
  std::optional<std::vector<uint32_t>> allocate(const std::vector<std::vector<uint32_t>> &groups) {
    std::vector<const std::vector<double> *> times;
    for (const std::vector<uint32_t> &group : groups)
      times.push_back(&timesOf(group));
    std::vector<size_t> at(groups.size(), 0);
    // A group's next larger size at which it is faster; there may be none.
    auto faster = [&](size_t g) {
      size_t next = at[g];
      while (next < sizes.size() && !((*times[g])[next] < (*times[g])[at[g]]))
        ++next;
      return next;
    };
    uint64_t used = 0;
    for (size_t g = 0; g < groups.size(); ++g) {
      while (at[g] < sizes.size() && (*times[g])[at[g]] == kNever)
        ++at[g];
      if (at[g] == sizes.size())
        return std::nullopt;
      used += sizes[at[g]];
    }
    if (used > devices)
      return std::nullopt;
    // The slowest group gets more while there is some; where there is none for it, others gain nothing for the step,
    // and yet are faster with what is left.
    std::set<size_t> open;
    for (size_t g = 0; g < groups.size(); ++g)
      open.insert(g);
    while (!open.empty()) {
      size_t slowest = *std::max_element(open.begin(), open.end(),
                                         [&](size_t a, size_t b) { return (*times[a])[at[a]] < (*times[b])[at[b]]; });
      size_t next = faster(slowest);
      if (next == sizes.size() || used - sizes[at[slowest]] + sizes[next] > devices) {
        open.erase(slowest);
        continue;
      }
      used += sizes[next] - sizes[at[slowest]];
      at[slowest] = next;
    }
    std::vector<uint32_t> given;
    for (size_t index : at)
      given.push_back(sizes[index]);
    return given;
  }

private:
  /// By size, the best up to it: a group need not use all of its devices.
  const std::vector<double> &timesOf(const std::vector<uint32_t> &group) {
    auto [found, isNew] = known.try_emplace(group);
    double best = kNever;
    for (size_t i = 0; isNew && i < sizes.size(); ++i)
      found->second.push_back(best = std::min(best, estimator.secondsTogether(group, sizes[i], limits)));
    return found->second;
  }

  const Estimator &estimator;
  uint32_t devices;
  OptionLimits limits;
  std::vector<uint32_t> sizes;
  std::map<std::vector<uint32_t>, std::vector<double>> known;
};

} // namespace

uint32_t deviceStride(const cost_models::Machine &machine) { return std::max(1u, machine.devices / kShares); }

PinnedGroups pinnedGroups(const SearchProblem &problem) {
  PinnedGroups result;
  std::set<uint32_t> taken;
  for (uint32_t s = 0; s < problem.pins.size(); ++s) {
    if (!problem.pins[s].devices) {
      result.open.push_back(s);
      continue;
    }
    const std::vector<uint32_t> &list = *problem.pins[s].devices;
    auto same = std::find_if(result.groups.begin(), result.groups.end(),
                             [&](const DeviceGroup &group) { return group.pinned == list; });
    if (same == result.groups.end()) {
      DeviceGroup group;
      group.devices = static_cast<uint32_t>(list.size());
      group.pinned = list;
      same = result.groups.insert(result.groups.end(), group);
    }
    same->sections.push_back(s);
    taken.insert(list.begin(), list.end());
  }
  result.devices = problem.machine.devices - static_cast<uint32_t>(taken.size());
  if (result.devices == 0 && !result.open.empty()) {
    std::vector<uint32_t> &sections = result.groups.front().sections;
    sections.insert(sections.end(), result.open.begin(), result.open.end());
    std::sort(sections.begin(), sections.end());
    result.open.clear();
  }
  return result;
}

bool chooseOptions(const Estimator &estimator, Layout &layout, size_t group, const OptionLimits &limits) {
  DeviceGroup &own = layout.groups[group];
  std::vector<PricedOption> chosen = estimator.fastestTogether(own.sections, own.devices, limits);
  for (size_t i = 0; i < chosen.size(); ++i)
    layout.sections[own.sections[i]] = estimator.optionOf(own.sections[i], chosen[i]);
  return !chosen.empty();
}

/// The grouping of the open sections by `parts`, added to the pinned groups; nothing where it has no devices.
static std::optional<Layout> layoutOfParts(const Estimator &estimator, const OptionLimits &limits,
                                           const PinnedGroups &pinned, const Layout &base,
                                           const std::vector<uint32_t> &parts, Allocator &allocator) {
  std::vector<std::vector<uint32_t>> groups(parts.empty() ? 0 : *std::max_element(parts.begin(), parts.end()) + 1);
  for (size_t i = 0; i < parts.size(); ++i)
    groups[parts[i]].push_back(pinned.open[i]);
  std::optional<std::vector<uint32_t>> devices = allocator.allocate(groups);
  if (!devices)
    return std::nullopt;
  Layout layout = base;
  for (size_t g = 0; g < groups.size(); ++g) {
    DeviceGroup group;
    group.sections = std::move(groups[g]);
    group.devices = (*devices)[g];
    layout.groups.push_back(std::move(group));
    chooseOptions(estimator, layout, layout.groups.size() - 1, limits);
  }
  return layout;
}

double placeFaster(const Estimator &estimator, Layout &layout) {
  double seconds = estimator.seconds(layout);
  Layout other = layout;
  for (DeviceGroup &group : other.groups)
    group.byStage = !group.byStage;
  if (double turned = estimator.seconds(other); turned < seconds) {
    layout = std::move(other);
    return turned;
  }
  return seconds;
}

namespace {

/// Stage counts of the section with most work that are held in turn, and none: as many as there is time for.
std::vector<std::optional<std::pair<uint32_t, uint32_t>>> heldStages(const SearchProblem &problem, const Cuts &cuts,
                                                                     size_t groupings) {
  uint32_t main = 0;
  for (uint32_t s = 1; s < problem.pins.size(); ++s)
    main = cuts.work().least(s) > cuts.work().least(main) ? s : main;
  std::vector<uint32_t> counts = cuts.stageCounts(main);
  size_t most = std::min(counts.size(), kMaxEstimated / groupings);
  std::vector<std::optional<std::pair<uint32_t, uint32_t>>> held{std::nullopt};
  for (size_t i = 0; i < most && counts.size() > 1; ++i)
    held.push_back(std::pair(main, counts[i * counts.size() / most]));
  return held;
}

using Priced = std::set<std::pair<double, Layout>>;

void addGroupings(const SearchProblem &problem, const Estimator &estimator, const OptionLimits &limits,
                  const std::vector<std::vector<uint32_t>> &groupings, std::vector<Priced> &found) {
  PinnedGroups pinned = pinnedGroups(problem);
  Layout base{pinned.groups, std::vector<SectionOption>(problem.pins.size())};
  for (size_t g = 0; g < base.groups.size(); ++g)
    if (!chooseOptions(estimator, base, g, limits))
      return;
  Allocator allocator(estimator, pinned.devices, deviceStride(problem.machine), limits);
  for (size_t i = 0; i < groupings.size(); ++i)
    if (auto layout = layoutOfParts(estimator, limits, pinned, base, groupings[i], allocator)) {
      double seconds = placeFaster(estimator, *layout);
      found[i].insert({seconds, std::move(*layout)});
    }
}

} // namespace

std::vector<Layout> bestOfGroupings(const SearchProblem &problem, const Cuts &cuts, const Estimator &estimator,
                                    const OptionLimits &limits, size_t most) {
  std::vector<std::vector<uint32_t>> groupings = partitions(pinnedGroups(problem).open.size());
  std::vector<Priced> found(groupings.size());
  for (const auto &held : heldStages(problem, cuts, groupings.size())) {
    OptionLimits own = limits;
    own.held = held;
    addGroupings(problem, estimator, own, groupings, found);
  }
  size_t each = std::max<size_t>(1, most / groupings.size());
  Priced chosen;
  for (const Priced &own : found)
    chosen.insert(own.begin(), std::next(own.begin(), static_cast<ptrdiff_t>(std::min(each, own.size()))));
  std::vector<Layout> layouts;
  for (const auto &[seconds, layout] : chosen)
    layouts.push_back(layout);
  return layouts;
}

} // namespace maestro::planner
