#include "executor/device/cuda/far_sends.h"

#include "base/log.h"
#include "executor/device/cuda/rdma_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace maestro::executor {

FarSends::~FarSends() {
  for (transport::Fabric *fabric : fabrics) // They count here what has left.
    fabric->awaitIdle();
  for (const Source &source : sources)
    source.fabric->removeSource(source.memory);
}

Status FarSends::open(transport::Fabric &fabric) {
  if (std::find(fabrics.begin(), fabrics.end(), &fabric) != fabrics.end())
    return Status();
  fabrics.push_back(&fabric);
  return fabric.readsDevices() ? Status() : openRings(fabric);
}

Status FarSends::openRings(transport::Fabric &fabric) {
  for (auto &ring : rings) {
    MAESTRO_ASSIGN(auto block, PinnedBlock::create(context, PinnedRing::kBytes));
    ring = std::make_unique<Outgoing>(std::move(block), fabric);
  }
  return Status();
}

/// Whether the fabric reads the block by itself, of which it is told when something is first sent from there.
bool FarSends::isRead(CudaQueues &queues, transport::Fabric &fabric, Block &block) {
  if (!fabric.readsDevices())
    return false;
  if (block.ownBytes == 0 || std::exchange(block.isKnown, true))
    return !block.isRefused;
  transport::DeviceMemory memory = memoryForNics(context, block.start, block.ownBytes);
  Status added = fabric.addDeviceSource(memory);
  block.isRefused = !added.isOk();
  if (added.isOk())
    sources.push_back({&fabric, memory.memory});
  else if (!rings.front()) // Else it has been said.
    refuse(queues, fabric, added);
  return added.isOk();
}

void FarSends::refuse(CudaQueues &queues, transport::Fabric &fabric, const Status &why) {
  logWarning(fmt::format("rank {} sends through pinned memory of the host: {}", options.rank, why.message()));
  if (Status opened = openRings(fabric); !opened.isOk())
    queues.fail(std::move(opened));
}

void FarSends::send(CudaQueues &queues, Queue queue, const transport::Target &to, Block &block, CUdeviceptr from,
                    const Box &runs) {
  bool isDirect = isRead(queues, *to.fabric, block);
  RunCursor cursor(runs);
  for (RunCursor::Run run; cursor.next(run) && !queues.hasFailure();) {
    transport::Target target = to + static_cast<uint64_t>(run.destination);
    CUdeviceptr source = from + static_cast<CUdeviceptr>(run.source);
    if (isDirect) {
      queues.markSend(queue, {target, reinterpret_cast<const std::byte *>(source), run.bytes});
      continue;
    }
    Outgoing &ring = *rings[static_cast<size_t>(queue)];
    for (uint64_t at = 0; at < run.bytes && !queues.hasFailure();) {
      uint64_t count = std::min(run.bytes - at, PinnedRing::kMaxPieceBytes);
      auto piece = ring.take(count, *options.abort, options.rank);
      if (!piece)
        return queues.fail(std::move(piece).takeStatus());
      queues.enqueue(queue, [&](CUstream stream) { return copyOut(stream, *piece, source + at, block.isHost, count); });
      queues.mark(queue, entry::Send{target + at, *piece, count, &ring.taken()});
      at += count;
    }
  }
}

} // namespace maestro::executor
