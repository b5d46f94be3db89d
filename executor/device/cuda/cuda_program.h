// Programs on a GPU: kernels prepared for fixed shapes, put on a stream one after the other.
#pragma once

#include "executor/device/cuda/arena.h"
#include "executor/device/cuda/launch_graphs.h"
#include "executor/device/kernel_table.h"
#include "kernels/cuda/failure.h"
#include "kernels/cuda/library.h"

#include <map>
#include <mutex>

namespace maestro::executor {

struct CudaProgram : ProgramOf<kernels::cuda::Library, kernels::cuda::Kernel> {
  using ProgramOf::ProgramOf;
  std::unique_ptr<LaunchGraphs> graphs;
};

/// Threads: the host's prepares and enqueues, any asks for a failure's message.
class CudaPrograms {
public:
  CudaPrograms(std::shared_ptr<const kernels::cuda::Library> library, const cuda::Context &context)
      : context(context), library(std::move(library)), scratch(context) {}
  ~CudaPrograms() { graphs->close(); }

  Result<std::unique_ptr<PreparedProgram>> prepare(std::span<const CallDescription> calls);
  /// One call: `operand` is its first.
  Status enqueue(const CudaProgram::Call &call, const OperandRef *operand, std::span<const CUdeviceptr> bases,
                 CUstream stream, CUdeviceptr failure);
  /// What a kernel left, with the call's name.
  Status toStatus(const kernels::cuda::Failure &failure) const;

  size_t preparedKernels() const { return kernels->size(); }
  size_t preparedBytes() const { return kernels->bytes(); }
  uint64_t scratchBytes() const { return scratch.mappedBytes(); }

private:
  using Name = std::pair<std::string_view, std::string_view>; ///< A kernel and a scope.

  const cuda::Context &context;
  GraphMode graphMode = graphModeFromEnvironment();
  std::shared_ptr<GraphPool> graphs = std::make_shared<GraphPool>(context);
  std::shared_ptr<const kernels::cuda::Library> library;
  std::shared_ptr<CudaProgram::Table> kernels = std::make_shared<CudaProgram::Table>();
  Arena scratch;                            ///< Grows in place, and calls follow each other: they share it.
  std::vector<CUdeviceptr> inputs, outputs; ///< Of the call that is queued.
  std::map<Name, uint32_t> numbers;         ///< As kernels name the call that failed.
  mutable std::mutex mutex;                 ///< Of `names`.
  std::vector<Name> names;                  ///< By number.
};

} // namespace maestro::executor
