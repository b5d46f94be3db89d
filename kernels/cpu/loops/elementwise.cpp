// Elementwise loops over contiguous ranges.
#include "kernels/cpu/loops/math.h"
#include "kernels/cpu/loops/tables.h"

namespace maestro::kernels::cpu::MAESTRO_ISA {
namespace {

//===--- Floating types, a vector at a time --------------------------------===//

template <typename F, typename To, typename From> void mapFloats(void *yp, const void *xp, int64_t n) {
  To *y = static_cast<To *>(yp);
  const From *x = static_cast<const From *>(xp);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(y + i, F()(load(x + i)));
  if (i < n)
    storePart(y + i, F()(loadPart(x + i, n - i)), n - i);
}

template <typename F, typename T> void bothFloats(void *rp, const void *ap, const void *bp, int64_t n) {
  T *r = static_cast<T *>(rp);
  const T *a = static_cast<const T *>(ap), *b = static_cast<const T *>(bp);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(r + i, F()(load(a + i), load(b + i)));
  if (i < n)
    storePart(r + i, F()(loadPart(a + i, n - i), loadPart(b + i, n - i)), n - i);
}
template <typename F, typename T> void leftFloat(void *rp, const void *ap, const void *bp, int64_t n) {
  T *r = static_cast<T *>(rp);
  const T *b = static_cast<const T *>(bp);
  Floats a = splat(toFloat(*static_cast<const T *>(ap)));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(r + i, F()(a, load(b + i)));
  if (i < n)
    storePart(r + i, F()(a, loadPart(b + i, n - i)), n - i);
}
template <typename F, typename T> void rightFloat(void *rp, const void *ap, const void *bp, int64_t n) {
  T *r = static_cast<T *>(rp);
  const T *a = static_cast<const T *>(ap);
  Floats b = splat(toFloat(*static_cast<const T *>(bp)));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(r + i, F()(load(a + i), b));
  if (i < n)
    storePart(r + i, F()(loadPart(a + i, n - i), b), n - i);
}

//===--- Any type, one at a time (the compiler vectorises what it can) ----===//

/// A result lies over an operand or apart from it, never shifted against it: no element is read after another one was
/// written.
#ifdef __clang__
#define MAESTRO_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define MAESTRO_INDEPENDENT _Pragma("GCC ivdep")
#endif

template <typename T> MAESTRO_INLINE auto value(T x) {
  if constexpr (__is_same(T, BFloat16))
    return toFloat(x);
  else
    return x;
}
template <typename F, typename To, typename From> void mapEach(void *yp, const void *xp, int64_t n) {
  To *y = static_cast<To *>(yp);
  const From *x = static_cast<const From *>(xp);
  MAESTRO_INDEPENDENT
  for (int64_t i = 0; i < n; ++i)
    y[i] = static_cast<To>(F()(value(x[i])));
}
template <typename F, typename To, typename T, int aStride, int bStride>
void bothEach(void *rp, const void *ap, const void *bp, int64_t n) {
  To *r = static_cast<To *>(rp);
  const T *a = static_cast<const T *>(ap), *b = static_cast<const T *>(bp);
  T a0 = *a, b0 = *b; // A repeated operand is read before its memory may be overwritten.
  MAESTRO_INDEPENDENT
  for (int64_t i = 0; i < n; ++i)
    r[i] = static_cast<To>(F()(value(aStride ? a[i] : a0), value(bStride ? b[i] : b0)));
}

//===--- Functions --------------------------------------------------------===//

#define MAESTRO_UNARY(Name, expression)                                                                                \
  struct Name {                                                                                                        \
    inline MAESTRO_LAMBDA Floats operator()(Floats x) const { return expression; }                                     \
  };
#define MAESTRO_BINARY(Name, expression)                                                                               \
  struct Name {                                                                                                        \
    inline MAESTRO_LAMBDA Floats operator()(Floats a, Floats b) const { return expression; }                           \
  };

MAESTRO_UNARY(Identity, x)
MAESTRO_UNARY(Negate, -x)
MAESTRO_UNARY(Absolute, magnitude(x))
MAESTRO_UNARY(Exponential, exponential(x))
MAESTRO_UNARY(Logarithm, logarithm(x))
MAESTRO_UNARY(SquareRoot, squareRoot(x))
MAESTRO_UNARY(InverseRoot, 1.0f / squareRoot(x))
MAESTRO_UNARY(Reciprocal, 1.0f / x)
MAESTRO_UNARY(Tangent, hyperbolicTangent(x))
MAESTRO_UNARY(Logistic, logistic(x))
MAESTRO_UNARY(ErrorFunction, errorFunction(x))
MAESTRO_UNARY(Rectify, x < 0.0f ? Floats{} : x)
MAESTRO_UNARY(Silu, x *logistic(x))
MAESTRO_UNARY(Softplus, softplus(x))
MAESTRO_UNARY(Gelu, gelu(x))
MAESTRO_UNARY(GeluTanh, geluTanh(x))

MAESTRO_BINARY(Add, a + b)
MAESTRO_BINARY(Subtract, a - b)
MAESTRO_BINARY(Multiply, a *b)
MAESTRO_BINARY(Divide, a / b)
MAESTRO_BINARY(Maximum, ((a != a) | (a > b)) ? a : b)
MAESTRO_BINARY(Minimum, ((a != a) | (a < b)) ? a : b)
MAESTRO_BINARY(TangentGrad, b *(1.0f - a * a))
MAESTRO_BINARY(LogisticGrad, b *a *(1.0f - a))
MAESTRO_BINARY(RectifyGrad, a > 0.0f ? b : Floats{})
MAESTRO_BINARY(GeluGrad, b *geluSlope(a))
MAESTRO_BINARY(GeluTanhGrad, b *geluTanhSlope(a))
struct SiluGrad {
  inline MAESTRO_LAMBDA Floats operator()(Floats a, Floats b) const {
    Floats s = logistic(a);
    return b * s * (1.0f + a * (1.0f - s));
  }
};

#define MAESTRO_EACH(Name, expression)                                                                                 \
  struct Name {                                                                                                        \
    template <typename T> inline MAESTRO_LAMBDA auto operator()(T a, T b) const { return expression; }                 \
  };
MAESTRO_EACH(Equal, a == b)
MAESTRO_EACH(Less, a < b)
MAESTRO_EACH(LessEqual, a <= b)
MAESTRO_EACH(Greater, a > b)
MAESTRO_EACH(GreaterEqual, a >= b)
MAESTRO_EACH(And, (a != 0) & (b != 0))
MAESTRO_EACH(Or, (a != 0) | (b != 0))
MAESTRO_EACH(Xor, (a != 0) != (b != 0))
MAESTRO_EACH(WrappingAdd, static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)))
MAESTRO_EACH(WrappingSubtract, static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b)))
MAESTRO_EACH(WrappingMultiply, static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)))

