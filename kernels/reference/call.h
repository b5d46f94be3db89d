// What every reference kernel is made of: the operands of one call, and a kernel class around a
// lambda. Floating types are computed in f64 (the oracle is at least as exact as any kernel that it
// judges), integers and bool in i64.
#pragma once

#include "kernels/element.h"
#include "kernels/kernel.h"
#include "kernels/shape.h"

#include <type_traits>
#include <utility>
#include <vector>

namespace maestro::kernels::reference {

using PreparedKernel = Result<std::unique_ptr<Kernel>>;

/// The operands of one run.
struct Call {
  std::span<const TensorType> in, out;
  std::span<const void *const> inputs;
  std::span<void *const> outputs;
  void *scratch;

  bool hasInput(size_t i) const { return i < in.size() && in[i].present; }
  bool hasOutput(size_t i) const { return i < out.size() && out[i].present; }
  template <typename C = double> Source<C> source(size_t i) const { return {inputs[i], in[i].dtype}; }
  template <typename C = double> Sink<C> sink(size_t i) const { return {outputs[i], out[i].dtype}; }
};

/// A kernel whose run() is `body(call)`, which returns a Status or nothing.
template <typename Body> class LambdaKernel : public Kernel {
public:
  LambdaKernel(const CallSpec &spec, Body body, size_t scratch)
      : in(spec.inputs.begin(), spec.inputs.end()), out(spec.outputs.begin(), spec.outputs.end()),
        body(std::move(body)), scratch(scratch) {}

  Status run(std::span<const void *const> inputs, std::span<void *const> outputs,
             void *memory) override {
    Call call{in, out, inputs, outputs, memory};
    if constexpr (std::is_void_v<decltype(body(call))>) {
      body(call);
      return Status();
    } else {
      return body(call);
    }
  }
  size_t scratchBytes() const override { return scratch; }

private:
  std::vector<TensorType> in, out;
  Body body;
  size_t scratch;
};

template <typename Body>
PreparedKernel makeKernel(const CallSpec &spec, Body body, size_t scratchBytes = 0) {
  return PreparedKernel(std::make_unique<LambdaKernel<Body>>(spec, std::move(body), scratchBytes));
}

/// Calls `function` with a double or an int64_t: the type to compute `dtype` in.
template <typename Function> PreparedKernel withComputeType(DType dtype, Function function) {
  return isFloat(dtype) ? function(double()) : function(int64_t());
}

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
