// Elementwise operators: one functor an operator, one body an arity, in f32, bf16 and, computed in f32, any other
// types.
#include "kernels/cuda/elementwise.h"

#include "kernels/cuda/rows.h"
#include "kernels/cuda/trigonometry.h"

namespace maestro::kernels::cuda {
namespace {

#define UNARY(Name, expression)                                                                                        \
  struct Name {                                                                                                        \
    __device__ float operator()(float x) const { return expression; }                                                  \
  };
UNARY(Neg, -x)
UNARY(Abs, fabsf(x))
UNARY(Exp, expf(x))
UNARY(Log, logf(x))
UNARY(Sqrt, sqrtf(x))
UNARY(Rsqrt, 1 / sqrtf(x))
UNARY(Reciprocal, 1 / x)
UNARY(Sin, sine(x))
UNARY(Cos, cosine(x))
UNARY(Asin, asinf(x))
UNARY(Acos, acosf(x))
UNARY(Atan, atanf(x))
UNARY(Tanh, tanhf(x))
UNARY(Sigmoid, sigmoid(x))
UNARY(Erf, erff(x))
UNARY(Relu, x < 0 ? 0 : x)
UNARY(Silu, x *sigmoid(x))
UNARY(Softplus, (x > 0 ? x : x != x ? x : 0) + log1pf(expf(-fabsf(x))))
UNARY(Floor, floorf(x))
UNARY(Ceil, ceilf(x))
UNARY(Round, rintf(x))
UNARY(Sign, x != x ? x : static_cast<float>((x > 0) - (x < 0)))
UNARY(Not, x == 0)
UNARY(IsNaN, x != x)
UNARY(IsInf, fabsf(x) == kInfinity)

constexpr float kSqrtHalf = 0.70710678118654752440f;
constexpr float kGeluScale = 0.79788456080286535588f; ///< √(2/π)
constexpr float kGeluCubic = 0.044715f;
/// Φ(x): erfc does not cancel for negative x.
__device__ float normalBelow(float x) { return 0.5f * erfcf(-x * kSqrtHalf); }
__device__ float geluTangent(float x) { return tanhf(kGeluScale * (x + kGeluCubic * x * x * x)); }
UNARY(Gelu, x *normalBelow(x))
UNARY(GeluTanh, 0.5f * x * (1 + geluTangent(x)))

#define BINARY(Name, expression)                                                                                       \
  struct Name {                                                                                                        \
    __device__ float operator()(float a, float b) const { return expression; }                                         \
  };
__device__ float floorModulo(float a, float b) {
  float r = fmodf(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
BINARY(Add, a + b)
BINARY(Sub, a - b)
BINARY(Mul, a *b)
BINARY(Div, a / b)
BINARY(Pow, powf(a, b))
BINARY(Maximum, larger(a, b))
BINARY(Minimum, smaller(a, b))
BINARY(Mod, floorModulo(a, b))
BINARY(Fmod, fmodf(a, b))
BINARY(Equal, a == b)
BINARY(Less, a < b)
BINARY(LessEqual, a <= b)
BINARY(Greater, a > b)
BINARY(GreaterEqual, a >= b)
// Gradients: a is what was saved, b the gradient of the result.
BINARY(TanhGrad, b *(1 - a * a))
BINARY(SigmoidGrad, b *a *(1 - a))
BINARY(ReluGrad, a > 0 ? b : 0)
struct SiluGrad {
  __device__ float operator()(float x, float dy) const {
    float s = sigmoid(x);
    return dy * s * (1 + x * (1 - s));
  }
};
struct GeluGrad {
  __device__ float operator()(float x, float dy) const {
    float density = expf(-0.5f * x * x) * 0.5f * kGeluScale;
    return dy * (normalBelow(x) + x * density);
  }
};
struct GeluTanhGrad {
  __device__ float operator()(float x, float dy) const {
    float t = geluTangent(x);
    return dy * (0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kGeluScale * (1 + 3 * kGeluCubic * x * x));
  }
};

/// A gated linear unit's activation: its value is UNARY's, its slope that of the gradient for dy = 1.
template <typename Value, typename Grad> struct Gated {
  __device__ float operator()(float gate, float up) const { return Value()(gate) * up; }
  __device__ static float slope(float gate) { return Grad()(gate, 1); }
  __device__ static float value(float gate) { return Value()(gate); }
};
using GluSilu = Gated<Silu, SiluGrad>;
using GluGelu = Gated<Gelu, GeluGrad>;
using GluGeluTanh = Gated<GeluTanh, GeluTanhGrad>;

template <typename T, typename Op> __device__ void unary(const UnaryParams &p) {
  constexpr int kCount = Pack<T>::kCount;
  const T *x = static_cast<const T *>(p.x);
  T *y = static_cast<T *>(p.y);
  int64_t at = threadOfGrid() * kCount;
  if (p.packed && at + kCount <= p.count) {
    Pack<T> pack = loadPack(x + at);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      pack.items[i] = fromFloat<T>(Op()(toFloat(pack.items[i])));
    storePack(y + at, pack);
    return;
  }
  for (int i = 0; i < kCount; ++i)
    if (at + i < p.count)
      y[at + i] = fromFloat<T>(Op()(toFloat(x[at + i])));
}
template <typename Op> __device__ void unaryAny(const UnaryParams &p) {
  if (int64_t at = threadOfGrid(); at < p.count)
    store({p.y, p.to}, at, Op()(load<float>({const_cast<void *>(p.x), p.from}, at)));
}

/// kCount neighbours, or one element that stands for all of them.
template <typename T> __device__ Pack<T> loadSpread(const T *from, int64_t stride) {
  if (stride == 1)
    return loadPack(from);
  Pack<T> pack;
#pragma unroll
  for (int i = 0; i < Pack<T>::kCount; ++i)
    pack.items[i] = *from;
  return pack;
}

template <typename T, typename Op> __device__ void binary(const BinaryParams &p) {
  constexpr int kCount = Pack<T>::kCount;
  const T *a = static_cast<const T *>(p.a), *b = static_cast<const T *>(p.b);
  T *y = static_cast<T *>(p.y);
  int64_t at = threadOfGrid() * kCount, offsets[2];
  if (p.packed) {
    if (at >= p.count)
      return;
    int inner = p.map.rank - 1;
    offsetsOf(p.map, at, offsets);
    Pack<T> left = loadSpread(a + offsets[0], p.map.strides[0][inner]);
    Pack<T> right = loadSpread(b + offsets[1], p.map.strides[1][inner]);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      left.items[i] = fromFloat<T>(Op()(toFloat(left.items[i]), toFloat(right.items[i])));
    storePack(y + at, left);
    return;
  }
  for (int i = 0; i < kCount; ++i)
    if (at + i < p.count) {
      offsetsOf(p.map, at + i, offsets);
      y[at + i] = fromFloat<T>(Op()(toFloat(a[offsets[0]]), toFloat(b[offsets[1]])));
    }
}
template <typename Op> __device__ void binaryAny(const BinaryParams &p) {
  int64_t at = threadOfGrid(), offsets[2];
  if (at >= p.count)
    return;
  offsetsOf(p.map, at, offsets);
  store({p.y, p.typeY}, at,
        Op()(load<float>({const_cast<void *>(p.a), p.typeA}, offsets[0]),
             load<float>({const_cast<void *>(p.b), p.typeB}, offsets[1])));
}

template <typename T, typename Glu>
__device__ __forceinline__ void gluGradChunk(const GluGradParams &p, int64_t at, int64_t left, bool packed) {
  Chunk dy = loadChunk(static_cast<const T *>(p.dy.data) + at, left, packed);
  Chunk gate = loadChunk(static_cast<const T *>(p.gate.data) + at, left, packed);
  Chunk up = loadChunk(static_cast<const T *>(p.up.data) + at, left, packed);
#pragma unroll
  for (int i = 0; i < kChunk; ++i) {
    float x = gate.v[i];
    gate.v[i] = dy.v[i] * up.v[i] * Glu::slope(x);
    up.v[i] = dy.v[i] * Glu::value(x);
  }
  storeChunk(static_cast<T *>(p.dgate.data) + at, gate, left, packed);
  storeChunk(static_cast<T *>(p.dup.data) + at, up, left, packed);
}
template <typename T, typename Glu> __device__ void gluGrad(const GluGradParams &p) {
  int64_t at = threadOfGrid() * kChunk, left = p.count - at;
  if (p.packed && left >= kChunk)
    gluGradChunk<T, Glu>(p, at, kChunk, true); // Without branches between its loads.
  else if (left > 0)
    gluGradChunk<T, Glu>(p, at, left, false);
}
template <typename Glu> __device__ void gluGradAny(const GluGradParams &p) {
  int64_t at = threadOfGrid();
  if (at >= p.count)
    return;
  float dy = load<float>(p.dy, at), gate = load<float>(p.gate, at), up = load<float>(p.up, at);
  store(p.dgate, at, dy * up * Glu::slope(gate));
  store(p.dup, at, dy * Glu::value(gate));
}

//===--- Integers -----------------------------------------------------------===//

__device__ int64_t integerPower(int64_t a, int64_t b) {
  if (b < 0)
    return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  uint64_t result = 1, factor = static_cast<uint64_t>(a);
  for (; b > 0; b >>= 1, factor *= factor)
    if (b & 1)
      result *= factor;
  return static_cast<int64_t>(result);
}
__device__ int64_t integerRemainder(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }

__device__ int64_t integerResult(IntegerOp op, int64_t a, int64_t b) {
  uint64_t ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (op) {
  case IntegerOp::Neg:
    return static_cast<int64_t>(-ua);
  case IntegerOp::Abs:
    return a < 0 ? static_cast<int64_t>(-ua) : a;
  case IntegerOp::Relu:
    return a < 0 ? 0 : a;
  case IntegerOp::Sign:
    return (a > 0) - (a < 0);
  case IntegerOp::Not:
    return a == 0;
  case IntegerOp::IsNaN:
  case IntegerOp::IsInf:
    return 0;
  case IntegerOp::Same:
    return a;
  case IntegerOp::Add:
    return static_cast<int64_t>(ua + ub);
  case IntegerOp::Sub:
    return static_cast<int64_t>(ua - ub);
  case IntegerOp::Mul:
    return static_cast<int64_t>(ua * ub);
  case IntegerOp::Div:
    return b == 0 ? 0 : b == -1 ? static_cast<int64_t>(-ua) : a / b;
  case IntegerOp::Pow:
    return integerPower(a, b);
  case IntegerOp::Maximum:
    return a > b ? a : b;
  case IntegerOp::Minimum:
    return a < b ? a : b;
  case IntegerOp::Mod: {
    int64_t r = integerRemainder(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
  case IntegerOp::Fmod:
    return integerRemainder(a, b);
  case IntegerOp::And:
    return a != 0 && b != 0;
  case IntegerOp::Or:
    return a != 0 || b != 0;
  case IntegerOp::Xor:
    return (a != 0) != (b != 0);
  case IntegerOp::Equal:
    return a == b;
  case IntegerOp::Less:
    return a < b;
  case IntegerOp::LessEqual:
    return a <= b;
  case IntegerOp::Greater:
    return a > b;
  case IntegerOp::GreaterEqual:
    return a >= b;
  }
  return 0;
}

__device__ void integers(const IntegerParams &p) {
  int64_t at = threadOfGrid(), offsets[2];
  if (at >= p.count)
    return;
  offsetsOf(p.map, at, offsets);
  int64_t a = load<int64_t>(p.a, offsets[0]), b = p.b.data ? load<int64_t>(p.b, offsets[1]) : 0;
  store(p.y, at, integerResult(p.op, a, b));
}

//===--- Choosing and converting ----------------------------------------------===//

template <typename T> __device__ void where(const WhereParams &p) {
  int64_t at = threadOfGrid(), offsets[3];
  if (at >= p.count)
    return;
  offsetsOf(p.map, at, offsets);
  bool condition = load<int64_t>(p.condition, offsets[0]) != 0;
  static_cast<T *>(p.y)[at] =
      condition ? static_cast<const T *>(p.onTrue)[offsets[1]] : static_cast<const T *>(p.onFalse)[offsets[2]];
}

/// Between f32 and bf16.
template <typename From, typename To> __device__ void castFast(const CastParams &p) {
  int64_t at = threadOfGrid() * kChunk, left = p.count - at;
  if (left <= 0)
    return;
  To *y = static_cast<To *>(p.y.data) + at;
  bool packed = p.packed && left >= kChunk;
  Chunk chunk = loadChunk(static_cast<const From *>(p.x.data) + at, left, packed);
  if (p.adds) {
    Chunk old = loadChunk(y, left, packed);
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      chunk.v[i] = old.v[i] + chunk.v[i];
  }
  storeChunk(y, chunk, left, packed);
}
/// Computed in C, which holds every value of the operand's type.
template <typename C> __device__ void castAny(const CastParams &p) {
  int64_t at = threadOfGrid();
  if (at >= p.count)
    return;
  C value = load<C>(p.x, at);
  if (p.adds)
    value = static_cast<C>(load<C>(p.y, at) + value);
  store(p.y, at, value);
}

} // namespace

#define UNARY_KERNELS(X, name, Op)                                                                                     \
  X(name##_f32, UnaryParams, unary<float, Op>)                                                                         \
  X(name##_bf16, UnaryParams, unary<Bf16, Op>)                                                                         \
  X(name##_any, UnaryParams, unaryAny<Op>)
#define BINARY_KERNELS(X, name, Op)                                                                                    \
  X(name##_f32, BinaryParams, binary<float, Op>)                                                                       \
  X(name##_bf16, BinaryParams, binary<Bf16, Op>)                                                                       \
  X(name##_any, BinaryParams, binaryAny<Op>)
#define GLU_KERNELS(X, name, Op)                                                                                       \
  BINARY_KERNELS(X, glu_##name, Op)                                                                                    \
  X(glu_grad_##name##_f32, GluGradParams, (gluGrad<float, Op>))                                                        \
  X(glu_grad_##name##_bf16, GluGradParams, (gluGrad<Bf16, Op>))                                                        \
  X(glu_grad_##name##_any, GluGradParams, gluGradAny<Op>)
#define KERNELS(X)                                                                                                     \
  GLU_KERNELS(X, silu, GluSilu)                                                                                        \
  GLU_KERNELS(X, gelu, GluGelu)                                                                                        \
  GLU_KERNELS(X, gelu_tanh, GluGeluTanh)                                                                               \
  UNARY_KERNELS(X, neg, Neg)                                                                                           \
  UNARY_KERNELS(X, abs, Abs)                                                                                           \
  UNARY_KERNELS(X, exp, Exp)                                                                                           \
  UNARY_KERNELS(X, log, Log)                                                                                           \
  UNARY_KERNELS(X, sqrt, Sqrt)                                                                                         \
  UNARY_KERNELS(X, rsqrt, Rsqrt)                                                                                       \
  UNARY_KERNELS(X, reciprocal, Reciprocal)                                                                             \
  UNARY_KERNELS(X, sin, Sin)                                                                                           \
  UNARY_KERNELS(X, cos, Cos)                                                                                           \
  UNARY_KERNELS(X, asin, Asin)                                                                                         \
  UNARY_KERNELS(X, acos, Acos)                                                                                         \
  UNARY_KERNELS(X, atan, Atan)                                                                                         \
  UNARY_KERNELS(X, tanh, Tanh)                                                                                         \
  UNARY_KERNELS(X, sigmoid, Sigmoid)                                                                                   \
  UNARY_KERNELS(X, erf, Erf)                                                                                           \
  UNARY_KERNELS(X, relu, Relu)                                                                                         \
  UNARY_KERNELS(X, silu, Silu)                                                                                         \
  UNARY_KERNELS(X, softplus, Softplus)                                                                                 \
  UNARY_KERNELS(X, floor, Floor)                                                                                       \
  UNARY_KERNELS(X, ceil, Ceil)                                                                                         \
  UNARY_KERNELS(X, round, Round)                                                                                       \
  UNARY_KERNELS(X, sign, Sign)                                                                                         \
  UNARY_KERNELS(X, gelu, Gelu)                                                                                         \
  UNARY_KERNELS(X, gelu_tanh, GeluTanh)                                                                                \
  X(not_any, UnaryParams, unaryAny<Not>)                                                                               \
  X(isnan_any, UnaryParams, unaryAny<IsNaN>)                                                                           \
  X(isinf_any, UnaryParams, unaryAny<IsInf>)                                                                           \
  BINARY_KERNELS(X, add, Add)                                                                                          \
  BINARY_KERNELS(X, sub, Sub)                                                                                          \
  BINARY_KERNELS(X, mul, Mul)                                                                                          \
  BINARY_KERNELS(X, div, Div)                                                                                          \
  BINARY_KERNELS(X, pow, Pow)                                                                                          \
  BINARY_KERNELS(X, maximum, Maximum)                                                                                  \
  BINARY_KERNELS(X, minimum, Minimum)                                                                                  \
  BINARY_KERNELS(X, tanh_grad, TanhGrad)                                                                               \
  BINARY_KERNELS(X, sigmoid_grad, SigmoidGrad)                                                                         \
  BINARY_KERNELS(X, relu_grad, ReluGrad)                                                                               \
  BINARY_KERNELS(X, silu_grad, SiluGrad)                                                                               \
  BINARY_KERNELS(X, gelu_grad, GeluGrad)                                                                               \
  BINARY_KERNELS(X, gelu_tanh_grad, GeluTanhGrad)                                                                      \
  X(mod_any, BinaryParams, binaryAny<Mod>)                                                                             \
  X(fmod_any, BinaryParams, binaryAny<Fmod>)                                                                           \
  X(equal_any, BinaryParams, binaryAny<Equal>)                                                                         \
  X(less_any, BinaryParams, binaryAny<Less>)                                                                           \
  X(less_equal_any, BinaryParams, binaryAny<LessEqual>)                                                                \
  X(greater_any, BinaryParams, binaryAny<Greater>)                                                                     \
  X(greater_equal_any, BinaryParams, binaryAny<GreaterEqual>)                                                          \
  X(integer_elements, IntegerParams, integers)                                                                         \
  X(where_1, WhereParams, where<uint8_t>)                                                                              \
  X(where_2, WhereParams, where<uint16_t>)                                                                             \
  X(where_4, WhereParams, where<uint32_t>)                                                                             \
  X(where_8, WhereParams, where<uint64_t>)                                                                             \
  X(cast_f32_bf16, CastParams, (castFast<float, Bf16>))                                                                \
  X(cast_bf16_f32, CastParams, (castFast<Bf16, float>))                                                                \
  X(cast_f32_f32, CastParams, (castFast<float, float>))                                                                \
  X(cast_bf16_bf16, CastParams, (castFast<Bf16, Bf16>))                                                                \
  X(cast_double, CastParams, castAny<double>)                                                                          \
  X(cast_integer, CastParams, castAny<int64_t>)

MAESTRO_KERNELS(elementwise, KERNELS)
#undef KERNELS
#undef GLU_KERNELS
#undef UNARY_KERNELS
#undef BINARY_KERNELS
#undef UNARY
#undef BINARY

} // namespace maestro::kernels::cuda
