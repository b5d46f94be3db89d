// What was planned, in words: the plan's decisions and the log's lines.
#pragma once

#include "planner/driver/pins.h"
#include "planner/driver/plan_findings.h"
#include "planner/driver/programs.h"
#include "planner/driver/step_sizes.h"
#include "planner/emit/emit_plan.h"
#include "planner/workload/workload.h"

#include <map>
#include <string>
#include <vector>

namespace maestro::planner {

/// What the words are about. Refers to what the planner holds.
struct PlannedJob {
  const Workload &workload;
  const GraphSummary &graph;
  const std::vector<std::string> &importNotes;
  const StepSizes &sizes;
  const Pins &pins;
  const std::map<std::string, SectionLayout> &layouts; ///< By section.
  const cost_models::Machine &machine;
  bool isSearched = false; ///< Else layouts are pinned or over all devices.
};

/// "teacher 2 x 1 stage on devices 0-1, 4 samples; …": one line.
std::string describeLayouts(const std::map<std::string, SectionLayout> &layouts);

/// "train.global_batch = 32" and its like, and what the planner chose itself.
std::vector<Decision> decisionsOf(const PlannedJob &job);

/// Of the decisions on micro-batches: "6 samples, 256 padded tokens", as emitted, and as maestro-dump says it.
void nameMicroBatches(plan::fb::PlanT &plan);

/// How many parameters get no gradient, by component, and the first few of them.
std::vector<Quantity> quantitiesOf(const Unreached &unreached);
/// What the executor begins scheduling with (plan::kHintPrefix); none where nothing was better than usual.
std::vector<Quantity> quantitiesOf(std::span<const wavefront::Choice> hints);

/// The lines that the user reads.
void logPlan(const PlannedJob &job, const PlanFindings &findings, const EmittedPlan &emitted);

} // namespace maestro::planner