/// Functions of the C library, one element at a time.
#define MAESTRO_SCALAR(Name, function)                                                                                 \
  struct Name {                                                                                                        \
    float operator()(float x) const { return function(x); }                                                            \
  };
MAESTRO_SCALAR(Sine, __builtin_sinf)
MAESTRO_SCALAR(Cosine, __builtin_cosf)
MAESTRO_SCALAR(ArcSine, __builtin_asinf)
MAESTRO_SCALAR(ArcCosine, __builtin_acosf)
MAESTRO_SCALAR(ArcTangent, __builtin_atanf)
MAESTRO_SCALAR(Floor, __builtin_floorf)
MAESTRO_SCALAR(Ceiling, __builtin_ceilf)
MAESTRO_SCALAR(Round, __builtin_rintf)
MAESTRO_EACH(Power, __builtin_powf(a, b))

struct Square {
  inline MAESTRO_LAMBDA Floats operator()(Floats x) const { return x * x; }
};
struct Cube {
  inline MAESTRO_LAMBDA Floats operator()(Floats x) const { return x * x * x; }
};

/// A constant exponent is nearly always one of these.
template <typename T> void constantPower(void *r, const void *a, const void *b, int64_t n) {
  float exponent = toFloat(*static_cast<const T *>(b));
  if (exponent == 2.0f)
    return mapFloats<Square, T, T>(r, a, n);
  if (exponent == 3.0f)
    return mapFloats<Cube, T, T>(r, a, n);
  if (exponent == 0.5f)
    return mapFloats<SquareRoot, T, T>(r, a, n);
  if (exponent == -0.5f)
    return mapFloats<InverseRoot, T, T>(r, a, n);
  bothEach<Power, T, T, 1, 0>(r, a, b, n);
}

struct Not {
  inline MAESTRO_LAMBDA uint8_t operator()(uint8_t x) const { return x == 0; }
};
struct IsNaN {
  template <typename T> inline MAESTRO_LAMBDA uint8_t operator()(T x) const { return x != x; }
};
struct Plain {
  template <typename T> inline MAESTRO_LAMBDA T operator()(T x) const { return x; }
};
struct NonZero {
  template <typename T> inline MAESTRO_LAMBDA uint8_t operator()(T x) const { return x != 0; }
};

