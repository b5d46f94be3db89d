// Parameters of the elementwise kernels.
#pragma once

#include "kernels/cuda/params.h"

namespace maestro::kernels::cuda {

struct UnaryParams {
  const void *x;
  void *y;
  int64_t count;
  bool packed;    ///< 16 bytes at a time.
  DType from, to; ///< Of the kernels for any type.
};

struct BinaryParams {
  const void *a, *b;
  void *y;
  int64_t count;
  bool packed;
  Strided<2> map;
  DType typeA, typeB, typeY;
};

/// Of one shape and, but for the kernels for any type, one type.
struct GluGradParams {
  AnyTensor dy, gate, up, dgate, dup;
  int64_t count;
  bool packed; ///< 16 bytes at a time.
};

/// What `where` moves: elements of 1, 2, 4 or 8 bytes.
struct WhereParams {
  AnyTensor condition;
  const void *onTrue, *onFalse;
  void *y;
  int64_t count;
  Strided<3> map;
};

struct CastParams {
  AnyTensor x, y;
  int64_t count;
  bool adds;   ///< y += x instead of y = x.
  bool packed; ///< 16 bytes at a time.
};

/// Operators on integers and booleans, chosen at run time.
enum class IntegerOp : int32_t {
  Neg,
  Abs,
  Relu,
  Sign,
  Not,
  IsNaN,
  IsInf,
  Same,
  Add,
  Sub,
  Mul,
  Div,
  Pow,
  Maximum,
  Minimum,
  Mod,
  Fmod,
  And,
  Or,
  Xor,
  Equal,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
};
struct IntegerParams {
  AnyTensor a, b, y;
  IntegerOp op;
  int64_t count;
  Strided<2> map;
};

} // namespace maestro::kernels::cuda
