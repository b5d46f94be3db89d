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

// What a library's attention needs beside it (cudnn.h). Finite numbers stand for −∞: the library takes differences of
// scores.

/// A mask as numbers that are added to scores: [batch or 1, heads or 1, queries, keys], rows rounded up.
struct AttentionBiasParams {
  AnyTensor mask, bias;
  int64_t maskStrides[4];
  int64_t heads, queries, keys, row, rows; ///< heads: of the bias.
  bool boolean;
};

/// Statistics as they are without stand-ins: −∞ where a row attends to nothing, whose o becomes 0.
struct AttentionRowsParams {
  void *o;
  float *lse;
  int64_t heads, queries, rows, valueDepth;
  bool sequenceMajor;
};

/// Statistics with stand-ins, −∞ as one of which no weight is left; part by part, `stride` elements from one to the
/// next.
struct AttentionStatisticsParams {
  const float *from;
  float *to;
  int64_t rows, part, stride;
};

} // namespace maestro::kernels::cuda
