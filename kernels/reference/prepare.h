// The reference kernels' prepare functions, one or a few per file; library.cpp maps names to them.
// Each returns nullptr (in an ok Result) for element types that the operator has no meaning for.
#pragma once

#include "kernels/reference/call.h"

namespace maestro::kernels::reference {

// elementwise.cpp
PreparedKernel prepareUnary(const CallSpec &spec);
PreparedKernel prepareBinary(const CallSpec &spec);
PreparedKernel prepareWhere(const CallSpec &spec);
PreparedKernel prepareGlu(const CallSpec &spec); ///< and its gradient
PreparedKernel prepareCast(const CallSpec &spec);

// movement.cpp
PreparedKernel prepareFill(const CallSpec &spec);
PreparedKernel prepareIota(const CallSpec &spec);
PreparedKernel prepareDimValues(const CallSpec &spec);
PreparedKernel prepareTranspose(const CallSpec &spec);
PreparedKernel prepareBroadcastTo(const CallSpec &spec);
PreparedKernel prepareConcat(const CallSpec &spec);
PreparedKernel prepareSlice(const CallSpec &spec);
PreparedKernel prepareSliceGrad(const CallSpec &spec);
PreparedKernel preparePad(const CallSpec &spec);
PreparedKernel prepareCumsum(const CallSpec &spec);

// gather.cpp
PreparedKernel prepareGather(const CallSpec &spec);
PreparedKernel prepareGatherGrad(const CallSpec &spec);
PreparedKernel prepareGatherElements(const CallSpec &spec);
PreparedKernel prepareGatherNd(const CallSpec &spec);
PreparedKernel prepareGatherNdGrad(const CallSpec &spec);

// scatter.cpp
PreparedKernel prepareScatterElements(const CallSpec &spec);
PreparedKernel prepareScatterNd(const CallSpec &spec);
PreparedKernel prepareMaskedScatter(const CallSpec &spec);
PreparedKernel prepareMaskedScatterGrad(const CallSpec &spec);

// select.cpp
PreparedKernel prepareTopK(const CallSpec &spec);
PreparedKernel prepareArgExtreme(const CallSpec &spec);

// reduce.cpp
PreparedKernel prepareReduce(const CallSpec &spec);
PreparedKernel prepareSumSquares(const CallSpec &spec);

// matmul.cpp
PreparedKernel prepareMatmul(const CallSpec &spec);

// conv.cpp, pool.cpp
PreparedKernel prepareConv(const CallSpec &spec);
PreparedKernel prepareConvGradInput(const CallSpec &spec);
PreparedKernel prepareConvGradWeight(const CallSpec &spec);
PreparedKernel prepareMaxPool(const CallSpec &spec);
PreparedKernel prepareMaxPoolGrad(const CallSpec &spec);
PreparedKernel prepareAvgPool(const CallSpec &spec);
PreparedKernel prepareAvgPoolGrad(const CallSpec &spec);

// softmax.cpp
PreparedKernel prepareSoftmax(const CallSpec &spec);
PreparedKernel prepareSoftmaxGrad(const CallSpec &spec);

// norm.cpp
PreparedKernel prepareLayerNorm(const CallSpec &spec);
PreparedKernel prepareLayerNormGrad(const CallSpec &spec);
PreparedKernel prepareRmsNorm(const CallSpec &spec);
PreparedKernel prepareRmsNormGrad(const CallSpec &spec);

// attention.cpp
PreparedKernel prepareRope(const CallSpec &spec);
PreparedKernel prepareAttention(const CallSpec &spec);
PreparedKernel prepareAttentionGrad(const CallSpec &spec);

// recurrence.cpp
PreparedKernel prepareRecurrence(const CallSpec &spec);
PreparedKernel prepareRecurrenceGrad(const CallSpec &spec);

// random.cpp
PreparedKernel prepareDropout(const CallSpec &spec);

// loss.cpp
PreparedKernel prepareCrossEntropy(const CallSpec &spec);
PreparedKernel prepareCrossEntropyGrad(const CallSpec &spec);
PreparedKernel prepareKlDivergence(const CallSpec &spec);
PreparedKernel prepareKlDivergenceGrad(const CallSpec &spec);

// optimizer.cpp
PreparedKernel prepareAdam(const CallSpec &spec); ///< adam and adamw
PreparedKernel prepareSgd(const CallSpec &spec);
PreparedKernel prepareAdafactor(const CallSpec &spec);
PreparedKernel prepareAverage(const CallSpec &spec);
PreparedKernel prepareAddInto(const CallSpec &spec);

} // namespace maestro::kernels::reference
