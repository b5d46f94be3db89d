#include "cost_models/cpu_memory.h"

#include "base/kept_kernels.h"

#include <algorithm>

namespace maestro::cost_models {
namespace {

constexpr uint64_t kKiB = 1024, kMiB = kKiB * 1024;

uint64_t roundUp(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

uint64_t dim(const KernelOperand &operand, size_t fromEnd) {
  return operand.shape.size() < fromEnd ? 1 : static_cast<uint64_t>(operand.shape[operand.shape.size() - fromEnd]);
}

/// Blocks of 64 queries by 64 keys in f32 per thread; backward also dK and dV of one pair of (batch, key head). `q` is
/// the index of the query operand. Which of the middle dims is the sequence depends on the layout: the longer one is
/// taken.
uint64_t attentionBytes(const KernelCall &call, size_t q, int threads, bool backward) {
  uint64_t depth = roundUp(dim(call.inputs[q], 1), 16), valueDepth = roundUp(dim(call.inputs[q + 2], 1), 16);
  uint64_t keys = roundUp(std::max(dim(call.inputs[q + 1], 2), dim(call.inputs[q + 1], 3)), 64);
  uint64_t blocks = 64 * (3 * depth + 2 * valueDepth) + 64 * 64 * 9 / 2 + 8 * 64;
  return static_cast<uint64_t>(threads) * 4 * (blocks + (backward ? keys * 2 * (depth + valueDepth) : 0));
}

/// Multiplications up to which a product is a loop of the library's own, with a panel per thread.
constexpr uint64_t kMostOwn = 1 << 25;

uint64_t multiplications(const KernelCall &product) {
  return product.inputs[0].elements() * std::max<uint64_t>(dim(product.outputs[0], 1), 1);
}

/// A panel of a product that is a loop of the library's own.
constexpr uint64_t kPanel = 96 * kKiB;

/// Packed blocks of both operands per thread; where many threads share a small result of a long sum, a result each.
/// Fitted to oneDNN 2.6.3: of 6,000 random products on 1 to 32 threads, none needed more.
uint64_t productBytes(const KernelCall &call, uint64_t threads) {
  const KernelOperand &a = call.inputs[0], &result = call.outputs[0];
  uint64_t aBytes = 4 * a.elements(), resultBytes = 4 * result.elements(), n = std::max<uint64_t>(dim(result, 1), 1);
  if (a.dtype == DType::F32 && multiplications(call) <= kMostOwn)
    return threads * kPanel;
  uint64_t depth = a.elements() / std::max<uint64_t>(result.elements() / n, 1);
  uint64_t bytes = kMiB + threads * (640 * kKiB) + std::min(threads * (7 * kMiB / 4), aBytes + kMiB);
  bool splits = threads >= 16 && depth >= 2048 && resultBytes <= 16 * kMiB;
  return bytes + (splits ? threads * resultBytes : 0);
}

/// Operands and results in oneDNN's blocked layouts, channels padded, and a copy of the weights' gradient per thread.
uint64_t convolutionBytes(const KernelCall &call, int threads) {
  uint64_t padded = 0, smallest = ~uint64_t{0};
  for (auto operands : {call.inputs, call.outputs})
    for (const KernelOperand &operand : operands) {
      if (!operand.present || operand.shape.size() < 3)
        continue;
      uint64_t elements =
          roundUp(static_cast<uint64_t>(operand.shape[0]), 16) * roundUp(static_cast<uint64_t>(operand.shape[1]), 16);
      for (size_t d = 2; d < operand.shape.size(); ++d)
        elements *= static_cast<uint64_t>(operand.shape[d]);
      padded += 4 * elements;
      smallest = std::min(smallest, 4 * elements);
    }
  return padded + (call.kernel == "conv_grad_weight" ? static_cast<uint64_t>(threads) * smallest : 0) + kMiB;
}

/// Partial sums of at most 16 chunks per result, or of one long row.
uint64_t reductionBytes(const KernelCall &call) {
  return 16 * 4 * call.outputs[0].elements() + 8 * (call.inputs[0].elements() / 1024 + call.outputs[0].elements());
}

/// As many elements as x has at one position.
uint64_t recurrentProducts(const KernelCall &call) {
  bool backward = call.kernel.ends_with("grad");
  const KernelOperand &x = backward ? call.outputs[0] : call.inputs[0];
  return x.shape.size() == 3 ? static_cast<uint64_t>(x.shape[0] * x.shape[2]) : 0;
}

bool addsItself(std::string_view kernel) {
  return kernel == "matmul" || kernel == "gather_grad" || kernel == "sum_squares" || kernel.starts_with("reduce_") ||
         kernel.ends_with("_norm_grad");
}

/// Operands and results in f32.
uint64_t widenedBytes(const KernelCall &call, Bf16Products bf16) {
  uint64_t bytes = 0;
  if (bf16 == Bf16Products::Native)
    return bytes;
  for (auto operands : {call.inputs, call.outputs})
    for (const KernelOperand &operand : operands)
      bytes += operand.present && operand.dtype == DType::BF16 ? roundUp(4 * operand.elements(), 64) : 0;
  return bytes;
}

/// The matrix and its smaller side's Gram matrix, twice each, and the largest product's own.
uint64_t muonBytes(const KernelCall &call, int threads) {
  int64_t rows = call.inputs[0].shape[0], columns = call.inputs[0].shape[1], side = std::min(rows, columns);
  KernelOperand matrix = call.inputs[0], gram{true, DType::F32, {side, side}};
  uint64_t product = 0;
  auto multiply = [&](const KernelOperand &a, const KernelOperand &b, const KernelOperand &y) {
    KernelOperand in[] = {a, b}, out[] = {y};
    product = std::max(product, productBytes({"matmul", in, out}, static_cast<uint64_t>(threads)));
  };
  multiply(matrix, matrix, gram);
  multiply(gram, gram, gram);
  if (rows <= columns)
    multiply(gram, matrix, matrix);
  else
    multiply(matrix, gram, matrix);
  return 2 * roundUp(matrix.bytes(), 64) + 2 * roundUp(gram.bytes(), 64) + product;
}

uint64_t ownScratchBytes(const KernelCall &call, int threads, Bf16Products bf16) {
  if (call.kernel == "muon")
    return muonBytes(call, threads);
  if (call.kernel == "adafactor") // Two sums a row, where 4,096 elements of a vector are one, and a mean a matrix.
    return 20 * (call.inputs[2].present ? call.inputs[2].elements() : call.inputs[0].elements() / 4096 + 1);
  if (call.kernel == "attention")
    return attentionBytes(call, 0, threads, false);
  if (call.kernel == "attention_grad")
    return attentionBytes(call, 1, threads, true);
  if (call.kernel == "matmul")
    return productBytes(call, static_cast<uint64_t>(threads)) + widenedBytes(call, bf16);
  if (call.kernel.starts_with("conv"))
    return convolutionBytes(call, threads) + widenedBytes(call, bf16);
  if (call.kernel.starts_with("recurrence")) // A panel per thread, the weight transposed, a position's products.
    return static_cast<uint64_t>(threads) * kPanel + 4 * (call.inputs[1].elements() + recurrentProducts(call));
  if (call.kernel.starts_with("reduce_") || call.kernel == "sum_squares")
    return reductionBytes(call);
  if (call.kernel.ends_with("_norm") ||
      call.kernel.ends_with("_norm_grad")) // A row in f32 (a thread), and sums of 16 chunks.
    return 4 * 33 * dim(call.inputs[1], 1) + 4 * (33 + static_cast<uint64_t>(threads)) * dim(call.inputs[0], 1);
  bool sums = call.kernel.find("pool") != call.kernel.npos || call.kernel == "gather_nd_grad";
  return sums ? 8 * call.outputs[0].elements() : 0; // In f64, where only the reference library has the kernel.
}

} // namespace

uint64_t KernelOperand::elements() const {
  uint64_t count = 1;
  for (int64_t size : shape)
    count *= static_cast<uint64_t>(std::max<int64_t>(size, 0));
  return count;
}

uint64_t cpuScratchBytes(const KernelCall &call, int threads, Bf16Products bf16) {
  uint64_t bytes = ownScratchBytes(call, threads, bf16);
  // Kernels that cannot add write aside, to be added in one pass.
  for (size_t i = 0; i < call.outputs.size() && !addsItself(call.kernel); ++i)
    bytes += call.accumulateMask >> i & 1 ? roundUp(call.outputs[i].bytes(), 64) : 0;
  return bytes;
}

uint64_t cpuHeapBytes(const KernelCall &call, int threads) {
  constexpr uint64_t kHoles = 12 * kMiB, kHolesPerThread = 4 * kMiB;
  bool packs = call.kernel == "matmul" && multiplications(call) > kMostOwn;
  return packs ? kHoles + static_cast<uint64_t>(threads) * kHolesPerThread : 0;
}

// Measured with 2 threads: 12.1 MiB in all for a model of 20 calls, 20 for one of 720; up to 14 KiB a kernel, 0.2 a
// call.
uint64_t cpuProcessBytes(int threads) {
  constexpr uint64_t kProgram = 12 * kMiB, kPerThread = kMiB;
  return kProgram + static_cast<uint64_t>(threads) * kPerThread + kMostKeptBytes;
}

uint64_t cpuCallBytes(uint64_t calls) {
  constexpr uint64_t kPerKernel = 14 * kKiB, kPerCall = 256;
  return calls * kPerKernel + kMostKeptCalls * kPerCall;
}

uint64_t assemblyBytes(uint64_t microBatchBytes) { return 2 * microBatchBytes; }

uint64_t sampleBytesOnTheirWay(uint64_t globalBatch, uint64_t sampleBytes) {
  constexpr uint64_t kBatches =
      4; // As executor/core/run.cpp keeps them: a step, one ahead, and those not yet released.
  return (kBatches * globalBatch + std::max<uint64_t>(2 * globalBatch, 8)) * sampleBytes;
}

} // namespace maestro::cost_models
