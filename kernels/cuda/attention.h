// Parameters of attention without a library: any mask, any depth up to 256, grouped heads, both layouts.
#pragma once

#include "kernels/cuda/params.h"

namespace maestro::kernels::cuda {

/// Rows of one of q, k, v, o and their gradients: row (b, h, i) begins at b·batch + h·head + i·row.
struct RowStrides {
  int64_t batch, head, row;
};

struct AttentionParams {
  const void *q, *k, *v;
  AnyTensor mask;                      ///< Absent: data is null.
  void *o;                             ///< Of the gradient an operand.
  float *lse;                          ///< Of the gradient an operand.
  int64_t heads, group, queries, keys; ///< group: query heads a key head.
  int32_t depth, valueDepth;
  RowStrides qRows, kRows, vRows, oRows;
  int64_t maskStrides[4]; ///< Of the mask broadcast to [B, H, S, T].
  float scale, softcap;
  bool causal, boolean;
  int64_t causalOffset;
};

struct AttentionGradParams {
  AttentionParams forward;
  const void *grad; ///< Of o, in its layout.
  void *dq, *dk, *dv;
  float *dots; ///< [B, H, S]: Σ grad·o of each query.
};

} // namespace maestro::kernels::cuda
