// What --pin fixes, and the layouts of sections that follow.
#pragma once

#include "planner/driver/plan_command.h"
#include "planner/emit/emit_plan.h"

#include <map>
#include <string>
#include <vector>

namespace maestro::planner {

inline constexpr int64_t kAllStages = 1 << 20;

/// Values of one section's pins; nothing where none was given.
struct SectionPins {
  std::optional<int64_t> dataParallel, stages, tensor, microBatch, microBatchTokens, moreInFlight;
  std::optional<std::vector<uint32_t>> devices;
  std::optional<RecomputeChoice> recompute;
  std::optional<int64_t> splitBackward; ///< Stages, the last ones; kAllStages: all.
  std::optional<DType> precision;
};

/// By section name, "*" for all that say nothing themselves.
class Pins {
public:
  /// Checks properties and values. Section names are checked by check(), once sections exist.
  static Result<Pins> parse(const std::vector<Pin> &pins);
  /// InvalidInput naming the nearest section for a pin of one that is not there.
  Status check(const std::vector<std::string> &sections) const;
  /// The pin of the section, or of all.
  template <typename T> std::optional<T> of(const std::string &section, std::optional<T> SectionPins::*member) const {
    for (const std::string &name : {section, std::string("*")})
      if (auto found = bySection.find(name); found != bySection.end() && found->second.*member)
        return found->second.*member;
    return std::nullopt;
  }
  /// For the partition pass; with the workload's cuts.
  PartitionOptions partition(const Workload &workload) const;
  /// The pin as it was given: "--pin student.dp=2", of the section or of all; empty where there is none.
  std::string asGiven(const std::string &section, const std::string &property) const;
  /// Whether any section's tensors are split: such layouts are pinned, not searched.
  bool splitsTensors() const;
  const std::map<std::string, SectionPins> &all() const { return bySection; }

private:
  std::map<std::string, SectionPins> bySection;
  std::vector<Pin> given;
};

/// A section as the search sees it.
struct SectionFacts {
  std::string name;
  int64_t stages = 1, tensor = 1;
};

/// A component's `cuts` must name modules that hold parameters; InvalidInput with the nearest that does.
Status checkCuts(const Workload &workload, const GraphSummary &graph);

/// The size of micro-batches where it is neither pinned nor searched.
struct MicroBatchChoice {
  int64_t samples = 0;
  std::string reason;
};
MicroBatchChoice defaultMicroBatch(const GraphSummary &graph, int64_t globalBatch);

/// Layouts on `devices` devices: as pinned; else replicated over all of them. InvalidInput where pins contradict each
/// other or name devices that are not there.
Result<std::map<std::string, SectionLayout>> chooseLayouts(const std::vector<SectionFacts> &sections, const Pins &pins,
                                                           const GraphSummary &graph, int64_t globalBatch,
                                                           uint32_t devices);

} // namespace maestro::planner
