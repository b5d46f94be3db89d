// The CPU library: kernel names and the functions that prepare them. What these do not cover is the
// reference library's.
#include "kernels/cpu/library.h"

#include "kernels/cpu/prepare.h"
#include "kernels/muon.h"
#include "kernels/signature.h"

#include <algorithm>

namespace maestro::kernels {
namespace {

using namespace cpu;

struct Entry {
  std::string_view name;
  Prepare prepare;
  bool adds = false; ///< The kernel itself adds to results named by `accumulate`.
};

constexpr Entry kEntries[] = {
    {"where", prepareWhere},
    {"glu", prepareGlu},
    {"glu_grad", prepareGluGrad},
    {"copy", prepareCopy},
    {"fill", prepareFill},
    {"transpose", prepareTranspose},
    {"broadcast_to", prepareBroadcastTo},
    {"concat", prepareConcat},
    {"slice", prepareSlice},
    {"slice_grad", prepareSliceGrad},
    {"pad", preparePad},
    {"gather", prepareGather},
    {"gather_grad", prepareGatherGrad, true},
    {"gather_elements", prepareGatherElements},
    {"scatter_elements", prepareScatterElements},
    {"masked_scatter", prepareMaskedScatter},
    {"masked_scatter_grad", prepareMaskedScatterGrad},
    {"top_k", prepareTopK},
    {"reduce_sum", prepareReduce, true},
    {"reduce_mean", prepareReduce, true},
    {"reduce_max", prepareReduce, true},
    {"reduce_min", prepareReduce, true},
    {"sum_squares", prepareSumSquares, true},
    {"matmul", prepareMatmul, true},
    {"conv", prepareConv},
    {"conv_grad_input", prepareConvGradInput},
    {"conv_grad_weight", prepareConvGradWeight},
    {"softmax", prepareSoftmax},
    {"log_softmax", prepareSoftmax},
    {"softmax_grad", prepareSoftmaxGrad},
    {"log_softmax_grad", prepareSoftmaxGrad},
    {"rope", prepareRope},
    {"layer_norm", prepareNorm},
    {"rms_norm", prepareNorm},
    {"layer_norm_grad", prepareNormGrad, true},
    {"rms_norm_grad", prepareNormGrad, true},
    {"cross_entropy", prepareCrossEntropy},
    {"cross_entropy_grad", prepareCrossEntropyGrad},
    {"kl_divergence", prepareKlDivergence},
    {"kl_divergence_grad", prepareKlDivergenceGrad},
    {"attention", prepareAttention},
    {"attention_grad", prepareAttentionGrad},
    {"recurrence", prepareRecurrence},
    {"recurrence_grad", prepareRecurrenceGrad},
    {"dropout", prepareDropout},
    {"adam", prepareAdam},
    {"adamw", prepareAdam},
    {"sgd", prepareSgd},
    {"adafactor", prepareAdafactor},
    {"average", prepareAverage},
    {"add_into", prepareAddInto},
};

/// What is not in the table may be elementwise: those names are in the tables of loops.
PreparedKernel prepareElementwise(const CallSpec &spec, const Loops &loops) {
  if (spec.outputs.size() != 1)
    return unsupported();
  if (spec.inputs.size() == 1)
    return prepareUnary(spec, loops);
  return spec.inputs.size() == 2 ? prepareBinary(spec, loops) : unsupported();
}

class CpuLibrary : public Library {
public:
  explicit CpuLibrary(const Loops *loops) : loops(loops) {}
  std::string_view name() const override { return "cpu"; }

  Result<std::unique_ptr<Kernel>> prepare(const CallSpec &spec) const override {
    if (!loops)
      return fallback->prepare(spec);
    MAESTRO_TRY(checkSignature(spec));
    if (spec.kernel == "muon")
      return prepareMuon(spec, *this);
    auto entry = std::ranges::find(kEntries, spec.kernel, &Entry::name);
    bool known = entry != std::end(kEntries);
    MAESTRO_ASSIGN(std::unique_ptr<Kernel> kernel,
                   known ? entry->prepare(spec, *loops) : prepareElementwise(spec, *loops));
    if (!kernel)
      return fallback->prepare(spec);
    if (accumulateMask(spec) != 0 && !(known && entry->adds))
      kernel = makeAccumulating(spec, std::move(kernel));
    return PreparedKernel(std::move(kernel));
  }

private:
  std::unique_ptr<Library> fallback = createReferenceLibrary();
  const Loops *loops;
};

} // namespace

std::unique_ptr<Library> cpu::createLibrary(const Loops *loops) { return std::make_unique<CpuLibrary>(loops); }

std::unique_ptr<Library> createCpuLibrary() {
  const Loops *best = avx512Loops();
  return createLibrary(best ? best : avx2Loops());
}

} // namespace maestro::kernels
