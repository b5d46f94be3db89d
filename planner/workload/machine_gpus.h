// The GPUs of this machine, as the driver lists them in /proc: planning needs no library of theirs.
#pragma once

#include <string>
#include <vector>

namespace maestro::planner {

inline constexpr const char *kGpuFolder = "/proc/driver/nvidia/gpus";

/// "NVIDIA H100 80GB HBM3" for each of them, in the order of their places on the bus; none where no driver runs.
std::vector<std::string> machineGpus(const std::string &folder = kGpuFolder);

} // namespace maestro::planner
