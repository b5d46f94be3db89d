// Reductions over a set of axes (exactly those listed), and the sum of squares of a gradient.
#include "kernels/reference/prepare.h"

#include <algorithm>

namespace maestro::kernels::reference {
namespace {

enum class Kind { Sum, Mean, Largest, Smallest, Product };

Kind kindOf(std::string_view kernel) {
  if (kernel == "reduce_sum")
    return Kind::Sum;
  if (kernel == "reduce_mean")
    return Kind::Mean;
  if (kernel == "reduce_max")
    return Kind::Largest;
  return kernel == "reduce_min" ? Kind::Smallest : Kind::Product;
}

template <typename C> C identity(Kind kind) {
  using Limits = std::numeric_limits<C>;
  switch (kind) {
  case Kind::Largest:
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  case Kind::Smallest:
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  case Kind::Product:
    return C(1);
  default:
    return C(0);
  }
}

template <typename C> C combine(Kind kind, C sum, C x) {
  switch (kind) {
  case Kind::Largest:
    return sum != sum || sum > x ? sum : x;
  case Kind::Smallest:
    return sum != sum || sum < x ? sum : x;
  case Kind::Product:
    return wrappingMultiply(sum, x);
  default:
    return wrappingAdd(sum, x);
  }
}

/// The operand's dims, split into those that stay and those that are reduced.
struct Split {
  Dims keptDims{}, keptStrides{}, reducedDims{}, reducedStrides{};
  size_t kept = 0, reduced = 0;

  Split(std::span<const int64_t> shape, std::span<const int64_t> axes) {
    Dims strides = denseStrides(shape);
    for (size_t i = 0; i < shape.size(); ++i) {
      bool gone = std::ranges::find(axes, static_cast<int64_t>(i)) != axes.end();
      (gone ? reducedDims[reduced] : keptDims[kept]) = shape[i];
      (gone ? reducedStrides[reduced++] : keptStrides[kept++]) = strides[i];
    }
  }
  std::span<const int64_t> keptShape() const { return {keptDims.data(), kept}; }
  std::span<const int64_t> reducedShape() const { return {reducedDims.data(), reduced}; }
};

} // namespace

PreparedKernel prepareReduce(const CallSpec &spec) {
  Kind kind = kindOf(spec.kernel);
  Split split(spec.inputs[0].shape(), spec.attributes.getInts("axes"));
  IndexMap outer(split.keptShape(), split.keptStrides);
  IndexMap inner(split.reducedShape(), split.reducedStrides);
  int64_t results = product(split.keptShape()), length = product(split.reducedShape());
  return withComputeType(spec.inputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [=](const Call &call) {
      Source<C> x = call.source<C>(0);
      Sink<C> y = call.sink<C>(0);
      for (int64_t i = 0; i < results; ++i) {
        C sum = identity<C>(kind);
        for (int64_t k = 0, start = outer(i); k < length; ++k)
          sum = combine(kind, sum, x[start + inner(k)]);
        if (kind == Kind::Mean)
          sum = std::same_as<C, double> || length ? sum / static_cast<C>(length) : C(0);
        y.set(i, sum);
      }
    });
  });
}

PreparedKernel prepareSumSquares(const CallSpec &spec) {
  return makeKernel(spec, [](const Call &call) {
    Source<double> x = call.source(0);
    double sum = 0;
    for (int64_t i = 0, n = call.in[0].elements(); i < n; ++i)
      sum += x[i] * x[i];
    call.sink(0).set(0, sum);
  });
}

} // namespace maestro::kernels::reference
