// The inner loops of the CPU library, behind plain function pointers: one table per instruction set,
// chosen when the library is created. All ranges are contiguous; parallelism, broadcasting and
// shapes are the callers' business.
#pragma once

#include "base/dtype.h"
#include "base/recurrent_cell.h"

#include <cstdint>

namespace maestro::kernels::cpu {

/// y[i] = f(x[i]).
using UnaryLoop = void (*)(void *y, const void *x, int64_t count);
struct UnaryEntry {
  const char *name;
  DType in, out;
  UnaryLoop loop;
};

/// result[i] = f(a[i or 0], b[i or 0]).
using BinaryLoop = void (*)(void *result, const void *a, const void *b, int64_t count);
struct BinaryEntry {
  const char *name;
  DType in, out;
  BinaryLoop both, leftScalar, rightScalar;
};

/// result[i] = condition[i] ? a[i] : b[i]; a stride of 0 repeats an operand's first element.
using SelectLoop = void (*)(void *result, const uint8_t *condition, const void *a, const void *b, int64_t count,
                            int64_t conditionStride, int64_t aStride, int64_t bStride);

/// One row of softmax or log_softmax; the result may lie over the operand.
using SoftmaxLoop = void (*)(void *y, const void *x, int64_t width);
using SoftmaxGradLoop = void (*)(void *dx, const void *y, const void *dy, int64_t width);

struct NormLoops {
  /// One row; scale and bias may be null. mean is null for RMS normalisation.
  void (*forward)(void *y, const void *x, const float *scale, const float *bias, int64_t width, float epsilon,
                  float *mean, float *rstd);
  /// One row; adds to dscale and dbias (f32), which may be null.
  void (*backward)(void *dx, const void *dy, const void *x, const float *scale, int64_t width, float mean, float rstd,
                   float *dscale, float *dbias);
};

/// activation(gate)·up and its gradients. A result may lie over an operand.
struct GluLoops {
  void (*forward)(void *y, const void *gate, const void *up, int64_t count);
  void (*backward)(void *dgate, void *dup, const void *dy, const void *gate, const void *up, int64_t count);
};

struct LossLoops {
  /// ln Σ e^(x·inverse) over a row.
  float (*logSumExp)(const void *x, int64_t width, float inverse);
  /// dx[i] = e^(x[i] − lse)·d; the caller corrects the label's element.
  void (*softmaxScaled)(void *dx, const void *x, int64_t width, float lse, float d);
  /// Σ p_t (ln p_t − ln p_s) over a row.
  float (*klDivergence)(const void *student, const void *teacher, int64_t width, float inverse, float studentLse,
                        float teacherLse);
  void (*klDivergenceGrad)(void *dx, const void *student, const void *teacher, int64_t width, float inverse,
                           float studentLse, float teacherLse, float d);
};

struct AttentionCall; ///< attention_call.h
struct AttentionLoops {
  /// One (batch, head, block of queries); scratch has attentionScratch() bytes.
  void (*forward)(const AttentionCall &call, int64_t b, int64_t h, int64_t queryBlock, void *scratch);
  /// One (batch, key head): all its queries and keys.
  void (*backward)(const AttentionCall &call, int64_t b, int64_t keyHead, void *scratch);
};

struct ProductCall; ///< product_call.h
struct ProductPart;
/// A part of a product in f32; scratch has ProductCall::kScratchFloats.
using ProductLoop = void (*)(const ProductCall &call, const ProductPart &part, float *scratch);

/// One row at one position of a recurrence; offsets of blocks are multiples of `hidden`.
struct RecurrenceRow {
  RecurrentCell cell;
  int64_t hidden;
  const float *before; ///< The states before.
  const float *x;
};
struct RecurrenceLoops {
  /// `product` is x + W·h, of gru's last block W·h + bias.
  void (*forward)(const RecurrenceRow &row, const float *product, float *states, float *gates);
  /// `dstate` is the gradient of the states, and becomes what of it reaches those before other than by W·h, whose
  /// gradient is `dproduct`.
  void (*backward)(const RecurrenceRow &row, const float *states, const float *gates, float *dstate, float *dx,
                   float *dproduct);
};

struct AdamCall {
  float *param, *m, *v;
  const float *grad;
  float *zeroed;  ///< The gradient to clear, or null.
  BFloat16 *copy; ///< Or null.
};

/// Loops that exist for f32 and for bf16 (index 0 and 1; see floatIndex).
struct FloatLoops {
  SoftmaxLoop softmax, logSoftmax;
  SoftmaxGradLoop softmaxGrad, logSoftmaxGrad;
  NormLoops layerNorm, rmsNorm;
  GluLoops glu[3]; ///< By GluActivation.
  LossLoops loss;
  AttentionLoops attention;
  float (*sum)(const void *x, int64_t count);
  float (*maximum)(const void *x, int64_t count);
  float (*minimum)(const void *x, int64_t count);
  /// out[i] += x[i] (f32 sums).
  void (*addTo)(float *out, const void *x, int64_t count);
  /// One row of a rotary embedding; cos and sin rows of the same width, f32 or bf16 (floatIndex).
  void (*rope[2])(void *y, const void *x, const void *cos, const void *sin, int64_t width, bool interleaved,
                  bool adjoint);
};

struct Loops {
  const char *name;
  const UnaryEntry *unary;
  int64_t unaryCount;
  const BinaryEntry *binary;
  int64_t binaryCount;
  SelectLoop select[9]; ///< By element size: 1, 2, 4, 8.
  FloatLoops floats[2];
  /// bf16 attention by products of pairs, for even depths; null where the processor has none.
  AttentionLoops pairedAttention;
  ProductLoop product;
  RecurrenceLoops recurrence;
  double (*sumSquares)(const float *x, int64_t count);
  void (*adam)(const struct AdamCall &call, const void *step, int64_t begin, int64_t end);
};

/// The tables; null where the machine lacks the instructions.
const Loops *avx512Loops();
const Loops *avx2Loops();

/// 0 for f32, 1 for bf16, −1 for others.
inline int floatIndex(DType dtype) { return dtype == DType::F32 ? 0 : dtype == DType::BF16 ? 1 : -1; }

} // namespace maestro::kernels::cpu
