// Elementwise operators: one function per operator in a table, one loop per arity.
#include "kernels/glu.h"
#include "kernels/reference/prepare.h"

#include <algorithm>
#include <numbers>

namespace maestro::kernels::reference {
namespace {

//===--- One operand ------------------------------------------------------===//

struct Unary {
  std::string_view name;
  double (*floating)(double);
  int64_t (*integer)(int64_t); ///< null: not for integers.
};

/// For floating types only. A lambda without captures can be made anew where it is called.
template <typename F> constexpr Unary floating(std::string_view name, F) {
  return {name, [](double x) -> double { return F()(x); }, nullptr};
}
template <typename F> constexpr Unary numeric(std::string_view name, F) {
  return {name, [](double x) -> double { return F()(x); }, [](int64_t x) -> int64_t { return F()(x); }};
}

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kGeluScale = 0.79788456080286535588; ///< √(2/π)
constexpr double kGeluCubic = 0.044715;

double gelu(double x) { return 0.5 * x * (1 + std::erf(x * kSqrtHalf)); }
double geluTanh(double x) { return 0.5 * x * (1 + std::tanh(kGeluScale * (x + kGeluCubic * x * x * x))); }
double geluSlope(double x) {
  double density = std::exp(-0.5 * x * x) * 0.5 * kGeluScale;
  return 0.5 * (1 + std::erf(x * kSqrtHalf)) + x * density;
}
double geluTanhSlope(double x) {
  double t = std::tanh(kGeluScale * (x + kGeluCubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kGeluScale * (1 + 3 * kGeluCubic * x * x);
}

constexpr Unary kUnary[] = {
    numeric("neg", [](auto x) { return wrappingMultiply(x, decltype(x)(-1)); }),
    numeric("abs", [](auto x) { return x < 0 ? wrappingMultiply(x, decltype(x)(-1)) : x + 0; }),
    numeric("relu", [](auto x) { return x < 0 ? decltype(x)(0) : x; }),
    numeric("sign", [](auto x) { return x != x ? x : decltype(x)((x > 0) - (x < 0)); }),
    numeric("not", [](auto x) { return decltype(x)(x == 0); }),
    numeric("isnan", [](auto x) { return decltype(x)(x != x); }),
    numeric("isinf", [](auto x) { return decltype(x)(std::isinf(static_cast<double>(x))); }),
    numeric("floor", [](auto x) { return static_cast<decltype(x)>(std::floor(static_cast<double>(x))); }),
    numeric("ceil", [](auto x) { return static_cast<decltype(x)>(std::ceil(static_cast<double>(x))); }),
    floating("round", [](double x) { return std::nearbyint(x); }),
    floating("exp", [](double x) { return std::exp(x); }),
    floating("log", [](double x) { return std::log(x); }),
    floating("sqrt", [](double x) { return std::sqrt(x); }),
    floating("rsqrt", [](double x) { return 1 / std::sqrt(x); }),
    floating("reciprocal", [](double x) { return 1 / x; }),
    floating("sin", [](double x) { return std::sin(x); }),
    floating("cos", [](double x) { return std::cos(x); }),
    floating("asin", [](double x) { return std::asin(x); }),
    floating("acos", [](double x) { return std::acos(x); }),
    floating("atan", [](double x) { return std::atan(x); }),
    floating("tanh", [](double x) { return std::tanh(x); }),
    floating("sigmoid", [](double x) { return sigmoid(x); }),
    floating("erf", [](double x) { return std::erf(x); }),
    floating("silu", [](double x) { return x * sigmoid(x); }),
    floating("softplus", [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }),
    floating("gelu", [](double x) { return gelu(x); }),
};
constexpr Unary kGeluTanh = floating("gelu", [](double x) { return geluTanh(x); });

template <typename C> PreparedKernel makeUnary(const CallSpec &spec, C (*function)(C)) {
  return makeKernel(spec, [function](const Call &call) {
    Source<C> x = call.source<C>(0);
    Sink<C> y = call.sink<C>(0);
    for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i)
      y.set(i, function(x[i]));
  });
}

//===--- Two operands -----------------------------------------------------===//

struct Binary {
  std::string_view name;
  double (*floating)(double, double);
  int64_t (*integer)(int64_t, int64_t);
};

template <typename F> constexpr Binary both(std::string_view name, F) {
  return {name, [](double a, double b) -> double { return F()(a, b); },
          [](int64_t a, int64_t b) -> int64_t { return F()(a, b); }};
}
template <typename F> constexpr Binary twoFloats(std::string_view name, F) {
  return {name, [](double a, double b) -> double { return F()(a, b); }, nullptr};
}

double divide(double a, double b) { return a / b; }
int64_t divide(int64_t a, int64_t b) {
  if (b == 0)
    return 0;
  return b == -1 ? wrappingMultiply(a, -1) : a / b;
}

int64_t remainder(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
double remainder(double a, double b) { return std::fmod(a, b); }
/// Remainder with the divisor's sign.
template <typename C> C modulo(C a, C b) {
  C r = remainder(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

double power(double a, double b) { return std::pow(a, b); }
int64_t power(int64_t a, int64_t b) {
  if (b < 0)
    return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; b > 0; b >>= 1, a = wrappingMultiply(a, a))
    if (b & 1)
      result = wrappingMultiply(result, a);
  return result;
}

/// NaN wins, as in numpy.
template <typename C> C larger(C a, C b) { return a != a || a > b ? a : b; }
template <typename C> C smaller(C a, C b) { return a != a || a < b ? a : b; }

constexpr Binary kBinary[] = {
    both("add", [](auto a, auto b) { return wrappingAdd(a, b); }),
    both("sub", [](auto a, auto b) { return wrappingAdd(a, wrappingMultiply(b, decltype(b)(-1))); }),
    both("mul", [](auto a, auto b) { return wrappingMultiply(a, b); }),
    both("div", [](auto a, auto b) { return divide(a, b); }),
    both("pow", [](auto a, auto b) { return power(a, b); }),
    both("maximum", [](auto a, auto b) { return larger(a, b); }),
    both("minimum", [](auto a, auto b) { return smaller(a, b); }),
    both("mod", [](auto a, auto b) { return modulo(a, b); }),
    both("and", [](auto a, auto b) { return decltype(a)(a != 0 && b != 0); }),
    both("or", [](auto a, auto b) { return decltype(a)(a != 0 || b != 0); }),
    both("xor", [](auto a, auto b) { return decltype(a)((a != 0) != (b != 0)); }),
    both("equal", [](auto a, auto b) { return decltype(a)(a == b); }),
    both("less", [](auto a, auto b) { return decltype(a)(a < b); }),
    both("less_equal", [](auto a, auto b) { return decltype(a)(a <= b); }),
    both("greater", [](auto a, auto b) { return decltype(a)(a > b); }),
    both("greater_equal", [](auto a, auto b) { return decltype(a)(a >= b); }),
    twoFloats("tanh_grad", [](double y, double dy) { return dy * (1 - y * y); }),
    twoFloats("sigmoid_grad", [](double y, double dy) { return dy * y * (1 - y); }),
    twoFloats("relu_grad", [](double y, double dy) { return y > 0 ? dy : 0; }),
    twoFloats("silu_grad",
              [](double x, double dy) {
                double s = sigmoid(x);
                return dy * s * (1 + x * (1 - s));
              }),
    twoFloats("gelu_grad", [](double x, double dy) { return dy * geluSlope(x); }),
};
constexpr Binary kFmod = both("mod", [](auto a, auto b) { return remainder(a, b); });
constexpr Binary kGeluTanhGrad = twoFloats("gelu_grad", [](double x, double dy) { return dy * geluTanhSlope(x); });

double activated(GluActivation activation, double x) {
  switch (activation) {
  case GluActivation::Gelu:
    return gelu(x);
  case GluActivation::GeluTanh:
    return geluTanh(x);
  case GluActivation::Silu:
    break;
  }
  return x * sigmoid(x);
}
double activationSlope(GluActivation activation, double x) {
  double s = sigmoid(x);
  switch (activation) {
  case GluActivation::Gelu:
    return geluSlope(x);
  case GluActivation::GeluTanh:
    return geluTanhSlope(x);
  case GluActivation::Silu:
    break;
  }
  return s * (1 + x * (1 - s));
}

template <typename C> PreparedKernel makeBinary(const CallSpec &spec, C (*function)(C, C)) {
  auto shape = spec.outputs[0].shape();
  IndexMap left = broadcastMap(spec.inputs[0].shape(), shape);
  IndexMap right = broadcastMap(spec.inputs[1].shape(), shape);
  return makeKernel(spec, [=](const Call &call) {
    Source<C> a = call.source<C>(0), b = call.source<C>(1);
    Sink<C> result = call.sink<C>(0);
    for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i)
      result.set(i, function(a[left(i)], b[right(i)]));
  });
}

template <typename Entry> const Entry *findEntry(std::span<const Entry> table, std::string_view name) {
  auto found = std::ranges::find(table, name, &Entry::name);
  return found == table.end() ? nullptr : &*found;
}

bool wantsTanh(const CallSpec &spec) { return spec.attributes.getText("approximate", "none") == "tanh"; }

} // namespace

PreparedKernel prepareUnary(const CallSpec &spec) {
  const Unary *entry = findEntry(std::span<const Unary>(kUnary), spec.kernel);
  if (entry && entry->name == "gelu" && wantsTanh(spec))
    entry = &kGeluTanh;
  if (!entry)
    return PreparedKernel(nullptr);
  if (isFloat(spec.inputs[0].dtype))
    return makeUnary(spec, entry->floating);
  return entry->integer ? makeUnary(spec, entry->integer) : PreparedKernel(nullptr);
}

PreparedKernel prepareBinary(const CallSpec &spec) {
  const Binary *entry = findEntry(std::span<const Binary>(kBinary), spec.kernel);
  if (entry && entry->name == "gelu_grad" && wantsTanh(spec))
    entry = &kGeluTanhGrad;
  if (entry && entry->name == "mod" && spec.attributes.getFlag("fmod"))
    entry = &kFmod;
  if (!entry)
    return PreparedKernel(nullptr);
  if (isFloat(spec.inputs[0].dtype) || isFloat(spec.inputs[1].dtype))
    return makeBinary(spec, entry->floating);
  return entry->integer ? makeBinary(spec, entry->integer) : PreparedKernel(nullptr);
}

PreparedKernel prepareGlu(const CallSpec &spec) {
  GluActivation activation = *gluActivationFromName(spec.attributes.getText("activation", ""));
  bool backward = spec.kernel == "glu_grad";
  if (!isFloat(spec.inputs[0].dtype))
    return PreparedKernel(nullptr);
  return makeKernel(spec, [=](const Call &call) {
    size_t first = backward ? 1 : 0;
    Source<double> gate = call.source(first), up = call.source(first + 1), dy = call.source(0);
    Sink<double> result = call.sink(0), second = call.sink(backward ? 1 : 0);
    for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i) {
      double x = gate[i], u = up[i], d = dy[i];
      if (!backward) {
        result.set(i, activated(activation, x) * u);
      } else {
        result.set(i, d * u * activationSlope(activation, x));
        second.set(i, d * activated(activation, x));
      }
    }
  });
}

PreparedKernel prepareWhere(const CallSpec &spec) {
  auto shape = spec.outputs[0].shape();
  IndexMap test = broadcastMap(spec.inputs[0].shape(), shape);
  IndexMap yes = broadcastMap(spec.inputs[1].shape(), shape);
  IndexMap no = broadcastMap(spec.inputs[2].shape(), shape);
  return withComputeType(spec.outputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [=](const Call &call) {
      Source<int64_t> condition = call.source<int64_t>(0);
      Source<C> onTrue = call.source<C>(1), onFalse = call.source<C>(2);
      Sink<C> result = call.sink<C>(0);
      for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i)
        result.set(i, condition[test(i)] ? onTrue[yes(i)] : onFalse[no(i)]);
    });
  });
}

PreparedKernel prepareCast(const CallSpec &spec) {
  // Computing in the operand's type keeps 64-bit integers exact.
  return withComputeType(spec.inputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [](const Call &call) {
      Source<C> x = call.source<C>(0);
      Sink<C> y = call.sink<C>(0);
      for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i)
        y.set(i, x[i]);
    });
  });
}

} // namespace maestro::kernels::reference
