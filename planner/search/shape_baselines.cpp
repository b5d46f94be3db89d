// The shapes that every answer is compared with: all data parallel, one layout for all, a static split.
#include "planner/search/shapes.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace maestro::planner {

std::vector<Shape> Shapes::baselineDataParallel(double memoryShare) {
  share = memoryShare;
  std::vector<uint32_t> open;
  uint32_t devices = 0;
  Shape shape{pinnedGroups(open, devices), std::vector<ShapeOption>(problem.pins.size()), 0, false};
  if (!open.empty())
    shape.groups.push_back({open, devices, {}});
  if (!chooseOptions([](const SectionCut &cut) { return cut.stages() == 1; }, shape))
    return {};
  evaluatePlaced(shape);
  return {shape};
}

std::vector<Shape> Shapes::baselineOneLayout(double memoryShare) {
  share = memoryShare;
  for (const SearchPins &pins : problem.pins)
    if (pins.devices)
      return {};
  std::set<size_t> counts;
  for (const CutFacts &facts : cuts.of(0))
    counts.insert(facts.cut.stages());
  std::vector<Shape> all;
  for (size_t stages : counts)
    for (Recompute recompute : kRecomputes)
      for (uint32_t lighter = 0; lighter < (recompute == Recompute::None ? 1 : kLighterParts); lighter += kCoarseParts)
        for (uint32_t m = 0; m < problem.model.microBatches.size(); ++m)
          if (std::optional<Shape> shape = oneLayout(static_cast<uint32_t>(stages), recompute, lighter, m)) {
            evaluatePlaced(*shape);
            all.push_back(std::move(*shape));
          }
  std::stable_sort(all.begin(), all.end(), [](const Shape &a, const Shape &b) { return a.seconds < b.seconds; });
  return all;
}

/// All sections in as many stages on all devices; what does not train has no recompute to choose.
std::optional<Shape> Shapes::oneLayout(uint32_t stages, Recompute recompute, uint32_t lighter,
                                       uint32_t microBatch) const {
  std::vector<uint32_t> all(problem.pins.size());
  std::iota(all.begin(), all.end(), 0u);
  Shape shape{{{all, problem.machine.devices, {}}}, std::vector<ShapeOption>(problem.pins.size()), 0, false};
  double bytes = 0;
  for (uint32_t s : all) {
    const std::vector<CutFacts> &own = cuts.of(s);
    auto same = std::find_if(own.begin(), own.end(), [&](const CutFacts &facts) {
      const cost_models::AtomicSection &section = problem.model.sections[s];
      return facts.cut.stages() == stages &&
             (!section.trains ||
              (facts.cut.recompute.most == recompute && lighterParts(section, facts.cut.recompute) == lighter));
    });
    uint32_t replicas = problem.pins[s].dataParallel.value_or(problem.machine.devices / stages);
    if (same == own.end() || replicas == 0 || replicas * stages > problem.machine.devices ||
        problem.pins[s].microBatch.value_or(microBatch) != microBatch)
      return std::nullopt;
    shape.options[s] = {static_cast<uint32_t>(same - own.begin()), microBatch, replicas};
    bytes += static_cast<double>(estimate(s, shape.options[s]).bytes);
  }
  if (bytes > share * static_cast<double>(deviceBytes) * 1.1) // What shares a process counts once; fits() is exact.
    return std::nullopt;
  return shape;
}

std::vector<Shape> Shapes::baselineStaticSplit(const std::vector<std::vector<uint32_t>> &placement,
                                               double memoryShare) {
  share = memoryShare;
  Shape shape{{}, std::vector<ShapeOption>(problem.pins.size()), 0, false};
  for (uint32_t s = 0; s < placement.size(); ++s) {
    auto same = std::find_if(shape.groups.begin(), shape.groups.end(),
                             [&](const ShapeGroup &group) { return group.pinned == placement[s]; });
    if (same == shape.groups.end())
      same = shape.groups.insert(shape.groups.end(), {{}, static_cast<uint32_t>(placement[s].size()), placement[s]});
    same->sections.push_back(s);
  }
  if (!chooseOptions([](const SectionCut &) { return true; }, shape))
    return {};
  evaluatePlaced(shape);
  return {shape};
}

} // namespace maestro::planner
