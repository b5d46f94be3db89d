#include "cuda/driver.h"

#include "base/loaded_library.h"

#include <cstdlib>

namespace maestro::cuda {
namespace {

constexpr const char *kLibrary = "libcuda.so.1";
constexpr const char *kRemedy =
    "install or update the NVIDIA driver (525 or newer), or plan for CPUs (--set cluster.device=cpu)";

/// Streams whose work goes to the GPU by one queue wait for each other's waits, and those of ranks that share a GPU
/// would wait in a circle. The driver reads this when it is initialised; the most that it takes, instead of its 8.
void askForWorkQueues() { (void)::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

Result<Driver> load() {
  askForWorkQueues();
  LoadedLibrary library{kLibrary};
  if (!library)
    return Status::unavailable(std::string("a GPU needs the NVIDIA driver, whose library ") + kLibrary +
                               " cannot be loaded: " + library.failure() + "; " + kRemedy);
  Driver driver{};
  decltype(&::cuDriverGetVersion) getVersion;
  library.find(getVersion, "cuDriverGetVersion");
  if (getVersion)
    (void)getVersion(&driver.version); // 0 where it fails.
  decltype(&::cuGetProcAddress) getAddress;
  library.find(getAddress, "cuGetProcAddress_v2");
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
  return pointerTo(driver);
}

} // namespace maestro::cuda
