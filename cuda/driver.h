// The CUDA driver as a table of functions, filled when it is first asked for: programs start where no driver is
// installed, link no CUDA library, and say what is missing where a plan wants one.
//
// The fields are called as the functions are, so a call reads driver.cuMemMap(…). Their types are cuda.h's, their
// versions those of kMinVersion, whatever newer ones the driver has.
#pragma once

#include "base/status.h"

#include <cuda.h>
#include <string>
#include <string_view>

#define MAESTRO_CUDA_DRIVER_FUNCTIONS(X)                                                                               \
  X(cuInit)                                                                                                            \
  X(cuGetErrorName)                                                                                                    \
  X(cuGetErrorString)                                                                                                  \
  X(cuDeviceGetCount)                                                                                                  \
  X(cuDeviceGet)                                                                                                       \
  X(cuDeviceGetName)                                                                                                   \
  X(cuDeviceGetAttribute)                                                                                              \
  X(cuDeviceTotalMem)                                                                                                  \
  X(cuDevicePrimaryCtxRetain)                                                                                          \
  X(cuDevicePrimaryCtxRelease)                                                                                         \
  X(cuCtxSetCurrent)                                                                                                   \
  X(cuMemGetInfo)                                                                                                      \
  X(cuStreamCreate)                                                                                                    \
  X(cuStreamDestroy)                                                                                                   \
  X(cuStreamSynchronize)                                                                                               \
  X(cuStreamQuery)                                                                                                     \
  X(cuStreamWaitEvent)                                                                                                 \
  X(cuStreamWaitValue64)                                                                                               \
  X(cuStreamBeginCapture)                                                                                              \
  X(cuStreamEndCapture)                                                                                                \
  X(cuGraphInstantiateWithFlags)                                                                                       \
  X(cuGraphLaunch)                                                                                                     \
  X(cuGraphExecDestroy)                                                                                                \
  X(cuGraphDestroy)                                                                                                    \
  X(cuStreamWriteValue64)                                                                                              \
  X(cuEventCreate)                                                                                                     \
  X(cuEventDestroy)                                                                                                    \
  X(cuEventRecord)                                                                                                     \
  X(cuEventQuery)                                                                                                      \
  X(cuEventSynchronize)                                                                                                \
  X(cuEventElapsedTime)                                                                                                \
  X(cuMemGetAllocationGranularity)                                                                                     \
  X(cuMemAddressReserve)                                                                                               \
  X(cuMemAddressFree)                                                                                                  \
  X(cuMemCreate)                                                                                                       \
  X(cuMemRelease)                                                                                                      \
  X(cuMemMap)                                                                                                          \
  X(cuMemUnmap)                                                                                                        \
  X(cuMemSetAccess)                                                                                                    \
  X(cuMemExportToShareableHandle)                                                                                      \
  X(cuMemImportFromShareableHandle)                                                                                    \
  X(cuMemGetHandleForAddressRange)                                                                                     \
  X(cuFlushGPUDirectRDMAWrites)                                                                                        \
  X(cuMemHostAlloc)                                                                                                    \
  X(cuMemFreeHost)                                                                                                     \
  X(cuMemHostRegister)                                                                                                 \
  X(cuMemHostUnregister)                                                                                               \
  X(cuMemHostGetDevicePointer)                                                                                         \
  X(cuMemcpyAsync)                                                                                                     \
  X(cuMemcpy2DAsync)                                                                                                   \
  X(cuMemsetD8Async)                                                                                                   \
  X(cuModuleLoadData)                                                                                                  \
  X(cuModuleUnload)                                                                                                    \
  X(cuModuleGetFunction)                                                                                               \
  X(cuFuncGetAttribute)                                                                                                \
  X(cuFuncSetAttribute)                                                                                                \
  X(cuLaunchKernel)

namespace maestro::cuda {

struct Driver {
  static constexpr int kMinVersion = 12000; ///< CUDA 12.0: cuGetProcAddress, stream memory operations of 64 bits.

#define MAESTRO_CUDA_FIELD(name) decltype(&::name) name;
  MAESTRO_CUDA_DRIVER_FUNCTIONS(MAESTRO_CUDA_FIELD)
#undef MAESTRO_CUDA_FIELD
  int version; ///< 1000 × major + 10 × minor, of what the driver supports.

  /// Ok, or "FUNCTION: CUDA_ERROR_… (what CUDA says of it)", as Unavailable.
  Status check(CUresult result, std::string_view function) const;
  /// The part in front of the brackets; "error 4711" where the driver has no name for it.
  std::string nameOf(CUresult result) const;
};

/// "12.4" for 12040.
std::string versionText(int version);

/// The driver's library, loaded once for the process; it is not initialised, so the process may still fork.
/// Unavailable, with library, version wanted and found, and the remedy.
Result<const Driver *> loadDriver();

} // namespace maestro::cuda

/// Returns from the enclosing function, which has a `driver`, when a call of the driver fails:
/// MAESTRO_CUDA_TRY(driver, cuMemMap, address, bytes, 0, handle, 0).
#define MAESTRO_CUDA_TRY(driver, function, ...) MAESTRO_TRY((driver).check((driver).function(__VA_ARGS__), #function))
