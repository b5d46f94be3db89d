// Attention as graphs of cuDNN's operations, and what they need of memory.
//
//   o = softmax(cap(q·kᵀ·scale) + bias, hidden where causal)·v,   stats = log Σ exp of each row
//
// The gradient's sums are made in one order: scores' gradients are kept in memory whole, for so many heads at a time
// as CudnnOptions::maxScoreBytes holds; where one group of heads has more, cuDNN 9.25 and newer adds in order as it
// goes.
#pragma once

#include "kernels/attention_shape.h"
#include "kernels/cuda/cudnn_graph.h"

#include <optional>

namespace maestro::kernels::cuda {

/// One graph's attention: a whole call's, or that of some of its batch and heads.
struct AttentionGraph {
  AttentionShape shape; ///< Of the call.
  int64_t batch, heads, keyHeads;
  std::optional<DType> bias; ///< Its type: bf16 or f32.
  bool ordered = false;      ///< Of a gradient: sums in order, not scores in memory.

  AttentionGraph(const AttentionShape &shape, std::optional<DType> bias)
      : shape(shape), batch(shape.batch), heads(shape.heads), keyHeads(shape.keyHeads), bias(bias) {}

  /// Dims of the bias over the call's batch and heads, and elements of its rows, in which keys are rounded up.
  int64_t biasBatch() const { return shape.maskStrides[0] ? shape.batch : 1; }
  int64_t biasHeads() const { return shape.maskStrides[1] ? shape.heads : 1; }
  int64_t biasRow() const { return (shape.keys + 7) / 8 * 8; }
  int64_t biasBytes() const {
    return bias ? biasBatch() * biasHeads() * shape.queries * biasRow() * static_cast<int64_t>(byteSize(*bias)) : 0;
  }

  /// Bytes of the scores' gradient, as cuDNN keeps it.
  int64_t scoreBytes() const;
  /// Not under what cuDNN asks for as workspace: of a forward graph, and of a gradient's.
  int64_t maxWorkspaceBytes(bool isGradient) const;
  /// Bytes of what else a gradient's graph wants held: Σ grad·o of each row; where sums are in order, dq in f32.
  int64_t rowSumBytes() const { return 4 * batch * heads * shape.queries; }
  int64_t orderedSumBytes() const { return ordered ? rowSumBytes() * shape.depth : 0; }
};

/// Of the call's gradient: equal parts, each with at most `maxScoreBytes` of scores, or all in order, which `canOrder`
/// allows. Nothing where neither is possible.
std::optional<AttentionGraph> partOfGradient(const AttentionGraph &whole, bool canOrder, int64_t maxScoreBytes);

/// Held: q, k, v, the bias where there is one; o, stats.
Result<Plan> planAttention(const Cudnn &library, const Place &place, const AttentionGraph &attention);
/// Held: grad, q, k, v, o, stats, the bias where there is one; dq, dk, dv; row sums, sums in order where wanted.
/// Statistics and row sums are those of the graph's rows alone.
Result<Plan> planAttentionGrad(const Cudnn &library, const Place &place, const AttentionGraph &attention);

} // namespace maestro::kernels::cuda
