// How others write to bulk that lies on a device, where that takes more than an address: NICs by dma-bufs
// (core/cluster_dmabuf.h) or NCCL by windows (core/cluster_nccl.h). Whoever places bulk on devices
// (core/device_segments.h) knows no more of either.
#pragma once

#include "base/status.h"
#include "executor/device/device_segment.h"

#include <cstdint>
#include <memory>

namespace maestro::executor {

class BulkWay {
public:
  virtual ~BulkWay() = default;
  /// The rank, which is here, has its bulk there, and others write to it, as long as what is returned lives.
  /// Unavailable where it cannot be: the host's memory takes its place.
  virtual Result<std::unique_ptr<DeviceSegment>> place(uint32_t rank, std::unique_ptr<DeviceSegment> segment) = 0;
  /// By all processes, when they have placed theirs and before anybody writes there.
  virtual Status exchange() = 0;
};

/// One that somebody writes to, who lets go of it first.
class WrittenSegment : public DeviceSegment {
public:
  explicit WrittenSegment(std::unique_ptr<DeviceSegment> segment) : segment(std::move(segment)) {}
  std::byte *address() const override { return segment->address(); }
  Result<int> descriptor() override { return segment->descriptor(); }
  Status allow(uint32_t device) override { return segment->allow(device); }
  Result<transport::DeviceMemory> forNics() override { return segment->forNics(); }

private:
  std::unique_ptr<DeviceSegment> segment;
};

} // namespace maestro::executor
