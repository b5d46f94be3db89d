// The driver's functions: what concerns devices, contexts, memory and how they are found. launch.cpp has streams' work.
#include "cuda/driver.h"

#include "test/cuda/fake/fake.h"
#include "test/cuda/fake/memory.h"
#include "test/cuda/fake/objects.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace maestro::cuda::fake {
namespace {

uint64_t fromEnvironment(const char *name, uint64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::string textFromEnvironment(const char *name) {
  const char *text = std::getenv(name);
  return text ? text : "";
}

thread_local CUcontext current = nullptr;

} // namespace

/// Of "GPU:WORKS".
std::pair<int, uint64_t> lost() {
  int device = -1;
  unsigned long long works = 0;
  if (const char *text = std::getenv("MAESTRO_FAKE_CUDA_LOST");
      text && std::sscanf(text, "%d:%llu", &device, &works) != 2)
    complain("MAESTRO_FAKE_CUDA_LOST is not GPU:WORKS");
  return {device, works};
}

const Settings &Settings::get() {
  static const Settings settings = {fromEnvironment("MAESTRO_FAKE_CUDA_SEED", 1),
                                    fromEnvironment("MAESTRO_FAKE_CUDA_DELAY_US", 200),
                                    fromEnvironment("MAESTRO_FAKE_CUDA_DEVICES", 2),
                                    fromEnvironment("MAESTRO_FAKE_CUDA_MEMORY", uint64_t{8} << 30),
                                    fromEnvironment("MAESTRO_FAKE_CUDA_VERSION", std::max(13000, CUDA_VERSION)),
                                    std::clamp<uint64_t>(fromEnvironment("CUDA_DEVICE_MAX_CONNECTIONS", 8), 1, 32),
                                    std::getenv("MAESTRO_FAKE_CUDA_IN_USE") != nullptr,
                                    std::getenv("MAESTRO_FAKE_CUDA_NO_EXPORT") == nullptr,
                                    std::getenv("MAESTRO_FAKE_CUDA_NO_PEERS") == nullptr,
                                    std::getenv("MAESTRO_FAKE_CUDA_HIDES_NOTHING") == nullptr,
                                    lost().first,
                                    lost().second,
                                    textFromEnvironment("MAESTRO_FAKE_CUDA_DMABUF")};
  return settings;
}

void complain(const std::string &text) {
  std::fprintf(stderr, "fake CUDA driver: %s\n", text.c_str());
  std::fflush(stderr);
  std::abort();
}

Objects &Objects::get() {
  static auto *objects = new Objects();
  return *objects;
}

} // namespace maestro::cuda::fake

using namespace maestro::cuda::fake;

namespace {

struct Contexts {
  int uses[64] = {};
} contexts;
std::atomic<uint64_t> flushes{0};

CUcontext contextOf(CUdevice device) { return reinterpret_cast<CUcontext>(&contexts.uses[device]); }
CUdevice deviceOf(CUcontext context) { return static_cast<CUdevice>(reinterpret_cast<int *>(context) - contexts.uses); }
bool exists(CUdevice device) { return device >= 0 && static_cast<uint64_t>(device) < Settings::get().devices; }

struct NamedError {
  CUresult result;
  const char *name, *text;
};
constexpr NamedError kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
};
const NamedError *find(CUresult result) {
  for (const NamedError &error : kErrors)
    if (error.result == result)
      return &error;
  return nullptr;
}

} // namespace

CUdevice Objects::requireContext(const char *who) {
  if (!current)
    complain(std::string(who) + " on a thread that has no current context");
  return deviceOf(current);
}

namespace {

/// At exit, when whoever used the driver has given back all that it took.
__attribute__((destructor)) void checkLeftovers() {
  if (Settings::get().lostDevice >= 0) // Who has lost a GPU need not tidy up.
    return;
  std::string text = Memory::get().leftovers();
  for (int uses : contexts.uses)
    if (uses > 0)
      text += (text.empty() ? "" : ", ") + std::string("a retained context");
  if (std::string objects = Objects::get().leftovers(); !objects.empty())
    text += (text.empty() ? "" : ", ") + objects;
  if (!text.empty())
    complain("left at the end: " + text);
}

} // namespace

// ---- what it is

