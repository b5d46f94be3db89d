#include "kernels/cpu/widened.h"

#include "kernels/cpu/onednn.h"

#include <vector>

namespace maestro::kernels::cpu {
namespace {

/// Elements that another thread is worth.
constexpr int64_t kWideningGrain = int64_t{1} << 14;

class WidenedKernel : public Kernel {
public:
  WidenedKernel(const CallSpec &spec, std::unique_ptr<Kernel> inner)
      : inner(std::move(inner)), threads(spec.threads), accumulates(accumulateMask(spec)), inputs(spec.inputs.size()),
        outputs(spec.outputs.size()) {
    size = aligned(this->inner->scratchBytes());
    place(spec.inputs, narrowInputs);
    place(spec.outputs, narrowOutputs);
  }

  Status run(std::span<const void *const> givenInputs, std::span<void *const> givenOutputs, void *scratch) override {
    inputs.assign(givenInputs.begin(), givenInputs.end());
    outputs.assign(givenOutputs.begin(), givenOutputs.end());
    for (const Operand &own : narrowInputs)
      inputs[own.index] = widen(own, givenInputs[own.index], scratch);
    for (const Operand &own : narrowOutputs)
      outputs[own.index] =
          accumulates >> own.index & 1 ? widen(own, givenOutputs[own.index], scratch) : wide(own, scratch);
    MAESTRO_TRY(inner->run(inputs, outputs, scratch));
    for (const Operand &own : narrowOutputs)
      narrow(own, wide(own, scratch), static_cast<BFloat16 *>(givenOutputs[own.index]));
    return Status();
  }

  size_t scratchBytes() const override { return size; }
  size_t ownBytes() const override { return inner->ownBytes() + Kernel::ownBytes(); }

private:
  struct Operand {
    size_t index, offset; ///< Into scratch memory.
    int64_t elements;
  };
  static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

  void place(std::span<const TensorType> types, std::vector<Operand> &operands) {
    for (size_t i = 0; i < types.size(); ++i)
      if (types[i].present && types[i].dtype == DType::BF16) {
        operands.push_back({i, size, product(types[i].shape())});
        size += aligned(static_cast<size_t>(operands.back().elements) * sizeof(float));
      }
  }

  static float *wide(const Operand &operand, void *scratch) {
    return reinterpret_cast<float *>(static_cast<char *>(scratch) + operand.offset);
  }

  float *widen(const Operand &operand, const void *from, void *scratch) const {
    const auto *values = static_cast<const BFloat16 *>(from);
    float *to = wide(operand, scratch);
    parallelFor(threads, operand.elements, kWideningGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = static_cast<float>(values[i]);
    });
    return to;
  }
  void narrow(const Operand &operand, const float *from, BFloat16 *to) const {
    parallelFor(threads, operand.elements, kWideningGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = BFloat16(from[i]);
    });
  }

  std::unique_ptr<Kernel> inner;
  int threads;
  uint64_t accumulates; ///< A bit for each output.
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  std::vector<Operand> narrowInputs, narrowOutputs;
  size_t size = 0;
};

std::vector<TensorType> inFloats(std::span<const TensorType> types) {
  std::vector<TensorType> wide(types.begin(), types.end());
  for (TensorType &type : wide)
    if (type.dtype == DType::BF16)
      type.dtype = DType::F32;
  return wide;
}

} // namespace

bool mustWiden(const CallSpec &spec) {
  auto isNarrow = [](const TensorType &type) { return type.present && type.dtype == DType::BF16; };
  return !onednnCovers(DType::BF16) &&
         (std::ranges::any_of(spec.inputs, isNarrow) || std::ranges::any_of(spec.outputs, isNarrow));
}

PreparedKernel prepareWidened(const CallSpec &spec, const Loops &loops, Prepare prepare) {
  std::vector<TensorType> inputs = inFloats(spec.inputs), outputs = inFloats(spec.outputs);
  MAESTRO_ASSIGN(std::unique_ptr<Kernel> inner,
                 prepare({spec.kernel, spec.attributes, inputs, outputs, spec.threads}, loops));
  if (!inner)
    return unsupported();
  return PreparedKernel(std::make_unique<WidenedKernel>(spec, std::move(inner)));
}

} // namespace maestro::kernels::cpu
