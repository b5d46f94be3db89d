// What a GPU's queues send to memory that fabrics reach. A fabric that reads devices (NCCL, NICs that take dma-bufs) is
// given addresses of the GPU; else, or where it refuses a block, the bytes go through a pinned ring a queue.
#pragma once

#include "executor/device/cuda/cuda_queues.h"
#include "executor/device/cuda/outgoing.h"

#include <array>
#include <functional>
#include <memory>
#include <vector>

namespace maestro::executor {

class FarSends {
public:
  /// Queues a copy to pinned memory, from the GPU's or from memory of the host.
  using CopyOut = std::function<Status(CUstream stream, std::byte *to, CUdeviceptr from, bool isHost, uint64_t bytes)>;
  FarSends(const cuda::Context &context, const DeviceOptions &options, CopyOut copyOut)
      : context(context), options(options), copyOut(std::move(copyOut)) {}
  /// When queues have finished, and before what was sent from goes.
  ~FarSends();
  FarSends(const FarSends &) = delete;

  /// Before anything is sent over it.
  Status open(transport::Fabric &fabric);
  /// Memory from which is sent.
  struct Block {
    CUdeviceptr start = 0;
    bool isHost = false;
    uint64_t ownBytes = 0;  ///< 0: it is not of this device's making, and fabrics know it.
    bool isKnown = false;   ///< Those that read devices have been told of it.
    bool isRefused = false; ///< They cannot read it.
  };
  /// `to` and `from` are where the box's offsets begin.
  void send(CudaQueues &queues, Queue queue, const transport::Target &to, Block &block, CUdeviceptr from,
            const Box &runs);

private:
  Status openRings(transport::Fabric &fabric);
  bool isRead(CudaQueues &queues, transport::Fabric &fabric, Block &block);
  void refuse(CudaQueues &queues, transport::Fabric &fabric, const Status &why);

  const cuda::Context &context;
  const DeviceOptions &options;
  const CopyOut copyOut;
  std::vector<transport::Fabric *> fabrics;
  struct Source {
    transport::Fabric *fabric;
    std::span<const std::byte> memory;
  };
  std::vector<Source> sources;                          ///< What fabrics were told of.
  std::array<std::unique_ptr<Outgoing>, kQueues> rings; ///< By queue; where a fabric has not read something by itself.
};

} // namespace maestro::executor
