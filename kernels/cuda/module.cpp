#include "kernels/cuda/module.h"

#include "base/hash.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <vector>

namespace maestro::kernels::cuda {
namespace {

constexpr size_t kDefaultSharedBytes = 48 << 10; ///< What a kernel may ask for without saying so before.
constexpr const char *kRemedy = "install maestro with its kernels, built with a CUDA toolkit";

/// Why the driver does not take the kernels, as far as versions tell, and what to do. A driver loads what toolkits of
/// its own major version and of older ones have compiled.
std::string explainVersions(int driver) {
  constexpr int kToolkit = MAESTRO_NVCC_VERSION, kMajor = kToolkit / 1000;
  std::string text = fmt::format("a toolkit of CUDA {} compiled them, and the driver is of CUDA {}",
                                 maestro::cuda::versionText(kToolkit), maestro::cuda::versionText(driver));
  if (driver / 1000 < kMajor)
    return fmt::format("{}; install a driver of CUDA {} or newer, or build maestro with a toolkit of CUDA {}", text,
                       kMajor, driver / 1000);
  return text + "; install maestro with kernels for this GPU (docs/gpu.md says which there are)";
}

} // namespace

Result<std::filesystem::path> Module::pathBesideProgram() {
  std::error_code error;
  std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    return Status::unavailable("/proc/self/exe: " + error.message() + "; where the CUDA kernels lie is not known");
  return program.replace_filename("maestro-kernels.fatbin");
}

Result<std::unique_ptr<Module>> Module::load(const maestro::cuda::Context &context, const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> image((std::istreambuf_iterator<char>(file)), {});
  if (!file || image.empty())
    return Status::unavailable(fmt::format("{}: the CUDA kernels cannot be read; {}", path.string(), kRemedy));
  context.makeCurrent();
  CUmodule module;
  CUresult result = context.driver().cuModuleLoadData(&module, image.data());
  if (result == CUDA_SUCCESS)
    return std::unique_ptr<Module>(
        new Module(context, module, hashBytes({reinterpret_cast<const uint8_t *>(image.data()), image.size()})));
  return Status::unavailable(fmt::format(
      "{}: the CUDA kernels do not load on {}, of compute capability {}.{}: {}; {}", path.string(), context.name(),
      context.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
      context.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
      context.driver().check(result, "cuModuleLoadData").message(), explainVersions(context.driver().version)));
}

Module::~Module() {
  context.makeCurrent();
  (void)context.driver().cuModuleUnload(module);
}

Result<CUfunction> Module::find(const std::string &name) const {
  context.makeCurrent();
  CUfunction function;
  if (CUresult result = context.driver().cuModuleGetFunction(&function, module, name.c_str()); result != CUDA_SUCCESS)
    return context.driver()
        .check(result, "cuModuleGetFunction")
        .withContext(fmt::format("the CUDA kernels have no '{}'; {}", name, kRemedy));
  return function;
}

Status Module::launch(CUfunction function, Grid grid, unsigned threads, size_t sharedBytes, CUstream stream,
                      void *params) const {
  const maestro::cuda::Driver &driver = context.driver();
  void *const list[] = {params};
  if (sharedBytes > kDefaultSharedBytes)
    MAESTRO_CUDA_TRY(driver, cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                     static_cast<int>(sharedBytes));
  return driver.check(driver.cuLaunchKernel(function, grid.x, grid.y, grid.z, threads, 1, 1,
                                            static_cast<unsigned>(sharedBytes), stream, const_cast<void **>(list),
                                            nullptr),
                      "cuLaunchKernel");
}

} // namespace maestro::kernels::cuda
