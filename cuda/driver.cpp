#include "cuda/driver.h"

#include <dlfcn.h>

namespace maestro::cuda {
namespace {

constexpr const char *kLibrary = "libcuda.so.1";
constexpr const char *kRemedy =
    "install or update the NVIDIA driver (525 or newer), or plan for CPUs (--set cluster.device=cpu)";

template <typename Function> Function find(void *library, const char *name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

Result<Driver> load() {
  void *library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status::unavailable(std::string("a GPU needs the NVIDIA driver, whose library ") + kLibrary +
                               " cannot be loaded: " + ::dlerror() + "; " + kRemedy);
  Driver driver{};
  if (auto getVersion = find<decltype(&::cuDriverGetVersion)>(library, "cuDriverGetVersion"))
    (void)getVersion(&driver.version); // 0 where it fails.
  auto getAddress = find<decltype(&::cuGetProcAddress)>(library, "cuGetProcAddress_v2");
  if (driver.version < Driver::kMinVersion || !getAddress)
    return Status::unavailable(std::string(kLibrary) + " supports CUDA " + versionText(driver.version) + ", and " +
                               versionText(Driver::kMinVersion) + " or newer is needed; " + kRemedy);
  const struct {
    const char *name;
    void **field;
  } fields[] = {
#define MAESTRO_CUDA_ENTRY(name) {#name, reinterpret_cast<void **>(&driver.name)},
      MAESTRO_CUDA_DRIVER_FUNCTIONS(MAESTRO_CUDA_ENTRY)
#undef MAESTRO_CUDA_ENTRY
  };
  std::string missing;
  for (const auto &[name, field] : fields)
    if (CUresult result = getAddress(name, field, Driver::kMinVersion, CU_GET_PROC_ADDRESS_DEFAULT, nullptr);
        (result != CUDA_SUCCESS || !*field) && missing.empty())
      missing = name;
  if (!missing.empty())
    return Status::unavailable(std::string(kLibrary) + ", of CUDA " + versionText(driver.version) + ", lacks " +
                               missing + "; " + kRemedy);
  return driver;
}

} // namespace

std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string Driver::nameOf(CUresult result) const {
  const char *name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
    return "error " + std::to_string(static_cast<int>(result));
  return name;
}

Status Driver::check(CUresult result, std::string_view function) const {
  if (result == CUDA_SUCCESS)
    return Status();
  const char *text = nullptr;
  if (cuGetErrorString(result, &text) != CUDA_SUCCESS || !text)
    text = "which the driver does not explain";
  return Status::unavailable(std::string(function) + ": " + nameOf(result) + " (" + text + ")");
}

Result<const Driver *> loadDriver() {
  static const Result<Driver> driver = load();
  if (!driver)
    return Status(driver.status().code(), std::string(driver.status().message()));
  return &*driver;
}

} // namespace maestro::cuda
