// The CUDA library: kernel names and the functions that prepare them.
#include "kernels/cuda/library.h"

#include "kernels/accumulate.h"
#include "kernels/cuda/failure.h"
#include "kernels/cuda/prepare.h"
#include "kernels/indices.h"
#include "kernels/masked_scatter.h"
#include "kernels/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace maestro::kernels::cuda {
namespace {

struct Entry {
  std::string_view name;
  Prepare prepare;
  bool adds = false; ///< The kernel itself adds to results named by `accumulate`.
};

constexpr Entry kEntries[] = {
    {"neg", prepareUnary},
    {"abs", prepareUnary},
    {"exp", prepareUnary},
    {"log", prepareUnary},
    {"sqrt", prepareUnary},
    {"rsqrt", prepareUnary},
    {"reciprocal", prepareUnary},
    {"sin", prepareUnary},
    {"cos", prepareUnary},
    {"asin", prepareUnary},
    {"acos", prepareUnary},
    {"atan", prepareUnary},
    {"tanh", prepareUnary},
    {"sigmoid", prepareUnary},
    {"erf", prepareUnary},
    {"relu", prepareUnary},
    {"silu", prepareUnary},
    {"softplus", prepareUnary},
    {"floor", prepareUnary},
    {"ceil", prepareUnary},
    {"round", prepareUnary},
    {"sign", prepareUnary},
    {"not", prepareUnary},
    {"isnan", prepareUnary},
    {"isinf", prepareUnary},
    {"gelu", prepareUnary},
    {"tanh_grad", prepareBinary},
    {"sigmoid_grad", prepareBinary},
    {"relu_grad", prepareBinary},
    {"silu_grad", prepareBinary},
    {"glu", prepareBinary},
    {"glu_grad", prepareGluGrad},
    {"gelu_grad", prepareBinary},
    {"add", prepareBinary},
    {"sub", prepareBinary},
    {"mul", prepareBinary},
    {"div", prepareBinary},
    {"pow", prepareBinary},
    {"maximum", prepareBinary},
    {"minimum", prepareBinary},
    {"mod", prepareBinary},
    {"and", prepareBinary},
    {"or", prepareBinary},
    {"xor", prepareBinary},
    {"equal", prepareBinary},
    {"less", prepareBinary},
    {"less_equal", prepareBinary},
    {"greater", prepareBinary},
    {"greater_equal", prepareBinary},
    {"where", prepareWhere},
    {"cast", prepareCast},
    {"copy", prepareCast},
    {"add_into", prepareCast},
    {"fill", prepareFill},
    {"iota", prepareIota},
    {"dim_values", prepareDimValues},
    {"transpose", prepareTranspose},
    {"broadcast_to", prepareBroadcastTo},
    {"concat", prepareConcat},
    {"slice", prepareSlice},
    {"slice_grad", prepareSliceGrad},
    {"pad", preparePad},
    {"cumsum", prepareCumsum},
    {"gather", prepareGather},
    {"gather_grad", prepareGatherGrad, true},
    {"gather_elements", prepareGatherElements},
    {"gather_nd", prepareGatherNd},
    {"gather_nd_grad", prepareGatherNdGrad, true},
    {"scatter_elements", prepareScatterElements},
    {"scatter_nd", prepareScatterNd},
    {"masked_scatter", prepareMaskedScatter},
    {"masked_scatter_grad", prepareMaskedScatterGrad},
    {"top_k", prepareTopK},
    {"arg_max", prepareArgExtreme},
    {"arg_min", prepareArgExtreme},
    {"reduce_sum", prepareReduce, true},
    {"reduce_mean", prepareReduce, true},
    {"reduce_max", prepareReduce, true},
    {"reduce_min", prepareReduce, true},
    {"reduce_prod", prepareReduce, true},
    {"matmul", prepareMatmul, true},
    {"conv", prepareConv},
    {"conv_grad_input", prepareConvGradInput},
    {"conv_grad_weight", prepareConvGradWeight},
    {"max_pool", prepareMaxPool},
    {"max_pool_grad", prepareMaxPoolGrad},
    {"avg_pool", prepareAvgPool},
    {"avg_pool_grad", prepareAvgPoolGrad},
    {"softmax", prepareSoftmax},
    {"log_softmax", prepareSoftmax},
    {"softmax_grad", prepareSoftmax},
    {"log_softmax_grad", prepareSoftmax},
    {"layer_norm", prepareNorm},
    {"rms_norm", prepareNorm},
    {"layer_norm_grad", prepareNormGrad, true},
    {"rms_norm_grad", prepareNormGrad, true},
    {"rope", prepareRope},
    {"attention", prepareAttention},
    {"attention_grad", prepareAttentionGrad},
    {"recurrence", prepareRecurrence},
    {"recurrence_grad", prepareRecurrenceGrad},
    {"dropout", prepareDropout},
    {"cross_entropy", prepareCrossEntropy},
    {"cross_entropy_grad", prepareCrossEntropyGrad},
    {"kl_divergence", prepareKlDivergence},
    {"kl_divergence_grad", prepareKlDivergenceGrad},
    {"adam", prepareAdam},
    {"adamw", prepareAdam},
    {"sgd", prepareSgd},
    {"muon", prepareMuon},
    {"adafactor", prepareAdafactor},
    {"average", prepareAverage},
    {"sum_squares", prepareSumSquares, true},
};

class CudaLibrary : public Library {
public:
  CudaLibrary(const Functions &functions, Libraries first) : functions(functions), first(std::move(first)) {}

