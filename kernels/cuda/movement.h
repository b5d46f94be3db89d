// Parameters of the kernels that fill and move elements, whatever their type: elements of 1, 2, 4 or 8 bytes.
#pragma once

#include "kernels/cuda/params.h"

namespace maestro::kernels::cuda {

/// y[to(i)] = x[from(i)] for i in [0, count).
struct MoveParams {
  const void *x;
  void *y;
  int64_t count;
  Strided<2> map;    ///< from, to
  int32_t perThread; ///< Elements, neighbours on both sides.
  bool packed;       ///< They are 16 bytes at aligned places.
};

/// [batch, rows, columns] to [batch, columns, rows].
struct TransposeParams {
  const void *x;
  void *y;
  int64_t batch, rows, columns;
};

struct FillParams {
  AnyTensor y;
  int64_t count;
  double value;
};

/// y[i] = start + i·step.
struct IotaParams {
  AnyTensor y;
  int64_t count, start, step;
};

/// y[i] = values[i].
struct ValuesParams {
  AnyTensor y;
  int64_t count;
  int64_t values[32];
};

enum class PadMode : int32_t { Constant, Reflect, Edge, Wrap };
struct PadParams {
  AnyTensor x, y;
  int64_t count;
  int32_t rank;
  PadMode mode;
  int64_t from[kMaxRank], to[kMaxRank], low[kMaxRank];
  double value;
};

struct CumsumParams {
  AnyTensor x, y;
  AxisDims dims;
  bool exclusive, reverse;
};

} // namespace maestro::kernels::cuda
