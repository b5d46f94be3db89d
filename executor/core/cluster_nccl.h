// Whether NCCL moves what GPUs of different processes write to each other.
#pragma once

#include "executor/core/world.h"
#include "plan/plan.h"
#include "transport/control/control.h"
#include "transport/fabric.h"

#include <memory>
#include <string>

namespace maestro::executor {

struct NcclWay {
  std::unique_ptr<transport::Fabric> fabric; ///< The world knows it; null where it moves nothing here.
  std::string name;                          ///< "NCCL 2.28.9"; empty: it moves nothing anywhere.
  std::string why;                           ///< Then why not; empty: nobody has a use for it.
};

/// By all processes, when their host parts reach each other. NCCL moves what goes to peers whose memory is not mapped
/// here, or with `isForced` to all peers. Where one of the processes cannot use it, none does: with `isForced` that is
/// Unavailable, for all and with the same text.
Result<NcclWay> openNccl(bool isForced, const plan::Plan &plan, transport::Control &control, World &world);

} // namespace maestro::executor
