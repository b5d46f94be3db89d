// What a call is, also in plans that say it by the kernel's name alone.
#pragma once

#include "plan/plan_generated.h"

#include <string_view>

namespace maestro::plan {

/// Kernel for all names but those of collectives.
inline fb::CallKind kindNamed(std::string_view kernel) {
  return kernel == "all_reduce"   ? fb::CallKind::AllReduce
         : kernel == "all_gather" ? fb::CallKind::AllGather
         : kernel == "own_part"   ? fb::CallKind::OwnPart
                                  : fb::CallKind::Kernel;
}

/// Of a call whose kernel is one of the plan's.
inline fb::CallKind kindOf(const fb::Plan &plan, const fb::Call &call) {
  return call.kind() != fb::CallKind::Kernel ? call.kind()
                                             : kindNamed(plan.kernels()->Get(call.kernel())->string_view());
}

} // namespace maestro::plan
