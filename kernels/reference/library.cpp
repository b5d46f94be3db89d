// The reference library: kernel names and the functions that prepare them.
#include "kernels/accumulate.h"
#include "kernels/muon.h"
#include "kernels/reference/prepare.h"
#include "kernels/signature.h"

#include <algorithm>

namespace maestro::kernels {
namespace {

using namespace reference;

struct Entry {
  std::string_view name;
  PreparedKernel (*prepare)(const CallSpec &);
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
    {"glu", prepareGlu},
    {"glu_grad", prepareGlu},
    {"cast", prepareCast},
    {"copy", prepareCast},
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
    {"gather_grad", prepareGatherGrad},
    {"gather_elements", prepareGatherElements},
    {"gather_nd", prepareGatherNd},
    {"gather_nd_grad", prepareGatherNdGrad},
    {"scatter_elements", prepareScatterElements},
    {"scatter_nd", prepareScatterNd},
    {"masked_scatter", prepareMaskedScatter},
    {"masked_scatter_grad", prepareMaskedScatterGrad},
    {"top_k", prepareTopK},
    {"arg_max", prepareArgExtreme},
    {"arg_min", prepareArgExtreme},
    {"reduce_sum", prepareReduce},
    {"reduce_mean", prepareReduce},
    {"reduce_max", prepareReduce},
    {"reduce_min", prepareReduce},
    {"reduce_prod", prepareReduce},
    {"matmul", prepareMatmul},
    {"conv", prepareConv},
    {"conv_grad_input", prepareConvGradInput},
    {"conv_grad_weight", prepareConvGradWeight},
    {"max_pool", prepareMaxPool},
    {"max_pool_grad", prepareMaxPoolGrad},
    {"avg_pool", prepareAvgPool},
    {"avg_pool_grad", prepareAvgPoolGrad},
    {"softmax", prepareSoftmax},
    {"log_softmax", prepareSoftmax},
    {"softmax_grad", prepareSoftmaxGrad},
    {"log_softmax_grad", prepareSoftmaxGrad},
    {"layer_norm", prepareLayerNorm},
    {"layer_norm_grad", prepareLayerNormGrad},
    {"rms_norm", prepareRmsNorm},
    {"rms_norm_grad", prepareRmsNormGrad},
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
    {"adafactor", prepareAdafactor},
    {"average", prepareAverage},
    {"sum_squares", prepareSumSquares},
    {"add_into", prepareAddInto},
};

class ReferenceLibrary : public Library {
public:
  std::string_view name() const override { return "reference"; }

  Result<std::unique_ptr<Kernel>> prepare(const CallSpec &spec) const override {
    if (spec.kernel == "muon") {
      MAESTRO_TRY(checkSignature(spec));
      return prepareMuon(spec, *this);
    }
    auto entry = std::ranges::find(kEntries, spec.kernel, &Entry::name);
    if (entry == std::end(kEntries))
      return PreparedKernel(nullptr);
    MAESTRO_TRY(checkSignature(spec));
    MAESTRO_ASSIGN(std::unique_ptr<Kernel> kernel, entry->prepare(spec));
    if (kernel && accumulateMask(spec) != 0)
      kernel = makeAccumulating(spec, std::move(kernel));
    return PreparedKernel(std::move(kernel));
  }
};

} // namespace

std::unique_ptr<Library> createReferenceLibrary() { return std::make_unique<ReferenceLibrary>(); }

} // namespace maestro::kernels
