// One attention call as the loops see it: pointers and strides in elements, for either layout.
#pragma once

#include <cstdint>

namespace maestro::kernels::cpu {

/// Where row (b, h, i) of a tensor begins: base + b·batch + h·head + i·row.
struct RowStrides {
  int64_t batch, head, row;
};

enum class MaskKind : uint8_t { None, Boolean, Float, BFloat16 };

struct AttentionCall {
  static constexpr int64_t kQueryBlock = 64, kKeyBlock = 64;

  int64_t heads, keyHeads, queries, keys, depth, valueDepth;
  float scale, softcap;
  bool causal;
  int64_t causalOffset;
  MaskKind maskKind;
  int64_t maskBatch, maskHead, maskQuery, maskKey;
  RowStrides qStrides, kStrides, vStrides, oStrides; ///< o's also serve its gradient.

  const void *q, *k, *v, *mask;
  void *o;                   ///< forward: written
  float *lse;                ///< [B, H, S]; forward: written, backward: read
  const void *grad, *result; ///< backward: o's gradient and o
  void *dq, *dk, *dv;

  int64_t group() const { return heads / keyHeads; }
};

/// Rows of scratch blocks are padded to whole vectors.
inline int64_t paddedWidth(int64_t width) { return (width + 15) / 16 * 16; }

/// Floats of scratch memory for one work item, in whichever form.
inline int64_t forwardScratch(const AttentionCall &call) {
  int64_t d = paddedWidth(call.depth), dv = paddedWidth(call.valueDepth);
  int64_t q = AttentionCall::kQueryBlock, k = AttentionCall::kKeyBlock;
  return q * d + k * (d + dv) + k * q + q * dv + 4 * q;
}
inline int64_t backwardScratch(const AttentionCall &call) {
  int64_t d = paddedWidth(call.depth), dv = paddedWidth(call.valueDepth);
  int64_t q = AttentionCall::kQueryBlock, k = AttentionCall::kKeyBlock;
  int64_t keys = (call.keys + k - 1) / k * k;
  return keys * 2 * (d + dv) + q * (3 * d + 2 * dv) + 9 * k * q / 2 + 2 * q;
}

} // namespace maestro::kernels::cpu
