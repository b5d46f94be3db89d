// maestro-plan as a function: files in, a plan file out.
//
//   read ─▶ import ─▶ link ─▶ passes (passes/pipeline.cpp) ─▶ micro-batch ─▶ lower, pack, emit ─▶ write
#pragma once

#include "base/status.h"
#include "passes/passes.h"
#include "planner/driver/data_sizes.h"

#include <optional>
#include <string>
#include <vector>

namespace maestro::planner {

/// A decision that the user fixes: `--pin student.micro_batch=3`, `*` for every section.
struct Pin {
  std::string section, property, value;
};
Result<Pin> parsePin(const std::string &text);

struct PlanOptions {
  std::vector<std::string> inputs;   ///< One workload file, or models.
  std::string output;                ///< Path of the plan; unused with stopAfter.
  std::string cluster;               ///< Path; empty: this machine.
  std::vector<std::string> settings; ///< `--set` as given: "train.global_batch=64".
  std::vector<Pin> pins;
  ReadSizes readSizes;                   ///< Null: samples are as the workload declares them.
  std::optional<double> deadlineSeconds; ///< Ends the search early.
  uint32_t spareNodes = 0;               ///< Nodes that may be lost: plans without them are made, too.
  uint32_t topK = 1;                     ///< Plans to write: plan.mpl, plan.2.mpl, …
  std::optional<Phase> stopAfter;        ///< Print the IR after this phase instead of writing a plan.
};

/// Plans and writes; prints the defaults taken and a summary to stderr through base/log.h.
Status runPlan(const PlanOptions &options);

} // namespace maestro::planner
