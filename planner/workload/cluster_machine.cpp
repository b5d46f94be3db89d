#include "planner/workload/cluster_machine.h"

#include "base/machine_memory.h"
#include "base/nearest.h"
#include "cost_models/cpu_memory.h"
#include "cost_models/device_profile.h"
#include "cost_models/devices.h"
#include "cost_models/gpu_memory.h"
#include "plan/sum_turns.h"
#include "planner/workload/device_file.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

namespace maestro::planner {
namespace {

using cost_models::DeviceModel;
using cost_models::LinkLevel;
using cost_models::Machine;

constexpr int64_t kMostDevices = int64_t{1} << 20;

/// Whether this processor has products of bf16; without, they take as long as those of f32, at best.
bool multipliesBf16() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  return features.lookup("avx512bf16") || features.lookup("amx-bf16");
}

bool isFile(const std::string &device) { return device.ends_with(".yaml") || device.ends_with(".yml"); }

class MachineReader {
public:
  MachineReader(const ClusterSpec &cluster, const std::string &path, const std::string &gpuFolder)
      : cluster(cluster), path(path), names(cluster.devices) {
    if (cluster.isThisMachine)
      gpus = machineGpus(gpuFolder);
  }

  Result<PlannedMachine> read() {
    planned.name = cluster.name.empty() ? path.empty() ? "this machine" : std::filesystem::path(path).stem().string()
                                        : cluster.name;
    useOwnGpus();
    MAESTRO_TRY(readProfiles());
    MAESTRO_TRY(countDevices());
    MAESTRO_TRY(readKinds());
    MAESTRO_TRY(readLinks());
    MAESTRO_TRY(check(planned.machine));
    return std::move(planned);
  }

private:
  Status wrong(const std::string &place, std::string what) const {
    return Status::invalidInput(fmt::format("{}: {}", place.empty() ? "cluster" : place, what));
  }

  /// Where the user names no device.
  void useOwnGpus() {
    if (gpus.empty() || !names.empty())
      return;
    std::optional<std::string> kind = cost_models::builtInOf(gpus.front());
    if (!kind || countGpus(*kind) != gpus.size())
      return;
    names = {*kind};
    planned.note = fmt::format("cluster.device = {}: this machine has {} x {} (--set cluster.device=cpu plans for its "
                               "processors)",
                               *kind, gpus.size(), gpus.front());
  }

  /// Of this machine's.
  size_t countGpus(const std::string &kind) const {
    return static_cast<size_t>(
        std::count_if(gpus.begin(), gpus.end(), [&](const auto &own) { return cost_models::builtInOf(own) == kind; }));
  }

  Status readProfiles() {
    for (const std::string &name : names)
      if (isFile(name)) {
        std::string file = (std::filesystem::path(path).parent_path() / name).string();
        MAESTRO_ASSIGN(profiles[name], readDeviceProfile(file));
      }
    return Status();
  }

  /// "h200"; of a profile what it is of.
  std::string kindOf(const std::string &name) const {
    auto profile = profiles.find(name);
    return profile == profiles.end() ? name : profile->second.kind;
  }

  bool hasAccelerators() const {
    return std::any_of(names.begin(), names.end(), [&](const std::string &name) { return kindOf(name) != "cpu"; });
  }

  Status countDevices() {
    auto cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
    if (hasAccelerators() && !cluster.devicesPerNode && !cluster.isThisMachine)
      return wrong(cluster.place, "devices_per_node is missing; write how many devices a node has, such as 8");
    int64_t usual = hasAccelerators() ? static_cast<int64_t>(countGpus(kindOf(names.front()))) : cores / 2;
    perNode = cluster.devicesPerNode.value_or(std::max<int64_t>(1, usual));
    if (cluster.nodes * perNode > kMostDevices)
      return wrong(cluster.place, fmt::format("{} nodes of {} devices are {}; at most {} are planned for",
                                              cluster.nodes, perNode, cluster.nodes * perNode, kMostDevices));
    planned.machine.devices = static_cast<uint32_t>(cluster.nodes * perNode);
    return Status();
  }

  /// One kind for each name that is listed; nodes take them in turn where there are several.
  Status readKinds() {
    if (names.empty() && !cluster.isThisMachine)
      return wrong(cluster.place, fmt::format("device is missing; write cpu, the path of a profile, or one of {}",
                                              fmt::join(cost_models::builtInDevices(), ", ")));
    if (names.empty())
      names.push_back("cpu");
    if (names.size() > 1 && names.size() != static_cast<size_t>(cluster.nodes))
      return wrong(cluster.place,
                   fmt::format("device lists {} kinds for {} node{}; give one for all nodes, or one for each",
                               names.size(), cluster.nodes, cluster.nodes == 1 ? "" : "s"));
    Machine &machine = planned.machine;
    machine.kinds.clear();
    std::vector<uint32_t> kindOfNode;
    for (size_t i = 0; i < names.size(); ++i) {
      MAESTRO_ASSIGN(DeviceModel device, readDevice(names[i]));
      if (!cluster.memoryBytes.empty())
        MAESTRO_TRY(setMemory(device, cluster.memoryBytes[cluster.memoryBytes.size() == 1 ? 0 : i]));
      kindOfNode.push_back(kindNumber(std::move(device)));
    }
    if (machine.kinds.size() > 1)
      for (uint32_t device = 0; device < machine.devices; ++device)
        machine.kindOf.push_back(kindOfNode[static_cast<size_t>(device / perNode)]);
    bool accelerated = machine.kinds.front().multiprocessors > 0;
    for (const DeviceModel &kind : machine.kinds)
      if ((kind.multiprocessors > 0) != accelerated)
        return wrong(cluster.place,
                     fmt::format("device mixes '{}' and '{}'; CPUs and accelerators in one cluster are not planned for",
                                 machine.kinds.front().kind, kind.kind));
    return Status();
  }

