// Programs on a CPU device: kernels prepared for fixed shapes, scratch memory that they share, and their trace.
#pragma once

#include "executor/device/device.h"
#include "executor/device/device_memory.h"
#include "executor/device/kernel_table.h"

#include <functional>

namespace maestro::executor {

using CpuProgram = ProgramOf<kernels::Library, kernels::Kernel>;

/// Threads: the host's prepares, the device's runs.
class CpuPrograms {
public:
  CpuPrograms(std::shared_ptr<const kernels::Library> library, const CpuDeviceOptions &options, DeviceMemory &memory)
      : library(std::move(library)), options(options), memory(memory) {}

  /// `awaitIdle` returns when no program runs: what they share may then be replaced.
  Result<std::unique_ptr<PreparedProgram>> prepare(std::span<const CallDescription> calls,
                                                   const std::function<void()> &awaitIdle);
  /// One call after the other, until one fails.
  Status run(const CpuProgram &program, std::span<std::byte *const> bases, int32_t task);

  size_t preparedKernels() const { return kernels->size(); }
  size_t preparedBytes() const { return kernels->bytes(); }
  uint64_t scratchBytes() const { return scratchSize; }

  void enableTrace(size_t capacity) {
    spans.reserve(capacity);
    tracing = true;
  }
  std::span<const TraceSpan> trace() const { return spans; }

private:
  Result<std::unique_ptr<CpuProgram>> describe(std::span<const CallDescription> calls);
  Status reserve(const CpuProgram &program, const std::function<void()> &awaitIdle);

  std::shared_ptr<const kernels::Library> library;
  std::shared_ptr<CpuProgram::Table> kernels = std::make_shared<CpuProgram::Table>();
  const CpuDeviceOptions &options;
  DeviceMemory &memory;
  size_t scratchSize = 0;           ///< Of the memory's one block for all programs.
  std::vector<const void *> inputs; ///< Of the call that runs.
  std::vector<void *> outputs;
  bool tracing = false;
  std::vector<TraceSpan> spans;
};

} // namespace maestro::executor
