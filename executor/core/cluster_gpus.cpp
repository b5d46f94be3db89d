#include "executor/core/cluster_gpus.h"

#include "executor/core/cluster_bulk.h"
#include "executor/core/cluster_dmabuf.h"
#include "executor/core/cluster_nccl.h"
#include "executor/core/rank_device.h"

namespace maestro::executor {

Result<GpuWays> openGpuWays(TransportChoice choice, const plan::Plan &plan, transport::Control &control, World &world,
                            transport::Network *network) {
  GpuWays ways;
  bool isNcclForced = choice == TransportChoice::Nccl;
  DmaBufChoice dmaBuf;
  if (!isNcclForced) {
    MAESTRO_ASSIGN(dmaBuf, openDmaBuf(plan, control, world, network));
  }
  if (dmaBuf.way) {
    ways.way = std::move(dmaBuf.way);
    ways.text = "; between GPUs dma-buf";
    return ways;
  }
  MAESTRO_ASSIGN(NcclChoice nccl, openNccl(isNcclForced, plan, control, world));
  if (nccl.way) {
    ways.way = std::move(nccl.way);
    ways.text = "; between GPUs " + nccl.name;
    return ways;
  }
  if (haveOwnMemory(plan))
    MAESTRO_TRY(tellBulk(world, control, network));
  if (!nccl.why.empty())
    ways.text = "; GPUs through the host's memory, not NCCL: " + nccl.why + "; not dma-buf: " + dmaBuf.why;
  return ways;
}

} // namespace maestro::executor
