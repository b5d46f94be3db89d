// A rank's share of a GPU that ranks of one process use together: their streams have as many queues to it as the driver
// makes, and where two share one, each would wait for what the other waits for.
#pragma once

#include "cuda/context.h"

#include <utility>

namespace maestro::executor {

class GpuShare {
public:
  static constexpr int kStreams = 6; ///< Of a rank: four queues, the clock's, the host's.

  /// Unavailable where the ranks that have one leave no queues for six streams more.
  static Result<GpuShare> take(const cuda::Context &context);
  GpuShare(GpuShare &&other) noexcept : device(std::exchange(other.device, -1)) {}
  GpuShare &operator=(GpuShare &&) = delete;
  ~GpuShare();

private:
  explicit GpuShare(CUdevice device) : device(device) {}
  CUdevice device; ///< -1: moved away.
};

} // namespace maestro::executor
