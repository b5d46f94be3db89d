// The CUDA kernel library: as kernels/kernel.h, but a prepared call is put on a stream instead of run.
//
// What loads and launches kernels is behind `Functions`: the driver (module.h), or the host (host/functions.h).
#pragma once

#include "kernels/kernel.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// As cuda.h declares them, which not every machine that builds this has.
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef unsigned long long CUdeviceptr;

namespace maestro::kernels::cuda {

struct Failure;

/// Where a call goes.
struct Launch {
  CUstream stream = nullptr;
  CUdeviceptr failure = 0; ///< A `Failure` in pinned memory (failure.h), as the device sees it.
  uint32_t call = 0;       ///< What the failure names the call by.
};

/// A prepared call.
class Kernel {
public:
  virtual ~Kernel() = default;

  /// Puts the call on the stream. Neither allocates nor waits. `scratch` has scratchBytes() bytes, 256-byte aligned,
  /// and belongs to the call until the stream is past it; absent operands are 0. Bad data are reported through the
  /// launch's failure.
  virtual Status enqueue(const Launch &launch, std::span<const CUdeviceptr> inputs,
                         std::span<const CUdeviceptr> outputs, CUdeviceptr scratch) = 0;
  virtual size_t scratchBytes() const { return 0; }
  virtual size_t ownBytes() const { return 2048; } ///< About what keeping it takes.
};

/// What `failure` says, in the words of the other libraries. `kernel`: the name of the call's kernel.
Status toStatus(const Failure &failure, std::string_view kernel);

struct Grid {
  unsigned x = 1, y = 1, z = 1;
};

/// Compiled kernels by name, and how they are launched.
class Functions {
public:
  virtual ~Functions() = default;
  virtual Result<CUfunction> find(const std::string &name) const = 0;
  /// `params` points at the kernel's only parameter, which is copied.
  virtual Status launch(CUfunction function, Grid grid, unsigned threads, size_t sharedBytes, CUstream stream,
                        void *params) const = 0;
};

class Library {
public:
  virtual ~Library() = default;
  /// nullptr (inside an ok Result) when this library does not implement the call.
  virtual Result<std::unique_ptr<Kernel>> prepare(const CallSpec &spec) const = 0;
};

using Libraries = std::vector<std::unique_ptr<Library>>;

/// `functions` outlives the library and every kernel that it prepared. `first` are asked before (cublaslt.h, cudnn.h);
/// what none of them takes are plain loops.
std::unique_ptr<Library> createLibrary(const Functions &functions, Libraries first = {});

/// The names that the library's table has, as the catalogue spells them; for each, some element types may be missing.
std::span<const std::string_view> coveredKernels();

} // namespace maestro::kernels::cuda
