// Memory that a process which drives a CPU device needs beside the regions of its executables.
//
//   peak of a device = Σ of its executables (regions × copies + calls + micro-batches put together)
//                      + the largest kernel's scratch + holes in the heap + process + samples on their way + staging of
//                      gradients' sums
//
// Predictions must not lie under what a step uses, and at most 3 % + 64 MiB above it (test/runs/memory_test.py runs
// models at their bounds). What is estimated here is small; it errs upwards.
#pragma once

#include "base/dtype.h"
#include "cost_models/device_rates.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace maestro::cost_models {

/// An operand of a kernel call with its shape at the dims' bounds; absent ones have no bytes.
struct KernelOperand {
  bool present = false;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;

  uint64_t elements() const;
  uint64_t bytes() const { return present ? elements() * byteSize(dtype) : 0; }
};

struct KernelCall {
  std::string_view kernel;
  std::span<const KernelOperand> inputs, outputs;
  uint64_t accumulateMask = 0; ///< Results that the kernel adds to.
};

/// Not under what the CPU library's kernel asks for as scratch memory (held against the library by a test). `bf16`:
/// DeviceModel.bf16Products.
uint64_t cpuScratchBytes(const KernelCall &call, int threads, Bf16Products bf16);

/// What the heap keeps once such a call has run. Without AVX-512 oneDNN packs large products' operands in blocks of the
/// heap, aligned to pages, and glibc before 2.38 fills hardly any of the holes that these leave (of 50 products 28 MiB,
/// all in the first step); as blocks mapped one by one they would cost an eighth to a third of a step. Errs upwards on
/// other processors.
uint64_t cpuHeapBytes(const KernelCall &call, int threads);

/// Code and data of the program and its libraries, per thread a stack and oneDNN's buffers, and the kernels that a
/// device keeps.
uint64_t cpuProcessBytes(int threads);

/// An executable's prepared calls: `calls` are those of one set of shapes; programs for other shapes are kept up to a
/// number.
uint64_t cpuCallBytes(uint64_t calls);

/// What an executable's micro-batches are put together in, from the fields' bytes of a full one.
uint64_t assemblyBytes(uint64_t microBatchBytes);

/// Samples in a process: the batches of the steps under way and what is read ahead of them, from a sample's bytes at
/// the dims' max.
uint64_t sampleBytesOnTheirWay(uint64_t globalBatch, uint64_t sampleBytes);

} // namespace maestro::cost_models
