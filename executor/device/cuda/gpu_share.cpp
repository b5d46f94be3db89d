#include "executor/device/cuda/gpu_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

namespace maestro::executor {
namespace {

/// Ranks of this process by GPU.
struct Shares {
  std::mutex mutex;
  std::map<CUdevice, int> taken;
  static Shares &get() {
    static Shares shares;
    return shares;
  }
};

/// What cuda/driver.cpp asks for, or whoever started the process; the driver's own number where that is none.
int workQueues() {
  const char *text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return std::clamp(text ? std::atoi(text) : 8, 1, 32);
}

} // namespace

Result<GpuShare> GpuShare::take(const cuda::Context &context) {
  Shares &shares = Shares::get();
  std::lock_guard lock(shares.mutex);
  int &taken = shares.taken[context.device()];
  int most = std::max(1, workQueues() / kStreams);
  if (taken >= most)
    return Status::unavailable(fmt::format(
        "{} is used by {} ranks of this process, as many as its {} work queues serve (CUDA_DEVICE_MAX_CONNECTIONS, at "
        "most 32); run ranks as processes (--ranks processes), or plan for fewer devices",
        context.name(), taken, workQueues()));
  ++taken;
  return GpuShare(context.device());
}

GpuShare::~GpuShare() {
  if (device < 0)
    return;
  Shares &shares = Shares::get();
  std::lock_guard lock(shares.mutex);
  --shares.taken[device];
}

} // namespace maestro::executor
