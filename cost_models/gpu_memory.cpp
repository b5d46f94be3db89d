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

/// Gradients of scale and bias in f32: of chunks of 64 rows where rows are wide, else of at most 264 chunks, of at most
/// 1,056 of at least four rows where they are narrow (kernels/cuda/norm.cpp).
uint64_t normBytes(const KernelCall &call) {
  uint64_t bytes = 0;
  for (size_t i = 1; i < call.outputs.size(); ++i)
    if (uint64_t width = call.outputs[i].elements(); call.outputs[i].present && width > 0) {
      uint64_t rows = call.inputs[0].elements() / width;
      uint64_t parts = width > 8192   ? chunks(rows, 64)
                       : width > 1024 ? std::min<uint64_t>(rows, 264)
                                      : std::min<uint64_t>(chunks(rows, 4), 1056);
      bytes += roundUp(4 * width * parts, kBlock);
    }
  return bytes;
}

/// A row's number and place for each index: rows are added up in their order.
uint64_t orderBytes(const KernelOperand &indices) { return 2 * roundUp(4 * indices.elements(), kBlock); }

/// Set elements before each chunk of at least 256.
uint64_t maskBytes(const KernelOperand &mask) { return 8 * chunks(mask.elements(), 256); }

/// What attention by cuDNN may take (kernels/cuda/cudnn_attention.h): the mask as numbers; of the gradient, scores'
/// gradients or sums in order, statistics, and of grouped heads a gradient each. A library that serves it otherwise
/// takes less.
uint64_t attentionBytes(const KernelCall &call) {
  constexpr uint64_t kMaxScores = uint64_t{1} << 30, kSlack = uint64_t{1} << 20;
  bool isGradient = call.kernel == "attention_grad";
  const KernelOperand &q = call.inputs[isGradient ? 1 : 0], &k = call.inputs[isGradient ? 2 : 1],
                      &v = call.inputs[isGradient ? 3 : 2], &statistics = isGradient ? call.inputs[5] : call.outputs[1];
  size_t maskAt = isGradient ? 6 : 3;
  uint64_t rows = statistics.elements(); // Of queries, head by head.
  uint64_t own = isGradient ? statistics.bytes() : 0;
  if (q.dtype == DType::F32 || rows == 0 || q.elements() == 0 || k.elements() == 0)
    return own;
  uint64_t heads = static_cast<uint64_t>(statistics.shape[1]), queries = static_cast<uint64_t>(statistics.shape[2]);
  bool sequenceMajor = q.shape[1] != statistics.shape[1];
  uint64_t keys = static_cast<uint64_t>(heads == queries ? std::max(k.shape[1], k.shape[2]) // Either may be the heads.
                                                         : k.shape[sequenceMajor ? 1 : 2]);
  uint64_t bytes = kSlack;
  if (maskAt < call.inputs.size() && call.inputs[maskAt].present) {
    const KernelOperand &mask = call.inputs[maskAt];
    auto dim = [&](size_t fromEnd) {
      return fromEnd < mask.shape.size() ? static_cast<uint64_t>(mask.shape[mask.shape.size() - 1 - fromEnd]) : 1;
    };
    bytes += roundUp(dim(3) * dim(2) * queries * roundUp(keys, 8) * (mask.dtype == DType::F32 ? 4 : 2), kBlock);
  }
  if (!isGradient)
    return bytes;
  uint64_t batch = rows / heads / queries, depths = static_cast<uint64_t>(q.shape[3] + v.shape[3]);
  uint64_t keyHeads = std::max<uint64_t>(1, k.elements() / (batch * keys * static_cast<uint64_t>(k.shape[3])));
  uint64_t scoresOfHead = 2 * roundUp(queries, 128) * roundUp(keys, 128);
  bool inOrder = heads / keyHeads * scoresOfHead > kMaxScores;
  bytes += inOrder ? 4 * rows * static_cast<uint64_t>(q.shape[3]) : std::min(batch * heads * scoresOfHead, kMaxScores);
  if (keyHeads != heads) // Heads of a group, before they are added up.
    bytes += 2 * batch * heads * keys * depths;
  return bytes + 2 * roundUp(statistics.bytes() + 16 * batch * heads, kBlock);
}

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

/// Patches of as many samples as 256 MiB hold, dy of them once more for gradients, a product's workspace
/// (kernels/cuda/conv.cpp); of grouped ones, and where one sample has more, nothing.
uint64_t convolutionBytes(const KernelCall &call) {
  constexpr uint64_t kMaxPatchBytes = uint64_t{256} << 20;
  bool ofInput = call.kernel == "conv_grad_input", ofWeight = call.kernel == "conv_grad_weight";
  const KernelOperand &x = ofInput ? call.outputs[0] : call.inputs[0], &w = ofWeight ? call.outputs[0] : call.inputs[1],
                      &y = ofInput    ? call.inputs[0]
                           : ofWeight ? call.inputs[1]
                                      : call.outputs[0];
  if (x.elements() == 0 || w.elements() == 0 || y.elements() == 0 || x.shape[1] != w.shape[1])
    return 0;
  uint64_t samples = static_cast<uint64_t>(x.shape[0]), filters = static_cast<uint64_t>(w.shape[0]);
  uint64_t outputs = y.elements() / samples / filters, element = x.dtype == DType::F32 ? 4 : 2;
  uint64_t ofOne = outputs * (w.elements() / filters) * element, parts = 1;
  while (parts <= samples && (samples % parts != 0 || samples / parts * ofOne > kMaxPatchBytes))
    ++parts;
  if (parts > samples)
    return 0;
  uint64_t turned = call.kernel == "conv" ? 0 : roundUp(samples / parts * outputs * filters * element, kBlock);
  return roundUp(samples / parts * ofOne, kBlock) + turned + kProductWorkspaceBytes;
}

uint64_t ownScratchBytes(const KernelCall &call) {
  if (call.kernel == "muon")
    return muonBytes(call);
  if (call.kernel == "adafactor")
    return adafactorBytes(call);
  if (call.kernel == "matmul")
    return kProductWorkspaceBytes;
  if (call.kernel.starts_with("conv"))
    return convolutionBytes(call);
  if (call.kernel == "attention" || call.kernel == "attention_grad")
    return attentionBytes(call);
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