//===--- Tables -----------------------------------------------------------===//

#define MAESTRO_UNARY_ENTRIES(name, F)                                                                                 \
  {name, DType::F32, DType::F32, mapFloats<F, float, float>}, {                                                        \
    name, DType::BF16, DType::BF16, mapFloats<F, BFloat16, BFloat16>                                                   \
  }

#define MAESTRO_SCALAR_ENTRIES(name, F)                                                                                \
  {name, DType::F32, DType::F32, mapEach<F, float, float>}, {                                                          \
    name, DType::BF16, DType::BF16, mapEach<F, BFloat16, BFloat16>                                                     \
  }

constexpr UnaryEntry kUnary[] = {
    MAESTRO_UNARY_ENTRIES("neg", Negate),
    MAESTRO_UNARY_ENTRIES("abs", Absolute),
    MAESTRO_UNARY_ENTRIES("exp", Exponential),
    MAESTRO_UNARY_ENTRIES("log", Logarithm),
    MAESTRO_UNARY_ENTRIES("sqrt", SquareRoot),
    MAESTRO_UNARY_ENTRIES("rsqrt", InverseRoot),
    MAESTRO_UNARY_ENTRIES("reciprocal", Reciprocal),
    MAESTRO_UNARY_ENTRIES("tanh", Tangent),
    MAESTRO_UNARY_ENTRIES("sigmoid", Logistic),
    MAESTRO_UNARY_ENTRIES("erf", ErrorFunction),
    MAESTRO_UNARY_ENTRIES("relu", Rectify),
    MAESTRO_UNARY_ENTRIES("silu", Silu),
    MAESTRO_UNARY_ENTRIES("softplus", Softplus),
    MAESTRO_UNARY_ENTRIES("gelu", Gelu),
    MAESTRO_UNARY_ENTRIES("gelu:tanh", GeluTanh),
    MAESTRO_SCALAR_ENTRIES("sin", Sine),
    MAESTRO_SCALAR_ENTRIES("cos", Cosine),
    MAESTRO_SCALAR_ENTRIES("asin", ArcSine),
    MAESTRO_SCALAR_ENTRIES("acos", ArcCosine),
    MAESTRO_SCALAR_ENTRIES("atan", ArcTangent),
    MAESTRO_SCALAR_ENTRIES("floor", Floor),
    MAESTRO_SCALAR_ENTRIES("ceil", Ceiling),
    MAESTRO_SCALAR_ENTRIES("round", Round),
    {"not", DType::Bool, DType::Bool, mapEach<Not, uint8_t, uint8_t>},
    {"isnan", DType::F32, DType::Bool, mapEach<IsNaN, uint8_t, float>},
    {"isnan", DType::BF16, DType::Bool, mapEach<IsNaN, uint8_t, BFloat16>},
    {"cast", DType::F32, DType::BF16, mapFloats<Identity, BFloat16, float>},
    {"cast", DType::BF16, DType::F32, mapFloats<Identity, float, BFloat16>},
    {"cast", DType::I64, DType::F32, mapEach<Plain, float, int64_t>},
    {"cast", DType::I32, DType::F32, mapEach<Plain, float, int32_t>},
    {"cast", DType::Bool, DType::F32, mapEach<Plain, float, uint8_t>},
    {"cast", DType::Bool, DType::I64, mapEach<Plain, int64_t, uint8_t>},
    {"cast", DType::I64, DType::I32, mapEach<Plain, int32_t, int64_t>},
    {"cast", DType::I32, DType::I64, mapEach<Plain, int64_t, int32_t>},
    {"cast", DType::I64, DType::Bool, mapEach<NonZero, uint8_t, int64_t>},
    {"cast", DType::F32, DType::Bool, mapEach<NonZero, uint8_t, float>},
};

#define MAESTRO_FLOAT_BINARY(name, F)                                                                                  \
  {name, DType::F32, DType::F32, bothFloats<F, float>, leftFloat<F, float>, rightFloat<F, float>}, {                   \
    name, DType::BF16, DType::BF16, bothFloats<F, BFloat16>, leftFloat<F, BFloat16>, rightFloat<F, BFloat16>           \
  }
#define MAESTRO_EACH_BINARY(name, F, in, out, T, To)                                                                   \
  { name, in, out, bothEach<F, To, T, 1, 1>, bothEach<F, To, T, 0, 1>, bothEach<F, To, T, 1, 0> }