CUresult cuInit(unsigned) { return Settings::get().devices > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE; }
CUresult cuDriverGetVersion(int *version) {
  *version = static_cast<int>(Settings::get().version);
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult result, const char **name) {
  const NamedError *error = find(result);
  *name = error ? error->name : nullptr;
  return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult result, const char **text) {
  const NamedError *error = find(result);
  *text = error ? error->text : nullptr;
  return error ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetProcAddress(const char *name, void **address, int version, cuuint64_t, CUdriverProcAddressQueryResult *) {
  *address = nullptr;
#define MAESTRO_CUDA_FIND(function)                                                                                    \
  if (std::strcmp(name, #function) == 0)                                                                               \
    *address = reinterpret_cast<void *>(&::function);
  MAESTRO_CUDA_DRIVER_FUNCTIONS(MAESTRO_CUDA_FIND)
#undef MAESTRO_CUDA_FIND
  return *address && static_cast<uint64_t>(version) <= Settings::get().version ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// ---- devices and contexts

CUresult cuDeviceGetCount(int *count) {
  *count = static_cast<int>(Settings::get().devices);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return exists(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetName(char *name, int bytes, CUdevice) {
  std::snprintf(name, static_cast<size_t>(bytes), "NVIDIA H100 80GB HBM3 (fake)");
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    *value = 9;
    break;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    *value = 4;
    break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    *value = 227 << 10;
    break;
  case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    *value = Settings::get().exports;
    break;
  case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
    *value = !Settings::get().dmaBuf.empty();
    break;
  case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
    *value = Settings::get().dmaBuf == "ordered" ? CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER
                                                 : CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE;
    break;
  case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
    *value = Settings::get().dmaBuf == "flushed" ? CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST : 0;
    break;
  case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
  case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    *value = 1;
    break;
  default:
    *value = 0;
  }
  return exists(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  *bytes = Settings::get().memory;
  return exists(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  if (!exists(device))
    return CUDA_ERROR_INVALID_DEVICE;
  if (Settings::get().inUse)
    return CUDA_ERROR_DEVICE_UNAVAILABLE;
  std::lock_guard lock(Objects::get().mutex);
  ++contexts.uses[device];
  *context = contextOf(device);
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  std::lock_guard lock(Objects::get().mutex);
  if (!exists(device) || contexts.uses[device] == 0)
    complain("cuDevicePrimaryCtxRelease of a context that was not retained");
  --contexts.uses[device];
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}

// ---- memory

CUresult cuMemGetInfo(size_t *free, size_t *total) {
  Objects::requireContext("cuMemGetInfo");
  *free = Memory::get().freeBytes();
  *total = Settings::get().memory;
  return CUDA_SUCCESS;
}
CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *, CUmemAllocationGranularity_flags) {
  *bytes = Memory::kGranule;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  Objects::requireContext("cuMemAddressReserve");
  return Memory::get().reserve(address, bytes);
}
CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) { return Memory::get().unreserve(address, bytes); }
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                     unsigned long long) {
  Objects::requireContext("cuMemCreate");
  if (properties->type != CU_MEM_ALLOCATION_TYPE_PINNED || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      !exists(properties->location.id))
    return CUDA_ERROR_INVALID_VALUE;
  if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE && !Settings::get().exports)
    return CUDA_ERROR_NOT_SUPPORTED;
  if (properties->allocFlags.gpuDirectRDMACapable && Settings::get().dmaBuf.empty())
    return CUDA_ERROR_INVALID_VALUE;
  return Memory::get().create(handle, bytes, properties->location.id,
                              properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                              properties->allocFlags.gpuDirectRDMACapable);
}
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t bytes, CUmemRangeHandleType type,
                                       unsigned long long flags) {
  Objects::requireContext("cuMemGetHandleForAddressRange");
  constexpr size_t kPage = 4096;
  if (address % kPage != 0 || bytes % kPage != 0 || bytes == 0)
    complain("cuMemGetHandleForAddressRange of a part of a page");
  if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || Settings::get().dmaBuf.empty() || flags != 0) // As before 12.8.
    return CUDA_ERROR_NOT_SUPPORTED;
  return Memory::get().openForNics(static_cast<int *>(handle), address, bytes);
}
CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget, CUflushGPUDirectRDMAWritesScope scope) {
  Objects::requireContext("cuFlushGPUDirectRDMAWrites");
  if (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER || Settings::get().dmaBuf != "flushed")
    return CUDA_ERROR_NOT_SUPPORTED;
  ++flushes;
  return CUDA_SUCCESS;
}
extern "C" uint64_t maestroFakeCudaFlushes() { return flushes; }
CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long) {
  return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
             ? Memory::get().exportTo(static_cast<int *>(shareable), handle)
             : CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                        CUmemAllocationHandleType type) {
  Objects::requireContext("cuMemImportFromShareableHandle");
  return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
             ? Memory::get().import(handle, static_cast<int>(reinterpret_cast<intptr_t>(shareable)))
             : CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) { return Memory::get().release(handle); }
CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  return offset == 0 ? Memory::get().map(address, bytes, handle) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) { return Memory::get().unmap(address, bytes); }
CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count) {
  return count == 1 && exists(access->location.id) ? Memory::get().allow(address, bytes, access->location.id)
                                                   : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned) {
  Objects::requireContext("cuMemHostAlloc");
  return Memory::get().allocateHost(pointer, bytes);
}
CUresult cuMemFreeHost(void *pointer) {
  Objects::requireContext("cuMemFreeHost");
  return Memory::get().freeHost(pointer);
}
CUresult cuMemHostRegister(void *pointer, size_t bytes, unsigned) {
  Objects::requireContext("cuMemHostRegister");
  return Memory::get().registerHost(pointer, bytes);
}
CUresult cuMemHostUnregister(void *pointer) {
  Objects::requireContext("cuMemHostUnregister");
  return Memory::get().unregisterHost(pointer);
}
CUresult cuMemHostGetDevicePointer(CUdeviceptr *address, void *pointer, unsigned) {
  *address = reinterpret_cast<CUdeviceptr>(pointer);
  Memory::get().kindOf("cuMemHostGetDevicePointer", *address, 1, 0);
  return CUDA_SUCCESS;
}
