// What --pin fixes.
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
  std::optional<int64_t> lossChunks;    ///< 1: none.
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

} // namespace maestro::planner
