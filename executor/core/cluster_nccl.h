// Whether NCCL moves what GPUs of different processes write to each other; and by puts where it can, when all have
// placed the bulk of their ranks.
#pragma once

#include "executor/core/bulk_way.h"
#include "executor/core/world.h"
#include "plan/plan.h"
#include "transport/control/control.h"

#include <memory>
#include <string>

namespace maestro::executor {

struct NcclChoice {
  std::unique_ptr<BulkWay> way; ///< The world knows it; null: it moves nothing anywhere.
  std::string name;             ///< "NCCL 2.28.9"
  std::string why;              ///< Why it moves nothing; empty: nobody has a use for it.
};

/// By all processes, when their host parts reach each other. NCCL moves what goes to peers whose memory is not mapped
/// here, or with `isForced` to all peers. Where one of the processes cannot use it, none does: with `isForced` that is
/// Unavailable, for all and with the same text.
Result<NcclChoice> openNccl(bool isForced, const plan::Plan &plan, transport::Control &control, World &world);

} // namespace maestro::executor