#define MAESTRO_COMPARE(name, F)                                                                                       \
  MAESTRO_EACH_BINARY(name, F, DType::F32, DType::Bool, float, uint8_t),                                               \
      MAESTRO_EACH_BINARY(name, F, DType::BF16, DType::Bool, BFloat16, uint8_t),                                       \
      MAESTRO_EACH_BINARY(name, F, DType::I64, DType::Bool, int64_t, uint8_t)

constexpr BinaryEntry kBinary[] = {
    MAESTRO_FLOAT_BINARY("add", Add),
    MAESTRO_FLOAT_BINARY("sub", Subtract),
    MAESTRO_FLOAT_BINARY("mul", Multiply),
    MAESTRO_FLOAT_BINARY("div", Divide),
    MAESTRO_FLOAT_BINARY("maximum", Maximum),
    MAESTRO_FLOAT_BINARY("minimum", Minimum),
    MAESTRO_FLOAT_BINARY("tanh_grad", TangentGrad),
    MAESTRO_FLOAT_BINARY("sigmoid_grad", LogisticGrad),
    MAESTRO_FLOAT_BINARY("relu_grad", RectifyGrad),
    MAESTRO_FLOAT_BINARY("silu_grad", SiluGrad),
    MAESTRO_FLOAT_BINARY("gelu_grad", GeluGrad),
    MAESTRO_FLOAT_BINARY("gelu_grad:tanh", GeluTanhGrad),
    {"pow", DType::F32, DType::F32, bothEach<Power, float, float, 1, 1>, bothEach<Power, float, float, 0, 1>,
     constantPower<float>},
    {"pow", DType::BF16, DType::BF16, bothEach<Power, BFloat16, BFloat16, 1, 1>,
     bothEach<Power, BFloat16, BFloat16, 0, 1>, constantPower<BFloat16>},
    MAESTRO_COMPARE("equal", Equal),
    MAESTRO_COMPARE("less", Less),
    MAESTRO_COMPARE("less_equal", LessEqual),
    MAESTRO_COMPARE("greater", Greater),
    MAESTRO_COMPARE("greater_equal", GreaterEqual),
    MAESTRO_EACH_BINARY("and", And, DType::Bool, DType::Bool, uint8_t, uint8_t),
    MAESTRO_EACH_BINARY("or", Or, DType::Bool, DType::Bool, uint8_t, uint8_t),
    MAESTRO_EACH_BINARY("xor", Xor, DType::Bool, DType::Bool, uint8_t, uint8_t),
    MAESTRO_EACH_BINARY("add", WrappingAdd, DType::I64, DType::I64, int64_t, int64_t),
    MAESTRO_EACH_BINARY("sub", WrappingSubtract, DType::I64, DType::I64, int64_t, int64_t),
    MAESTRO_EACH_BINARY("mul", WrappingMultiply, DType::I64, DType::I64, int64_t, int64_t),
};

template <typename T>
void selectEach(void *rp, const uint8_t *condition, const void *ap, const void *bp, int64_t n, int64_t cs, int64_t as,
                int64_t bs) {
  T *r = static_cast<T *>(rp);
  const T *a = static_cast<const T *>(ap), *b = static_cast<const T *>(bp);
  if (cs && as && bs) {
    for (int64_t i = 0; i < n; ++i)
      r[i] = condition[i] ? a[i] : b[i];
  } else if (cs && as) {
    T b0 = *b;
    for (int64_t i = 0; i < n; ++i)
      r[i] = condition[i] ? a[i] : b0;
  } else if (cs && bs) {
    T a0 = *a;
    for (int64_t i = 0; i < n; ++i)
      r[i] = condition[i] ? a0 : b[i];
  } else {
    T a0 = *a, b0 = *b;
    uint8_t c0 = *condition;
    for (int64_t i = 0; i < n; ++i)
      r[i] = (cs ? condition[i] : c0) ? (as ? a[i] : a0) : (bs ? b[i] : b0);
  }
}

} // namespace

void addElementwise(Loops &loops) {
  loops.unary = kUnary;
  loops.unaryCount = sizeof kUnary / sizeof kUnary[0];
  loops.binary = kBinary;
  loops.binaryCount = sizeof kBinary / sizeof kBinary[0];
  loops.select[1] = selectEach<uint8_t>;
  loops.select[2] = selectEach<uint16_t>;
  loops.select[4] = selectEach<uint32_t>;
  loops.select[8] = selectEach<uint64_t>;
}

} // namespace maestro::kernels::cpu::MAESTRO_ISA
