// Every family's kernels, compiled for the host.
#include "kernels/cuda/host/grid.h"

#include <algorithm>

namespace maestro::kernels::cuda {

std::span<const host::KernelEntry> elementwiseKernels();
std::span<const host::KernelEntry> queueKernels();

namespace host {

std::span<const std::span<const KernelEntry>> kernelTables() {
  static const std::span<const KernelEntry> kTables[] = {elementwiseKernels(), queueKernels()};
  return kTables;
}

const KernelEntry *findKernel(std::string_view name) {
  for (auto table : kernelTables())
    if (auto found = std::ranges::find_if(table, [&](const KernelEntry &entry) { return name == entry.name; });
        found != table.end())
      return &*found;
  return nullptr;
}

} // namespace host
} // namespace maestro::kernels::cuda
