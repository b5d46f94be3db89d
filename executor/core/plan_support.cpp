#include "executor/core/plan_support.h"

#include "plan/plan_generated.h"

#include <fmt/format.h>

namespace maestro::executor {

Status checkSupported(const plan::Plan &plan) {
  if (plan->version_minor() == 0 && plan->edges()->size() > 0)
    return Status::invalidInput(
        fmt::format("plan.edges: the plan has {} and format {}.0, which binds no memory to edges; make the "
                    "plan again with maestro-plan",
                    plan->edges()->size(), plan->version_major()));
  return Status();
}

} // namespace maestro::executor
