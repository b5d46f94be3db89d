// Plans within a plan.
#include "plan/verify/checks.h"
#include "plan/verify/parts.h"

namespace maestro::plan {

Status verifySpares(const fb::Plan &plan) {
  if (!plan.spares())
    return Status();
  for (uint32_t i = 0; i < plan.spares()->size(); ++i) {
    Place root = Place::root(), spare = root.item("spares", i), place = spare / "plan";
    const auto &bytes = *plan.spares()->Get(i)->plan();
    MAESTRO_TRY(checkAligned(place, &bytes, kAlignment));
    if (Status own = verifyWhole({bytes.data(), bytes.size()}, /*isSpare=*/true); !own.isOk())
      return wrong(place, "{}", own.message());
    const fb::Plan &inner = *fb::GetPlan(bytes.data());
    if (inner.workload_hash() != plan.workload_hash())
      return wrong(place, "it is of workload {:016x}, and this plan is of {:016x}", inner.workload_hash(),
                   plan.workload_hash());
    uint64_t nodes = inner.machine()->nodes();
    if (nodes + i + 1 != plan.machine()->nodes())
      return wrong(place, "it is for {} nodes, and this plan is for {}: spares are for one node less each", nodes,
                   plan.machine()->nodes());
    if (inner.ranks()->size() > plan.ranks()->size())
      return wrong(place, "it has {} ranks, and this plan, which is for more nodes, {}", inner.ranks()->size(),
                   plan.ranks()->size());
  }
  return Status();
}

} // namespace maestro::plan
