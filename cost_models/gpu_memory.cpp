#include "cost_models/gpu_memory.h"

#include <algorithm>

namespace maestro::cost_models {
namespace {

constexpr uint64_t kBlock = 256; ///< Of scratch memory, to which each part is rounded up.

uint64_t roundUp(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

uint64_t chunks(uint64_t count, uint64_t chunk) { return count / chunk + 1; }

/// Partial sums of chunks of at least 128 elements, 8 bytes each.
uint64_t reductionBytes(const KernelCall &call) {
  uint64_t kept = std::max<uint64_t>(call.outputs[0].elements(), 1);
  return 8 * kept * chunks(call.inputs[0].elements() / kept, 128);
}

/// Of chunks of 64 rows, the gradients of scale and bias in f32.
uint64_t normBytes(const KernelCall &call) {
  uint64_t bytes = 0;
  for (size_t i = 1; i < call.outputs.size(); ++i)
    if (uint64_t width = call.outputs[i].elements(); call.outputs[i].present && width > 0)
      bytes += roundUp(4 * width * chunks(call.inputs[0].elements() / width, 64), kBlock);
  return bytes;
}

/// A row's number and place for each index: rows are added up in their order.
uint64_t orderBytes(const KernelOperand &indices) { return 2 * roundUp(4 * indices.elements(), kBlock); }

/// Set elements before each chunk of at least 256.
uint64_t maskBytes(const KernelOperand &mask) { return 8 * chunks(mask.elements(), 256); }

bool addsItself(std::string_view kernel) {
  return kernel == "matmul" || kernel == "gather_grad" || kernel == "gather_nd_grad" || kernel == "sum_squares" ||
         kernel.starts_with("reduce_") || kernel.ends_with("_norm_grad");
}

/// The matrix and its smaller side's Gram matrix in bf16, twice each; sums of 8,192 elements; a product's workspace.
uint64_t muonBytes(const KernelCall &call) {
  uint64_t side = static_cast<uint64_t>(std::min(call.inputs[0].shape[0], call.inputs[0].shape[1]));
  uint64_t elements = call.inputs[0].elements();
  return 2 * roundUp(2 * elements, kBlock) + 2 * roundUp(2 * side * side, kBlock) +
         roundUp(8 * chunks(elements, 8192), kBlock) + kBlock + kProductWorkspaceBytes;
}

/// Two sums a row, where 4,096 elements of a vector are one; a mean a matrix; sums of columns over 256 rows.
uint64_t adafactorBytes(const KernelCall &call) {
  uint64_t rows = call.inputs[2].present ? call.inputs[2].elements() : chunks(call.inputs[0].elements(), 4096);
  uint64_t bytes = 2 * roundUp(8 * rows, kBlock) + roundUp(4 * rows, kBlock) + kBlock;
  if (call.inputs[2].present) {
    uint64_t perMatrix = static_cast<uint64_t>(call.inputs[0].shape[call.inputs[0].shape.size() - 2]);
    bytes += 8 * call.inputs[3].elements() * chunks(perMatrix, 256);
  }
  return bytes;
}

uint64_t ownScratchBytes(const KernelCall &call) {
  if (call.kernel == "muon")
    return muonBytes(call);
  if (call.kernel == "adafactor")
    return adafactorBytes(call);
  if (call.kernel == "matmul")
    return kProductWorkspaceBytes;
  if (call.kernel == "attention_grad") // A number for each row of scores.
    return call.inputs[5].bytes();
  if (call.kernel.ends_with("_norm_grad"))
    return normBytes(call);
  if (call.kernel.starts_with("reduce_"))
    return reductionBytes(call);
  if (call.kernel == "sum_squares")
    return 8 * chunks(call.inputs[0].elements(), 8192);
  if (call.kernel == "gather_grad" || call.kernel == "gather_nd_grad")
    return orderBytes(call.inputs[0]);
  if (call.kernel == "scatter_nd")
    return orderBytes(call.inputs[1]);
  if (call.kernel == "masked_scatter" || call.kernel == "masked_scatter_grad")
    return maskBytes(call.inputs[call.kernel == "masked_scatter" ? 1 : 0]);
  return 0;
}

} // namespace

uint64_t gpuScratchBytes(const KernelCall &call) {
  uint64_t bytes = roundUp(ownScratchBytes(call), kBlock);
  for (size_t i = 0; i < call.outputs.size() && !addsItself(call.kernel); ++i) // Written aside, and added from there.
    bytes += call.accumulateMask >> i & 1 ? roundUp(call.outputs[i].bytes(), kBlock) : 0;
  return bytes;
}

} // namespace maestro::cost_models