  PreparedKernel prepare(const CallSpec &spec) const override {
    auto entry = std::ranges::find(kEntries, spec.kernel, &Entry::name);
    if (entry == std::end(kEntries))
      return unsupported();
    MAESTRO_TRY(checkSignature(spec));
    Call call{spec, functions, *this};
    std::unique_ptr<Kernel> kernel;
    for (size_t i = 0; i < first.size() && !kernel; ++i) {
      MAESTRO_ASSIGN(kernel, first[i]->prepare(spec));
    }
    if (!kernel) {
      MAESTRO_ASSIGN(kernel, entry->prepare(call));
    }
    if (kernel && accumulateMask(spec) != 0 && !entry->adds)
      return makeAccumulating(call, std::move(kernel));
    return PreparedKernel(std::move(kernel));
  }

private:
  const Functions &functions;
  Libraries first;
};

} // namespace

std::unique_ptr<Library> createLibrary(const Functions &functions, Libraries first) {
  return std::make_unique<CudaLibrary>(functions, std::move(first));
}

std::span<const std::string_view> coveredKernels() {
  static constexpr auto kNames = [] {
    std::array<std::string_view, std::size(kEntries)> names;
    std::ranges::transform(kEntries, names.begin(), &Entry::name);
    return names;
  }();
  return kNames;
}

Status toStatus(const Failure &failure, std::string_view kernel) {
  switch (failure.code) {
  case FailureCode::None:
    return Status();
  case FailureCode::IndexOutOfRange:
    return indexError(kernel, failure.index, failure.position, failure.low, failure.limit);
  case FailureCode::MaskAsksForMore:
    return maskAsksForMore(failure.limit, failure.position);
  case FailureCode::MaskTakesFewer:
    return maskTakesFewer(failure.index, failure.limit);
  }
  return Status::internal(
      fmt::format("{}: the device reports failure {}, which is unknown", kernel, static_cast<uint32_t>(failure.code)));
}

Status Sequence::checkGrid(const std::string &name, Grid grid) {
  constexpr unsigned kMaxX = 0x7fffffff, kMaxYZ = 0xffff;
  if (grid.x <= kMaxX && grid.y <= kMaxYZ && grid.z <= kMaxYZ)
    return Status();
  return Status::invalidInput(
      fmt::format("{}: {} x {} x {} blocks are above a GPU's limits of {} x {} x {}; a smaller micro-batch needs fewer",
                  name, grid.x, grid.y, grid.z, kMaxX, kMaxYZ, kMaxYZ));
}

} // namespace maestro::kernels::cuda
