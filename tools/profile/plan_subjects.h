// The products, convolutions and attention of a plan, at the shapes that its micro-batches have.
#pragma once

#include "plan/plan.h"
#include "tools/profile/subjects.h"

#include <vector>

namespace maestro::profile {

/// Of tasks, each shape once: at an executable's largest micro-batches (of the longest samples, of the shortest, one between) and at a half of
/// the first. What a call would take more than about a tenth of a second for, or much memory, is left out and counted.
struct PlanSubjects {
  std::vector<Subject> list;
  size_t leftOut = 0;
};
PlanSubjects subjectsOf(const plan::Plan &plan);

} // namespace maestro::profile
