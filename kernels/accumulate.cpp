// Results in scratch memory, then one pass that adds them.
#include "kernels/accumulate.h"

#include "kernels/element.h"

#include <vector>

namespace maestro::kernels {
namespace {

constexpr size_t kAlignment = 64;
constexpr int kMaxOutputs = 16;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

class AccumulatingKernel : public Kernel {
public:
  AccumulatingKernel(const CallSpec &spec, std::unique_ptr<Kernel> inner)
      : inner(std::move(inner)), mask(accumulateMask(spec)), types(spec.outputs.begin(), spec.outputs.end()) {
    bytes = aligned(this->inner->scratchBytes());
    for (size_t i = 0; i < types.size(); ++i)
      if (adds(i)) {
        offsets[i] = bytes;
        bytes += aligned(types[i].bytes());
      }
  }

  size_t scratchBytes() const override { return bytes; }
  size_t ownBytes() const override { return inner->ownBytes() + 512; }

  Status run(std::span<const void *const> inputs, std::span<void *const> outputs, void *scratch) override {
    std::byte *base = static_cast<std::byte *>(scratch);
    std::array<void *, kMaxOutputs> redirected{};
    for (size_t i = 0; i < types.size(); ++i)
      redirected[i] = adds(i) ? base + offsets[i] : outputs[i];
    MAESTRO_TRY(inner->run(inputs, {redirected.data(), types.size()}, scratch));
    for (size_t i = 0; i < types.size(); ++i)
      if (adds(i))
        addElements(outputs[i], types[i].dtype, redirected[i], types[i].dtype, types[i].elements());
    return Status();
  }

private:
  bool adds(size_t i) const { return types[i].present && (mask >> i & 1); }

  std::unique_ptr<Kernel> inner;
  uint64_t mask;
  std::vector<TensorType> types;
  std::array<size_t, kMaxOutputs> offsets{};
  size_t bytes = 0;
};

template <typename C> void addAs(void *out, DType outType, const void *in, DType inType, int64_t count) {
  Source<C> addend(in, inType), old(out, outType);
  Sink<C> sum(out, outType);
  for (int64_t i = 0; i < count; ++i)
    if constexpr (std::same_as<C, int64_t>)
      sum.set(i, static_cast<int64_t>(static_cast<uint64_t>(old[i]) + static_cast<uint64_t>(addend[i])));
    else
      sum.set(i, old[i] + addend[i]);
}

} // namespace

void addElements(void *out, DType outType, const void *in, DType inType, int64_t count) {
  if (outType == DType::F32 && inType == DType::F32) {
    float *sum = static_cast<float *>(out);
    const float *addend = static_cast<const float *>(in);
    for (int64_t i = 0; i < count; ++i)
      sum[i] += addend[i];
  } else if (isFloat(outType) || isFloat(inType)) {
    addAs<double>(out, outType, in, inType, count);
  } else {
    addAs<int64_t>(out, outType, in, inType, count);
  }
}

std::unique_ptr<Kernel> makeAccumulating(const CallSpec &spec, std::unique_ptr<Kernel> inner) {
  if (spec.outputs.size() > kMaxOutputs)
    return nullptr;
  return std::make_unique<AccumulatingKernel>(spec, std::move(inner));
}

} // namespace maestro::kernels
