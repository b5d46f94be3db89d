// How what GPUs of different processes write to each other moves, where they do not share memory. The ladder, of which
// all processes take the first rung that all of them can:
//
//   dma-buf   NICs write from GPU to GPU (core/cluster_dmabuf.h)
//   NCCL      it moves them (core/cluster_nccl.h)
//   hosts     through pinned memory, over the way that hosts have anyway
#pragma once

#include "executor/core/bulk_way.h"
#include "executor/core/run.h"
#include "executor/core/world.h"
#include "plan/plan.h"
#include "transport/control/control.h"
#include "transport/network/network.h"

#include <memory>
#include <string>

namespace maestro::executor {

struct GpuWays {
  std::unique_ptr<BulkWay> way; ///< Null: addresses are enough, or the host's memory is written.
  std::string text; ///< To be said of it: "; between GPUs dma-buf", or why it is the slow way; empty for CPUs.
};

/// By all processes, when their host parts reach each other, over `network` where that is not null. Unavailable, for
/// all and with the same text, where the rung that was asked for (--transport nccl, MAESTRO_CUDA_DMABUF=always) cannot
/// be taken by one of them.
Result<GpuWays> openGpuWays(TransportChoice choice, const plan::Plan &plan, transport::Control &control, World &world,
                            transport::Network *network);

} // namespace maestro::executor
