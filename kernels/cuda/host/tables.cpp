// Every family's kernels, compiled for the host.
#include "kernels/cuda/host/grid.h"

#include <algorithm>

namespace maestro::kernels::cuda {

std::span<const host::KernelEntry> adafactorKernels();
std::span<const host::KernelEntry> attentionKernels();
std::span<const host::KernelEntry> convKernels();
std::span<const host::KernelEntry> elementwiseKernels();
std::span<const host::KernelEntry> gatherKernels();
std::span<const host::KernelEntry> lossKernels();
std::span<const host::KernelEntry> movementKernels();
std::span<const host::KernelEntry> muonKernels();
std::span<const host::KernelEntry> normKernels();
std::span<const host::KernelEntry> positionKernels();
std::span<const host::KernelEntry> productKernels();
std::span<const host::KernelEntry> queueKernels();
std::span<const host::KernelEntry> recurrenceKernels();
std::span<const host::KernelEntry> reduceKernels();
std::span<const host::KernelEntry> scatterKernels();
std::span<const host::KernelEntry> selectKernels();
std::span<const host::KernelEntry> softmaxKernels();
std::span<const host::KernelEntry> updateKernels();

namespace host {

std::span<const std::span<const KernelEntry>> kernelTables() {
  static const std::span<const KernelEntry> kTables[] = {
      adafactorKernels(), muonKernels(),    attentionKernels(),  convKernels(),   elementwiseKernels(),
      gatherKernels(),    lossKernels(),    movementKernels(),   normKernels(),   positionKernels(),
      productKernels(),   queueKernels(),   recurrenceKernels(), reduceKernels(), scatterKernels(),
      selectKernels(),    softmaxKernels(), updateKernels()};
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
