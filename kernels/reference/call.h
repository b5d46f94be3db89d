// What every reference kernel is made of. Floating types are computed in f64 (the oracle is at least as exact as any
// kernel that it judges), integers and bool in i64.
#pragma once

#include "kernels/element.h"
#include "kernels/lambda_kernel.h"
#include "kernels/shape.h"

#include <algorithm>
#include <cmath>

namespace maestro::kernels::reference {

/// The operands, readable as f64 or i64 whatever their type.
struct Call : Operands {
  template <typename C = double> Source<C> source(size_t i) const { return {inputs[i], in[i].dtype}; }
  template <typename C = double> Sink<C> sink(size_t i) const { return {outputs[i], out[i].dtype}; }
};

template <typename Body> PreparedKernel makeKernel(const CallSpec &spec, Body body, size_t scratchBytes = 0) {
  return PreparedKernel(std::make_unique<LambdaKernel<Call, Body>>(spec, std::move(body), scratchBytes));
}

/// Calls `function` with a double or an int64_t: the type to compute `dtype` in.
template <typename Function> PreparedKernel withComputeType(DType dtype, Function function) {
  return isFloat(dtype) ? function(double()) : function(int64_t());
}

/// Scratch memory for a sum of every element of the first result, in f64 or i64.
inline size_t sumBytes(const CallSpec &spec) { return static_cast<size_t>(spec.outputs[0].elements()) * 8; }
inline double *zeroedSums(const Call &call) {
  double *sums = static_cast<double *>(call.scratch);
  std::fill_n(sums, call.out[0].elements(), 0.0);
  return sums;
}
template <typename C> void storeSums(const Call &call, const C *sums) {
  Sink<C> out = call.sink<C>(0);
  for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i)
    out.set(i, sums[i]);
}

inline double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

/// Integer arithmetic wraps.
inline int64_t wrappingAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t wrappingMultiply(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
inline double wrappingAdd(double a, double b) { return a + b; }
inline double wrappingMultiply(double a, double b) { return a * b; }

} // namespace maestro::kernels::reference
