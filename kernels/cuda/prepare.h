// The families' prepare functions; library.cpp maps names to them. Each returns nullptr (in an ok Result) for element
// types that it does not cover.
#pragma once

#include "kernels/cuda/sequence.h"

namespace maestro::kernels::cuda {

using Prepare = PreparedKernel (*)(const Call &call);

// elementwise.cpp
PreparedKernel prepareUnary(const Call &call);
PreparedKernel prepareBinary(const Call &call);
PreparedKernel prepareGluGrad(const Call &call);
PreparedKernel prepareWhere(const Call &call);
PreparedKernel prepareCast(const Call &call); ///< cast, copy, add_into

// norm.cpp
PreparedKernel prepareNorm(const Call &call);
PreparedKernel prepareNormGrad(const Call &call); ///< adds natively

// softmax.cpp
PreparedKernel prepareSoftmax(const Call &call); ///< and its gradient

// loss.cpp
PreparedKernel prepareCrossEntropy(const Call &call);
PreparedKernel prepareCrossEntropyGrad(const Call &call);
PreparedKernel prepareKlDivergence(const Call &call);
PreparedKernel prepareKlDivergenceGrad(const Call &call);

// update.cpp
PreparedKernel prepareAdam(const Call &call);
PreparedKernel prepareSgd(const Call &call);
PreparedKernel prepareAverage(const Call &call);
PreparedKernel prepareSumSquares(const Call &call); ///< adds natively

// muon.cpp, adafactor.cpp
PreparedKernel prepareMuon(const Call &call);
PreparedKernel prepareAdafactor(const Call &call);

// position.cpp
PreparedKernel prepareRope(const Call &call);
PreparedKernel prepareDropout(const Call &call);

// movement.cpp
PreparedKernel prepareFill(const Call &call);
PreparedKernel prepareIota(const Call &call);
PreparedKernel prepareDimValues(const Call &call);
PreparedKernel prepareTranspose(const Call &call);
PreparedKernel prepareBroadcastTo(const Call &call);
PreparedKernel prepareConcat(const Call &call);
PreparedKernel prepareSlice(const Call &call);
PreparedKernel prepareSliceGrad(const Call &call);
PreparedKernel preparePad(const Call &call);
PreparedKernel prepareCumsum(const Call &call);

// gather.cpp
PreparedKernel prepareGather(const Call &call);
PreparedKernel prepareGatherGrad(const Call &call); ///< adds natively
PreparedKernel prepareGatherElements(const Call &call);
PreparedKernel prepareGatherNd(const Call &call);
PreparedKernel prepareGatherNdGrad(const Call &call); ///< adds natively

// scatter.cpp
PreparedKernel prepareScatterElements(const Call &call);
PreparedKernel prepareScatterNd(const Call &call);
PreparedKernel prepareMaskedScatter(const Call &call);
PreparedKernel prepareMaskedScatterGrad(const Call &call);

// reduce.cpp, select.cpp
PreparedKernel prepareReduce(const Call &call); ///< adds natively
PreparedKernel prepareTopK(const Call &call);
PreparedKernel prepareArgExtreme(const Call &call);

// attention.cpp
PreparedKernel prepareAttention(const Call &call);
PreparedKernel prepareAttentionGrad(const Call &call);

// recurrence.cpp
PreparedKernel prepareRecurrence(const Call &call);
PreparedKernel prepareRecurrenceGrad(const Call &call);

// product.cpp
PreparedKernel prepareMatmul(const Call &call); ///< adds natively
PreparedKernel prepareConv(const Call &call);
PreparedKernel prepareConvGradInput(const Call &call);
PreparedKernel prepareConvGradWeight(const Call &call);
PreparedKernel prepareConvolutionByProducts(const Call &call, int64_t maxPatchBytes); ///< conv.cpp; null: the loops
PreparedKernel prepareMaxPool(const Call &call);
PreparedKernel prepareMaxPoolGrad(const Call &call);
PreparedKernel prepareAvgPool(const Call &call);
PreparedKernel prepareAvgPoolGrad(const Call &call);

/// Runs `inner` (prepared without `accumulate`) with the results that the mask names in scratch memory, then adds them.
PreparedKernel makeAccumulating(const Call &call, std::unique_ptr<Kernel> inner); // accumulate.cpp

} // namespace maestro::kernels::cuda
