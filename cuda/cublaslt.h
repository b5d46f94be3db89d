// cuBLASLt as a table of functions, loaded by name as the driver is (driver.h).
#pragma once

#include "base/status.h"

#include <cublasLt.h>
#include <string_view>

#define MAESTRO_CUBLASLT_FUNCTIONS(X)                                                                                  \
  X(cublasLtCreate)                                                                                                    \
  X(cublasLtDestroy)                                                                                                   \
  X(cublasLtGetVersion)                                                                                                \
  X(cublasLtGetStatusName)                                                                                             \
  X(cublasLtGetStatusString)                                                                                           \
  X(cublasLtMatmul)                                                                                                    \
  X(cublasLtMatmulAlgoGetHeuristic)                                                                                    \
  X(cublasLtMatmulDescCreate)                                                                                          \
  X(cublasLtMatmulDescDestroy)                                                                                         \
  X(cublasLtMatmulDescSetAttribute)                                                                                    \
  X(cublasLtMatrixLayoutCreate)                                                                                        \
  X(cublasLtMatrixLayoutDestroy)                                                                                       \
  X(cublasLtMatrixLayoutSetAttribute)                                                                                  \
  X(cublasLtMatmulPreferenceCreate)                                                                                    \
  X(cublasLtMatmulPreferenceDestroy)                                                                                   \
  X(cublasLtMatmulPreferenceSetAttribute)

namespace maestro::cuda {

struct CublasLt {
  static constexpr size_t kMinVersion = 120000; ///< What the types of the functions have had since.

#define MAESTRO_CUBLASLT_FIELD(name) decltype(&::name) name;
  MAESTRO_CUBLASLT_FUNCTIONS(MAESTRO_CUBLASLT_FIELD)
#undef MAESTRO_CUBLASLT_FIELD

  /// Ok, or "FUNCTION: CUBLAS_STATUS_… (what the library says of it)", as Unavailable.
  Status check(cublasStatus_t result, std::string_view function) const;
};

/// The library, loaded once for the process. Unavailable, with the names looked for and the remedy.
Result<const CublasLt *> loadCublasLt();

} // namespace maestro::cuda

/// MAESTRO_CUBLASLT_TRY(library, cublasLtCreate, &handle);
#define MAESTRO_CUBLASLT_TRY(library, function, ...)                                                                   \
  MAESTRO_TRY((library).check((library).function(__VA_ARGS__), #function))
