#include "executor/core/rank_device.h"

#include "plan/plan_generated.h"
#ifdef MAESTRO_CUDA
#include "cuda/driver.h"
#include "executor/device/cuda/cuda_device.h"
#include "executor/device/cuda/cuda_segment.h"
#endif

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <thread>

namespace maestro::executor {
namespace {

namespace fb = plan::fb;

/// GPUs whose plans run here, as their names begin in cluster files and as their drivers call them.
constexpr std::string_view kGpus[] = {"A100", "B200", "H100", "H200", "L40S"};

/// "H100" for "h100-sxm".
std::string modelOf(const plan::Plan &plan) {
  std::string_view kind = plan->machine()->device_kind()->string_view();
  std::string model(kind.substr(0, kind.find('-')));
  std::transform(model.begin(), model.end(), model.begin(), [](unsigned char c) { return std::toupper(c); });
  return model;
}

bool isForCpus(const plan::Plan &plan) { return plan->machine()->device_kind()->string_view() == "cpu"; }

Result<std::unique_ptr<Device>> createCpu(const plan::Plan &plan, const RankDeviceOptions &options) {
  CpuDeviceOptions own;
  static_cast<DeviceOptions &>(own) = options;
  uint32_t threads = plan->ranks()->Get(options.rank)->threads();
  own.threads = static_cast<int>(threads ? threads : std::max(1u, std::thread::hardware_concurrency()));
  std::shared_ptr<const kernels::Library> library = options.runsKernels ? kernels::createCpuLibrary() : nullptr;
  if (options.lateSeed < 0)
    return createCpuDevice(std::move(library), own);
  return createLateCpuDevice(std::move(library), own,
                             {static_cast<uint64_t>(options.lateSeed) + options.rank, options.lateDelayUs});
}

Result<std::unique_ptr<Device>> createCuda(const plan::Plan &plan, const RankDeviceOptions &options) {
#ifdef MAESTRO_CUDA
  CudaDeviceOptions own;
  static_cast<DeviceOptions &>(own) = options;
  const fb::Rank &rank = *plan->ranks()->Get(options.rank);
  own.device = rank.device();
  own.model = modelOf(plan);
  own.neededBytes = rank.peak_bytes();
  own.shared = options.shared;
  own.bulk = options.bulk;
  own.runsKernels = options.runsKernels;
  return createCudaDevice(own);
#else
  return Status::internal("a device of a GPU, in a program that has none");
#endif
}

} // namespace

Status checkDeviceKind(const plan::Plan &plan, const std::string &path) {
  if (isForCpus(plan))
    return Status();
  const fb::Machine &machine = *plan->machine();
  std::string what = fmt::format("{}: the plan is for {} devices of kind '{}' with {} bytes each", path,
                                 machine.devices(), machine.device_kind()->string_view(), machine.memory_bytes());
  if (machine.device_kind()->string_view().find('+') != std::string_view::npos)
    return Status::invalidInput(what + ", and this executor runs one kind at a time; plan for one of them");
  if (std::find(std::begin(kGpus), std::end(kGpus), modelOf(plan)) == std::end(kGpus))
    return Status::invalidInput(fmt::format("{}, and this executor runs on 'cpu' and on {} alone; plan again for one",
                                            what, fmt::join(kGpus, ", ")));
#ifdef MAESTRO_CUDA
  if (auto driver = cuda::loadDriver(); !driver)
    return std::move(driver).takeStatus().withContext(what);
  return Status();
#else
  return Status::unavailable(what +
                             ", and this maestro-run was built without a CUDA toolkit; build it with one, or plan "
                             "for CPUs (--set cluster.device=cpu)");
#endif
}

Result<std::unique_ptr<Device>> createRankDevice(const plan::Plan &plan, const RankDeviceOptions &options) {
  return isForCpus(plan) ? createCpu(plan, options) : createCuda(plan, options);
}

bool haveOwnMemory(const plan::Plan &plan) { return !isForCpus(plan); }

#ifdef MAESTRO_CUDA
Result<std::unique_ptr<DeviceSegment>> createDeviceSegment(const plan::Plan &plan, uint32_t rank, uint64_t bytes) {
  return createCudaSegment(plan->ranks()->Get(rank)->device(), bytes);
}

Result<std::unique_ptr<DeviceSegment>> openDeviceSegment(const plan::Plan &plan, uint32_t rank, int descriptor,
                                                         uint64_t bytes) {
  return openCudaSegment(plan->ranks()->Get(rank)->device(), descriptor, bytes);
}
#else
Result<std::unique_ptr<DeviceSegment>> createDeviceSegment(const plan::Plan &, uint32_t, uint64_t) {
  return Status::internal("memory of a GPU, in a program that has none");
}

Result<std::unique_ptr<DeviceSegment>> openDeviceSegment(const plan::Plan &, uint32_t, int, uint64_t) {
  return Status::internal("memory of a GPU, in a program that has none");
}
#endif

Status allowRank(const plan::Plan &plan, uint32_t rank, DeviceSegment &segment) {
  return segment.allow(plan->ranks()->Get(rank)->device());
}

} // namespace maestro::executor
