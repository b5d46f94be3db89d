#include "planner/workload/cluster_machine.h"

#include "cost_models/cpu_memory.h"
#include "planner/workload/device_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <unistd.h>

namespace maestro::planner {
namespace {

uint64_t memoryOfThisMachine() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

/// "cpu", or a file that maestro-profile wrote.
Result<cost_models::DeviceRates> readRates(const ClusterSpec &cluster, const std::string &path, int threads) {
  if (cluster.devices.empty() && cluster.isThisMachine)
    return cost_models::cpuRates(threads);
  if (cluster.devices.size() != 1)
    return Status::invalidInput(fmt::format("{}: this version plans for devices of one kind, not {} ('{}')", path,
                                            cluster.devices.size(), fmt::join(cluster.devices, "', '")));
  const std::string &device = cluster.devices.front();
  if (device == "cpu")
    return cost_models::cpuRates(threads);
  if (!device.ends_with(".yaml") && !device.ends_with(".yml"))
    return Status::invalidInput(fmt::format("{}: this version plans for 'cpu' devices or a file that maestro-profile wrote, not '{}'",
                                            path.empty() ? "cluster.device" : path, device));
  MAESTRO_ASSIGN(cost_models::DeviceProfile profile,
                 readDeviceProfile((std::filesystem::path(path).parent_path() / device).string()));
  return cost_models::ratesFor(profile, threads);
}

} // namespace

Result<PlannedMachine> machineOf(const ClusterSpec &cluster, const std::string &path) {
  PlannedMachine planned;
  planned.name = cluster.name.empty() ? "this machine" : cluster.name;
  auto cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  cost_models::Machine &machine = planned.machine;
  machine.devices = static_cast<uint32_t>(cluster.nodes * cluster.devicesPerNode.value_or(std::max<int64_t>(1, cores / 2)));
  planned.deviceThreads = machine.devices == 1 ? 0 : static_cast<uint32_t>(std::max<int64_t>(1, cores / machine.devices));
  int threads = static_cast<int>(planned.deviceThreads ? planned.deviceThreads : static_cast<uint32_t>(cores));
  cost_models::DeviceModel &device = machine.kinds.front();
  device.memoryBytes = memoryOfThisMachine() / machine.devices;
  MAESTRO_ASSIGN(device.rates, readRates(cluster, path, threads));
  machine.processBytes = cost_models::cpuProcessBytes(threads, 0);
  machine.stagingBytes = uint64_t{8} << 20; // As the executor's reduction stages gradients (transport/local/reduction.h).
  return planned;
}

} // namespace maestro::planner
