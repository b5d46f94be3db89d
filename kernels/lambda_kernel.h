// A kernel made of a lambda, and the operands of one call: what both libraries build kernels from.
#pragma once

#include "kernels/kernel.h"

#include <type_traits>
#include <utility>

namespace maestro::kernels {

using PreparedKernel = Result<std::unique_ptr<Kernel>>;

/// The operands of one run.
struct Operands {
  std::span<const TensorType> in, out;
  std::span<const void *const> inputs;
  std::span<void *const> outputs;
  void *scratch = nullptr;

  bool hasInput(size_t i) const { return i < in.size() && in[i].present; }
  bool hasOutput(size_t i) const { return i < out.size() && out[i].present; }
  template <typename T> const T *input(size_t i) const { return static_cast<const T *>(inputs[i]); }
  template <typename T> T *output(size_t i) const { return static_cast<T *>(outputs[i]); }
};

/// A kernel whose run() is `body(operands)`, which returns a Status or nothing.
template <typename Call, typename Body> class LambdaKernel : public Kernel {
public:
  LambdaKernel(const CallSpec &spec, Body body, size_t scratch)
      : in(spec.inputs.begin(), spec.inputs.end()), out(spec.outputs.begin(), spec.outputs.end()),
        body(std::move(body)), scratch(scratch) {}

  Status run(std::span<const void *const> inputs, std::span<void *const> outputs, void *memory) override {
    Call call;
    static_cast<Operands &>(call) = Operands{in, out, inputs, outputs, memory};
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

} // namespace maestro::kernels
