#include "planner/search/moves.h"

#include <algorithm>
#include <array>

namespace maestro::planner {
namespace {

/// Devices that change groups at a time, in strides.
constexpr std::array kDeviceSteps = {1u, 2u, 3u, 4u, 6u, 8u};

/// The layout with one section changed.
template <typename Change> Layout changed(const Layout &layout, uint32_t section, Change change) {
  Layout next = layout;
  change(next.sections[section]);
  return next;
}

uint32_t devicesFor(const Layout &layout, uint32_t section) { return layout.groups[layout.groupOf(section)].devices; }

bool hasSplit(const Layout &layout) {
  return std::any_of(layout.sections.begin(), layout.sections.end(),
                     [](const SectionOption &own) { return own.cut.splitStages > 0; });
}

} // namespace

std::vector<Layout> moveMicroBatch(const MoveContext &context, const Layout &layout) {
  std::vector<Layout> found;
  const AtomicModel &model = context.problem.model;
  auto sizes = static_cast<uint32_t>(model.microBatches.size());
  for (uint32_t s = 0; s < layout.sections.size(); ++s) {
    if (context.problem.pins[s].microBatch)
      continue;
    uint32_t now = layout.sections[s].microBatch, less = now, more = now + 1;
    while (less > 0 && (less == now || isRepeatedSize(model, s, less)))
      --less;
    while (more < sizes && isRepeatedSize(model, s, more))
      ++more;
    for (uint32_t size : {more, less})
      if (size != now && size < sizes)
        found.push_back(changed(layout, s, [&](SectionOption &own) { own.microBatch = size; }));
  }
  return found;
}

std::vector<Layout> moveStages(const MoveContext &context, const Layout &layout) {
  std::vector<Layout> found;
  for (uint32_t s = 0; s < layout.sections.size(); ++s) {
    uint32_t devices = devicesFor(layout, s);
    for (uint32_t stages : context.cuts.stageCounts(s)) {
      uint32_t replicas = context.estimator.replicas(s, stages, devices);
      if (stages != layout.sections[s].stages() && replicas > 0)
        found.push_back(changed(layout, s, [&](SectionOption &own) {
          own.cut = context.cuts.cut(s, own.cut.recompute, stages, own.cut.splitStages > 0 ? stages : 0);
          own.replicas = replicas;
        }));
    }
  }
  return found;
}

std::vector<Layout> moveReplicas(const MoveContext &context, const Layout &layout) {
  std::vector<Layout> found;
  for (uint32_t s = 0; s < layout.sections.size(); ++s) {
    uint32_t now = layout.sections[s].replicas;
    uint32_t most = context.estimator.replicas(s, layout.sections[s].stages(), devicesFor(layout, s));
    if (!context.problem.pins[s].dataParallel)
      for (uint32_t replicas : std::set<uint32_t>{now - std::max(1u, now / 8), now - 1, now / 2, now + 1, most})
        if (replicas >= 1 && replicas != now && replicas <= most)
          found.push_back(changed(layout, s, [&](SectionOption &own) { own.replicas = replicas; }));
  }
  return found;
}

std::vector<Layout> moveDevices(const MoveContext &context, const Layout &layout) {
  std::vector<Layout> found;
  size_t groups = layout.groups.size(), none = groups;
  uint32_t free = pinnedGroups(context.problem).devices, stride = deviceStride(context.problem.machine);
  for (const DeviceGroup &group : layout.groups)
    free -= group.pinned.empty() ? std::min(free, group.devices) : 0;
  for (size_t from = 0; from <= none; ++from)
    for (size_t to = 0; to < groups; ++to)
      for (uint32_t step : kDeviceSteps) {
        uint32_t moved = stride * step;
        bool isThere =
            from == none ? moved <= free : layout.groups[from].pinned.empty() && moved < layout.groups[from].devices;
        if (from == to || !isThere || !layout.groups[to].pinned.empty())
          continue;
        Layout next = layout;
        next.groups[to].devices += moved;
        bool isPossible = chooseOptions(context.estimator, next, to);
        if (from != none) {
          next.groups[from].devices -= moved;
          isPossible = isPossible && chooseOptions(context.estimator, next, from);
        }
        if (isPossible)
          found.push_back(std::move(next));
      }
  return found;
}

std::vector<Layout> moveGroupOrder(const MoveContext &context, const Layout &layout) {
  std::vector<Layout> found;
  for (size_t g = 0; g + 1 < layout.groups.size() && !context.problem.machine.kindOf.empty(); ++g) {
    found.push_back(layout);
    std::swap(found.back().groups[g], found.back().groups[g + 1]);
  }
  return found;
}

std::vector<Layout> moveSplitBackward(const MoveContext &context, const Layout &layout) {
  std::vector<Layout> found;
  Layout none = layout, all = layout;
  for (uint32_t s = 0; s < layout.sections.size(); ++s) {
    if (context.problem.pins[s].splitStages)
      continue;
    none.sections[s].cut.splitStages = 0;
    if (mayGainBySplitting(context.problem, s, layout.sections[s].stages()))
      all.sections[s].cut.splitStages = layout.sections[s].stages();
  }
  auto add = [&](const Layout &next) {
    if (std::optional<Layout> own = fillMemory(context.problem, context.cuts, context.candidates, next);
        own && *own != layout)
      found.push_back(std::move(*own));
  };
  if (hasSplit(all))
    add(all);
  if (hasSplit(layout))
    add(none);
  for (uint32_t s = 0; s < layout.sections.size(); ++s)
    if (layout.sections[s].cut.splitStages > 0 && !context.problem.pins[s].splitStages)
      found.push_back(changed(layout, s, [](SectionOption &own) { --own.cut.splitStages; }));
  return found;
}

std::vector<Layout> moveRecompute(const MoveContext &context, const Layout &layout) {
  std::vector<Layout> found;
  for (uint32_t s = 0; s < layout.sections.size(); ++s) {
    const SectionOption &own = layout.sections[s];
    std::vector<RecomputeChoice> choices = recomputeChoices(context.problem, s);
    auto now = std::find(choices.begin(), choices.end(), own.cut.recompute);
    auto add = [&](const RecomputeChoice &choice) {
      if (context.problem.model.sections[s].has(choice, own.cut.splitStages > 0))
        found.push_back(changed(layout, s, [&](SectionOption &next) {
          next.cut = context.cuts.cut(s, choice, own.stages(), own.cut.splitStages);
        }));
    };
    if (now != choices.end() && now != choices.begin())
      add(*std::prev(now));
    if (now != choices.end() && std::next(now) != choices.end())
      add(*std::next(now));
  }
  return found;
}

} // namespace maestro::planner
