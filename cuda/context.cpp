#include "cuda/context.h"

namespace maestro::cuda {

Result<int> Context::count() {
  constexpr const char *kRemedy = "; see what nvidia-smi and CUDA_VISIBLE_DEVICES say";
  MAESTRO_ASSIGN(const Driver *driver, loadDriver());
  int count = 0;
  CUresult result = driver->cuInit(0);
  if (result == CUDA_SUCCESS)
    result = driver->cuDeviceGetCount(&count);
  if (result == CUDA_ERROR_NO_DEVICE || (result == CUDA_SUCCESS && count == 0))
    return Status::unavailable("the NVIDIA driver (CUDA " + versionText(driver->version) + ") finds no GPU" + kRemedy);
  if (result != CUDA_SUCCESS)
    return Status::unavailable(std::string(driver->check(result, "cuInit").message()) + kRemedy);
  return count;
}

Result<std::unique_ptr<Context>> Context::open(int ordinal) {
  MAESTRO_ASSIGN(int count, Context::count());
  const Driver &driver = **loadDriver(); // Which count() has loaded.
  if (ordinal < 0 || ordinal >= count)
    return Status::unavailable("GPU " + std::to_string(ordinal) + " is wanted and this machine has " +
                               std::to_string(count) +
                               "; plan for so many devices a node, or see what CUDA_VISIBLE_DEVICES hides");
  CUdevice device;
  char name[128] = "";
  MAESTRO_CUDA_TRY(driver, cuDeviceGet, &device, ordinal);
  MAESTRO_CUDA_TRY(driver, cuDeviceGetName, name, sizeof name, device);
  std::unique_ptr<Context> opened(new Context(driver, device, "GPU " + std::to_string(ordinal) + " (" + name + ")"));
  CUresult result = driver.cuDevicePrimaryCtxRetain(&opened->context, device);
  if (result == CUDA_SUCCESS)
    return opened;
  opened->context = nullptr;
  const char *remedy = result == CUDA_ERROR_DEVICE_UNAVAILABLE
                           ? "; another process has it alone: end that, or nvidia-smi --compute-mode=0"
                       : result == CUDA_ERROR_OUT_OF_MEMORY
                           ? "; its memory is full: see which processes nvidia-smi shows"
                           : "; see what nvidia-smi and dmesg say of it";
  return Status::unavailable(opened->text + ": " +
                             std::string(driver.check(result, "cuDevicePrimaryCtxRetain").message()) + remedy);
}

Context::~Context() {
  if (!context)
    return;
  if (current == context) {
    current = nullptr;
    (void)functions.cuCtxSetCurrent(nullptr);
  }
  (void)functions.cuDevicePrimaryCtxRelease(handle);
}

void Context::setCurrent() const {
  if (functions.cuCtxSetCurrent(context) == CUDA_SUCCESS) // Else the call that follows says what is wrong.
    current = context;
}

int Context::attribute(CUdevice_attribute what) const {
  int value = 0;
  return functions.cuDeviceGetAttribute(&value, what, handle) == CUDA_SUCCESS ? value : 0;
}

} // namespace maestro::cuda
