#include "planner/search/baselines.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace maestro::planner {
namespace {

/// Where estimates of memory are too low, less of it is looked at.
constexpr double kMemoryShares[] = {1, 0.7, 0.4};

/// The groups with their fastest options; nothing where these do not fit.
std::optional<Layout> withOptions(const SearchProblem &problem, const Estimator &estimator,
                                  const std::vector<DeviceGroup> &groups, const OptionLimits &limits) {
  Layout layout{groups, std::vector<SectionOption>(problem.pins.size())};
  for (size_t g = 0; g < groups.size(); ++g)
    if (!chooseOptions(estimator, layout, g, limits))
      return std::nullopt;
  placeFaster(estimator, layout);
  return layout;
}

std::vector<Layout> withShares(const SearchProblem &problem, const Estimator &estimator,
                               const std::vector<DeviceGroup> &groups, uint32_t maxStages) {
  std::vector<Layout> layouts;
  for (double share : kMemoryShares)
    if (std::optional<Layout> layout = withOptions(problem, estimator, groups, {share, maxStages}))
      layouts.push_back(std::move(*layout));
  return layouts;
}

/// Devices for sections in proportion to their work, one at least.
std::vector<uint32_t> inProportion(const std::vector<double> &work, uint32_t devices) {
  std::vector<uint32_t> count(work.size(), 1);
  for (auto given = static_cast<uint32_t>(work.size()); given < devices && !work.empty(); ++given) {
    size_t busiest = 0;
    for (size_t i = 1; i < work.size(); ++i)
      if (work[i] / count[i] > work[busiest] / count[busiest])
        busiest = i;
    ++count[busiest];
  }
  return count;
}

/// One device each; largest sections first, to the device with least to do.
std::vector<std::vector<uint32_t>> packed(const std::vector<double> &work, uint32_t devices) {
  std::vector<double> load(devices, 0);
  std::vector<std::vector<uint32_t>> sections(devices);
  std::vector<uint32_t> order(work.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return work[a] > work[b]; });
  for (uint32_t i : order) {
    auto least = static_cast<size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    load[least] += work[i];
    sections[least].push_back(i);
  }
  return sections;
}

DeviceGroup groupOf(std::vector<uint32_t> sections, uint32_t devices) {
  DeviceGroup group;
  std::sort(sections.begin(), sections.end());
  group.sections = std::move(sections);
  group.devices = devices;
  return group;
}

} // namespace

std::vector<Layout> allDataParallel(const SearchProblem &problem, const Cuts &, const Estimator &estimator) {
  PinnedGroups pinned = pinnedGroups(problem);
  std::vector<DeviceGroup> groups = pinned.groups;
  if (!pinned.open.empty())
    groups.push_back(groupOf(pinned.open, pinned.devices));
  return withShares(problem, estimator, groups, 1);
}

std::vector<Layout> oneLayoutForAll(const SearchProblem &problem, const Cuts &cuts, const Estimator &estimator) {
  auto sections = static_cast<uint32_t>(problem.pins.size());
  uint32_t devices = problem.machine.devices;
  for (const SearchPins &pins : problem.pins)
    if (pins.devices)
      return {};
  std::vector<uint32_t> all(sections);
  std::iota(all.begin(), all.end(), 0u);
  std::vector<std::pair<double, Layout>> found;
  for (uint32_t stages : cuts.stageCounts(0))
    for (Recompute recompute : kRecomputes)
      for (uint32_t m = 0; m < problem.model.microBatches.size(); ++m) {
        Layout layout{{groupOf(all, devices)}, {}};
        for (uint32_t s = 0; s < sections; ++s) {
          const cost_models::AtomicSection &section = problem.model.sections[s];
          const SearchPins &pins = problem.pins[s];
          RecomputeChoice own = section.trains ? RecomputeChoice(recompute) : RecomputeChoice();
          own.lossChunks = pins.lossChunks.value_or(own.most == Recompute::None ? 1 : section.mostLossChunks());
          uint32_t replicas = pins.dataParallel.value_or(devices / stages);
          if (stages > section.classOf.size() || !section.has(own) || pins.stages.value_or(stages) != stages ||
              pins.microBatch.value_or(m) != m || replicas == 0 || uint64_t{replicas} * stages > devices)
            break;
          layout.sections.push_back(
              {cuts.cut(s, own, stages, pins.splitStages.value_or(0)), m, replicas, pins.moreInFlight.value_or(0)});
        }
        if (layout.sections.size() == sections) {
          double seconds = placeFaster(estimator, layout);
          found.push_back({seconds, std::move(layout)});
        }
      }
  std::stable_sort(found.begin(), found.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<Layout> layouts;
  for (auto &[seconds, layout] : found)
    layouts.push_back(std::move(layout));
  return layouts;
}

std::vector<Layout> staticSplit(const SearchProblem &problem, const Cuts &cuts, const Estimator &estimator) {
  PinnedGroups pinned = pinnedGroups(problem);
  std::vector<DeviceGroup> groups = pinned.groups;
  std::vector<double> work;
  for (uint32_t s : pinned.open)
    work.push_back(cuts.work().least(s));
  if (pinned.open.size() <= pinned.devices) {
    std::vector<uint32_t> count = inProportion(work, pinned.devices);
    for (size_t i = 0; i < pinned.open.size(); ++i)
      groups.push_back(groupOf({pinned.open[i]}, count[i]));
  } else {
    for (std::vector<uint32_t> &indices : packed(work, pinned.devices)) { // Fewer devices than sections: each has some.
      for (uint32_t &index : indices)
        index = pinned.open[index];
      groups.push_back(groupOf(std::move(indices), 1));
    }
  }
  return withShares(problem, estimator, groups, kMaxStages);
}

} // namespace maestro::planner
