// How much work a step's samples are, whatever the layout: what predicted times are set against.
#pragma once

#include "cost_models/simulator.h"

#include <span>
#include <vector>

namespace maestro::plan::fb {
struct PlanT;
}

namespace maestro::planner {

struct SectionWork {
  double flops = 0;
  double tokens = 0; ///< Of the samples that take part: their longest padded dim of those that the section works on.
};

struct StepWork {
  double flops = 0;  ///< Of the plan's programs, recomputation included, for each sample by itself: without padding.
  double tokens = 0; ///< As metrics count them: a sample's longest padded dim; 0 where none is padded.
  std::vector<SectionWork> sections; ///< By the plan's.
};

/// The mean over `steps`, whose sizes are by the plan's symbols.
StepWork workOf(const plan::fb::PlanT &plan, std::span<const cost_models::SampleSizes> steps);

} // namespace maestro::planner
