// What layouts take and hold, by estimates: they rank what is simulated afterwards.
//
//   option of a section on n devices ─▶ seconds, bytes   (a Pareto table: section × n)
//   sections that share n devices    ─▶ their fastest options that fit together
//   layout                           ─▶ seconds of a step
#pragma once

#include "planner/search/cuts.h"

#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace maestro::planner {

/// Seconds of what does not fit.
inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// What a section's option takes of a step, and holds.
struct Estimate {
  double busy = 0;         ///< Of its busiest device.
  double fill = 0;         ///< Of a pipeline: filling and draining.
  double update = 0;       ///< Reduction and update.
  double criticalPath = 0; ///< Of the longest sample, where the section trains.
  uint64_t bytes = 0;      ///< Of its fullest device.
  double seconds() const { return std::max(busy + fill, criticalPath) + update; }
  /// With another section on the same devices.
  void add(const Estimate &other);
};

/// An option of a section, and its estimate.
struct PricedOption {
  const CutFacts *facts = nullptr;
  uint32_t microBatch = 0, replicas = 1;
  Estimate estimate;
};

/// What options are looked at.
struct OptionLimits {
  double memoryShare = 1; ///< Of a device's memory.
  uint32_t maxStages = kMaxStages;
  std::optional<std::pair<uint32_t, uint32_t>> held = {}; ///< A section, and the stages that it must have.
  auto operator<=>(const OptionLimits &) const = default;
};

class Estimator {
public:
  /// Both must outlive it.
  Estimator(const SearchProblem &problem, const Cuts &cuts);

  /// Seconds of a step.
  double seconds(const Layout &layout) const;
  /// The fastest options of sections that share so many devices; then, while they do not fit together, the change that
  /// costs least a byte. Empty where nothing fits.
  std::vector<PricedOption> fastestTogether(const std::vector<uint32_t> &sections, uint32_t devices,
                                            const OptionLimits &limits = {}) const;
  /// With what pins say of what is not estimated.
  SectionOption optionOf(uint32_t section, const PricedOption &priced) const;
  /// Their seconds; infinity where nothing fits.
  double secondsTogether(const std::vector<uint32_t> &sections, uint32_t devices,
                         const OptionLimits &limits = {}) const;
  /// As many replicas as pins say, or as devices and samples are enough for; 0: there is no room. Where pins say the
  /// devices, too, stations may share them.
  uint32_t replicas(uint32_t section, uint32_t stages, uint32_t devices) const;
  /// Bytes of a section's fullest device in the option that holds least; UINT64_MAX: not known.
  uint64_t leastBytes(uint32_t section) const;

private:
  Estimate estimate(uint32_t section, const CutFacts &facts, uint32_t microBatch, uint32_t replicas,
                    bool byStage) const;
  double updateSeconds(uint32_t section, const CutFacts &facts, uint32_t replicas, bool byStage) const;
  std::vector<PricedOption> paretoOptions(uint32_t section, uint32_t devices, const OptionLimits &limits) const;
  const std::vector<PricedOption> &tabled(uint32_t section, uint32_t devices, const OptionLimits &limits) const;
  double busiestDevice(const Layout &layout, const DeviceGroup &group) const;
  const CutFacts &factsOf(uint32_t section, const SectionOption &option) const;

  const SearchProblem &problem;
  const Cuts &cuts;
  uint64_t deviceBytes;                                          ///< Of the kind that has least.
  using TableKey = std::tuple<uint32_t, uint32_t, OptionLimits>; ///< section, devices
  mutable std::map<TableKey, std::vector<PricedOption>> table;
  mutable std::map<std::tuple<const CutFacts *, uint32_t, bool>, double> updates; ///< Of replicas, by stage.
};

} // namespace maestro::planner
