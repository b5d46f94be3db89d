// Whether NICs read and write memory of GPUs by themselves, so that what ranks of different machines send each other
// goes from GPU to GPU; and where that memory is.
//
//   every process, when ways are opened             every process, when devices are open
//   tries it with a page of each of its GPUs        registers the bulk of its ranks, as far as it lies on GPUs
//   all say whether they can: all do, or nobody     tells those who write there (core/cluster_bulk.h)
//
// The bulk of a rank that the NIC refuses then is in the host's memory, where GPUs of others write just as well.
#pragma once

#include "executor/core/bulk_way.h"
#include "executor/core/world.h"
#include "plan/plan.h"
#include "transport/control/control.h"
#include "transport/network/network.h"

#include <memory>
#include <string>

namespace maestro::executor {

struct DmaBufChoice {
  std::unique_ptr<BulkWay> way; ///< Null: it is not taken, or nobody needs it.
  std::string why;              ///< Why not.
};

/// By all processes. MAESTRO_CUDA_DMABUF=never in one of them forbids it; `always` asks for it: then it is Unavailable,
/// for all and with the same text, where one of them cannot.
Result<DmaBufChoice> openDmaBuf(const plan::Plan &plan, transport::Control &control, World &world,
                                transport::Network *network);

} // namespace maestro::executor
