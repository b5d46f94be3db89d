// cuDNN's graph functions as a table, loaded by name as the driver is (driver.h).
#pragma once

#include "base/status.h"

#include <cudnn.h>
#include <string>
#include <string_view>

#define MAESTRO_CUDNN_FUNCTIONS(X)                                                                                     \
  X(cudnnGetVersion)                                                                                                   \
  X(cudnnGetErrorString)                                                                                               \
  X(cudnnGetLastErrorString)                                                                                           \
  X(cudnnCreate)                                                                                                       \
  X(cudnnDestroy)                                                                                                      \
  X(cudnnSetStream)                                                                                                    \
  X(cudnnBackendCreateDescriptor)                                                                                      \
  X(cudnnBackendDestroyDescriptor)                                                                                     \
  X(cudnnBackendSetAttribute)                                                                                          \
  X(cudnnBackendGetAttribute)                                                                                          \
  X(cudnnBackendFinalize)                                                                                              \
  X(cudnnBackendExecute)

namespace maestro::cuda {

struct Cudnn {
  /// 9.11: graphs without a device, and attention's gradient without the faults of 9.10.
  static constexpr size_t kMinVersion = 91100;

#define MAESTRO_CUDNN_FIELD(name) decltype(&::name) name;
  MAESTRO_CUDNN_FUNCTIONS(MAESTRO_CUDNN_FIELD)
#undef MAESTRO_CUDNN_FIELD

  size_t version() const { return cudnnGetVersion(); }
  /// Ok, or "FUNCTION: CUDNN_STATUS_… (what the library says of it)", as Unavailable.
  Status check(cudnnStatus_t result, std::string_view function) const;
};

/// "9.26.0" for 92600.
std::string cudnnVersionText(size_t version);

/// The library, loaded once for the process. Unavailable, with the name looked for, the version found and the remedy.
Result<const Cudnn *> loadCudnn();

} // namespace maestro::cuda

/// MAESTRO_CUDNN_TRY(library, cudnnBackendFinalize, descriptor);
#define MAESTRO_CUDNN_TRY(library, function, ...)                                                                      \
  MAESTRO_TRY((library).check((library).function(__VA_ARGS__), #function))
