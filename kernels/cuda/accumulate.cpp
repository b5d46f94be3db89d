// Adding to results, for kernels that only know how to overwrite.
#include "kernels/accumulate.h"

#include "kernels/cuda/cast.h"
#include "kernels/cuda/prepare.h"

namespace maestro::kernels::cuda {
namespace {

constexpr size_t kMaxOutputs = 16;

class AccumulatingKernel : public Kernel {
public:
  AccumulatingKernel(std::unique_ptr<Kernel> inner, std::unique_ptr<Sequence> adds)
      : inner(std::move(inner)), adds(std::move(adds)) {
    redirected.fill(kNotRedirected);
  }

  void redirect(size_t output, size_t offset) { redirected[output] = offset; }

  Status enqueue(const Launch &launch, std::span<const CUdeviceptr> inputs, std::span<const CUdeviceptr> outputs,
                 CUdeviceptr scratch) override {
    std::array<CUdeviceptr, kMaxOutputs> own{};
    for (size_t i = 0; i < outputs.size(); ++i)
      own[i] = redirected[i] == kNotRedirected ? outputs[i] : scratch + redirected[i];
    MAESTRO_TRY(inner->enqueue(launch, inputs, {own.data(), outputs.size()}, scratch + adds->scratchBytes()));
    return adds->enqueue(launch, inputs, outputs, scratch);
  }
  size_t scratchBytes() const override { return adds->scratchBytes() + inner->scratchBytes(); }

private:
  static constexpr size_t kNotRedirected = SIZE_MAX;
  std::unique_ptr<Kernel> inner;
  std::unique_ptr<Sequence> adds; ///< Its scratch memory holds the results; the inner call's lies behind.
  std::array<size_t, kMaxOutputs> redirected;
};

} // namespace

PreparedKernel makeAccumulating(const Call &call, std::unique_ptr<Kernel> inner) {
  if (call.spec.outputs.size() > kMaxOutputs)
    return unsupported();
  auto adds = call.sequence();
  std::array<size_t, kMaxOutputs> offsets{};
  uint64_t mask = accumulateMask(call.spec);
  for (size_t i = 0; i < call.spec.outputs.size(); ++i)
    if (call.hasOut(i) && (mask >> i & 1)) {
      offsets[i] = adds->reserve(call.out(i).bytes());
      MAESTRO_TRY(addCast(
          *adds, call.out(i).dtype, call.out(i).dtype, call.out(i).elements(), true,
          [offset = offsets[i]](const Operands &o) { return o.scratchAt<const void>(offset); },
          [i](const Operands &o) { return o.out(i); }));
    }
  auto kernel = std::make_unique<AccumulatingKernel>(std::move(inner), std::move(adds));
  for (size_t i = 0; i < call.spec.outputs.size(); ++i)
    if (call.hasOut(i) && (mask >> i & 1))
      kernel->redirect(i, offsets[i]);
  return PreparedKernel(std::move(kernel));
}

} // namespace maestro::kernels::cuda