  uint32_t kindNumber(DeviceModel device) {
    std::vector<DeviceModel> &kinds = planned.machine.kinds;
    for (uint32_t k = 0; k < kinds.size(); ++k)
      if (kinds[k].kind == device.kind && kinds[k].source == device.source &&
          kinds[k].memoryBytes == device.memoryBytes)
        return k;
    kinds.push_back(std::move(device));
    return static_cast<uint32_t>(kinds.size() - 1);
  }

  Result<DeviceModel> readDevice(const std::string &name) {
    if (auto device = cost_models::builtInDevice(name)) {
      planned.machine.processBytes = cost_models::kGranuleBytes;
      planned.machine.stagingBytes = cost_models::kGpuSumStagingBytes;
      return *device;
    }
    if (name != "cpu" && !isFile(name)) {
      std::vector<std::string> known = cost_models::builtInDevices();
      known.push_back("cpu");
      return wrong(cluster.place,
                   fmt::format("unknown device '{}'{}; known are {}, and files that maestro-profile wrote (*.yaml)",
                               name, didYouMean(name, known), fmt::join(known, ", ")));
    }
    if (auto profile = profiles.find(name); profile != profiles.end() && profile->second.kind != "cpu") {
      planned.machine.processBytes = cost_models::kGranuleBytes;
      planned.machine.stagingBytes = cost_models::kGpuSumStagingBytes;
      return cost_models::gpuFor(profile->second);
    }
    return readCpu(name);
  }

  /// A share of this machine, or of nodes like it.
  Result<DeviceModel> readCpu(const std::string &name) {
    auto cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
    planned.deviceThreads = perNode == 1 ? 0 : static_cast<uint32_t>(std::max<int64_t>(1, cores / perNode));
    int threads = static_cast<int>(planned.deviceThreads ? planned.deviceThreads : cores);
    DeviceModel device = cost_models::builtInCpu(threads);
    if (name == "cpu" && !multipliesBf16()) {
      device.rates.arithmeticBf16 = device.rates.arithmetic;
      device.source =
          "assumed: 100 GFLOP/s and 8 GB/s a thread; bf16 no faster, for which this processor has no products";
    }
    if (name != "cpu")
      device = cost_models::deviceFor(profiles.at(name), threads);
    device.memoryBytes = usableMemoryBytes() / static_cast<uint64_t>(perNode);
    planned.machine.processBytes = cost_models::cpuProcessBytes(threads);
    planned.machine.stagingBytes = plan::kSumStagingBytes;
    return device;
  }

  Status setMemory(DeviceModel &device, uint64_t bytes) const {
    if (bytes <= device.keptBytes())
      return wrong(cluster.place,
                   fmt::format("memory is {} bytes a device, and {} of '{}' are kept for its context and libraries",
                               bytes, device.keptBytes(), device.kind));
    device.memoryBytes = bytes - device.keptBytes();
    return Status();
  }

  Status readLinks() {
    Machine &machine = planned.machine;
    int64_t inner = 1;
    for (const LinkSpec &spec : cluster.links) {
      LinkLevel level{spec.name, static_cast<uint32_t>(std::min<int64_t>(spec.spans, machine.devices)), spec.bandwidth,
                      spec.latency};
      if (machine.devices % level.spans != 0)
        return wrong(spec.place, fmt::format("link '{}' spans {} devices, and {} do not divide into such groups",
                                             spec.name, spec.spans, machine.devices));
      if (spec.nics)
        level.bandwidth *= static_cast<double>(*spec.nics) / static_cast<double>(perNode);
      if (inner < machine.devices)
        machine.links.push_back(std::move(level));
      inner = spec.spans;
    }
    if (cluster.links.empty() && cluster.nodes == 1 && machine.kinds.front().multiprocessors > 0 && machine.devices > 1)
      machine.links.push_back(nodeLink());
    int64_t joined = machine.links.empty() ? perNode : machine.links.back().spans;
    if (joined < machine.devices)
      return wrong(cluster.links.empty() ? cluster.place : cluster.links.back().place,
                   fmt::format("{} of {} devices are joined by links; add the level that joins all, such as "
                               "{{name: rail, spans: {}, bandwidth: 50 GB/s, latency: 6 us}}",
                               joined, machine.devices, machine.devices));
    return Status();
  }

  LinkLevel nodeLink() const {
    LinkLevel level = cost_models::builtInNodeLink(planned.machine.kinds.front().kind);
    level.spans = planned.machine.devices;
    return level;
  }

  const ClusterSpec &cluster;
  const std::string &path;
  std::vector<std::string> names, gpus; ///< Devices; this machine's GPUs as their vendor calls them.
  std::map<std::string, cost_models::DeviceProfile> profiles; ///< By name.
  PlannedMachine planned;
  int64_t perNode = 1;
};

} // namespace

Result<PlannedMachine> machineOf(const ClusterSpec &cluster, const std::string &path, const std::string &gpuFolder) {
  return MachineReader(cluster, path, gpuFolder).read();
}

} // namespace maestro::planner
