#include "kernels/cuda/host/functions.h"

#include "kernels/cuda/failure.h"

#include <array>

namespace maestro::kernels::cuda::host {
namespace {

class HostKernel : public kernels::Kernel {
public:
  HostKernel(std::unique_ptr<cuda::Kernel> kernel, std::string_view name, ThreadOrder order)
      : kernel(std::move(kernel)), name(name), order(order) {}

  Status run(std::span<const void *const> inputs, std::span<void *const> outputs, void *scratch) override {
    std::vector<CUdeviceptr> in, out;
    for (const void *input : inputs)
      in.push_back(reinterpret_cast<CUdeviceptr>(input));
    for (void *output : outputs)
      out.push_back(reinterpret_cast<CUdeviceptr>(output));
    Failure failure;
    options().order = order;
    MAESTRO_TRY(kernel->enqueue({nullptr, reinterpret_cast<CUdeviceptr>(&failure), 1}, in, out,
                                reinterpret_cast<CUdeviceptr>(scratch)));
    return toStatus(failure, name);
  }
  size_t scratchBytes() const override { return kernel->scratchBytes(); }

private:
  std::unique_ptr<cuda::Kernel> kernel;
  std::string name;
  ThreadOrder order;
};

class HostLibrary : public kernels::Library {
public:
  explicit HostLibrary(Libraries first) : library(createLibrary(functions, std::move(first))) {}

  std::string_view name() const override { return "cuda on the host"; }
  Result<std::unique_ptr<kernels::Kernel>> prepare(const CallSpec &spec) const override {
    MAESTRO_ASSIGN(auto kernel, library->prepare(spec));
    if (!kernel)
      return std::unique_ptr<kernels::Kernel>();
    return std::unique_ptr<kernels::Kernel>(std::make_unique<HostKernel>(
        std::move(kernel), spec.kernel, spec.threads > 1 ? ThreadOrder::Reverse : ThreadOrder::Forward));
  }

private:
  HostFunctions functions;
  std::unique_ptr<cuda::Library> library;
};

} // namespace

Result<CUfunction> HostFunctions::find(const std::string &name) const {
  if (const KernelEntry *entry = findKernel(name))
    return reinterpret_cast<CUfunction>(const_cast<KernelEntry *>(entry));
  return Status::internal("no kernel is called " + name);
}

Status HostFunctions::launch(CUfunction function, Grid grid, unsigned threads, size_t sharedBytes, CUstream,
                             void *params) const {
  return runGrid(*reinterpret_cast<const KernelEntry *>(function), {grid.x, grid.y, grid.z}, threads, sharedBytes,
                 params);
}

std::unique_ptr<kernels::Library> createHostLibrary(Libraries first) {
  return std::make_unique<HostLibrary>(std::move(first));
}

} // namespace maestro::kernels::cuda::host
