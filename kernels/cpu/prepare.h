// The CPU kernels' prepare functions; library.cpp maps names to them. Each returns nullptr (in an ok
// Result) for what it does not cover, and the reference library then serves the call.
#pragma once

#include "kernels/accumulate.h"
#include "kernels/cpu/loops/loops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/lambda_kernel.h"
#include "kernels/shape.h"

namespace maestro::kernels::cpu {

using Prepare = PreparedKernel (*)(const CallSpec &spec, const Loops &loops);

// elementwise.cpp
PreparedKernel prepareUnary(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareBinary(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareWhere(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareGlu(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareGluGrad(const CallSpec &spec, const Loops &loops);

// movement.cpp
PreparedKernel prepareCopy(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareFill(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareTranspose(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareBroadcastTo(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareConcat(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareSlice(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareSliceGrad(const CallSpec &spec, const Loops &loops);
PreparedKernel preparePad(const CallSpec &spec, const Loops &loops);

// gather.cpp
PreparedKernel prepareGather(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareGatherGrad(const CallSpec &spec, const Loops &loops); ///< adds natively

// masked.cpp
PreparedKernel prepareMaskedScatter(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareMaskedScatterGrad(const CallSpec &spec, const Loops &loops);

// select.cpp
PreparedKernel prepareTopK(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareGatherElements(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareScatterElements(const CallSpec &spec, const Loops &loops);

// reduce.cpp
PreparedKernel prepareReduce(const CallSpec &spec, const Loops &loops); ///< adds natively
PreparedKernel prepareSumSquares(const CallSpec &spec, const Loops &loops);

// matmul.cpp
PreparedKernel prepareMatmul(const CallSpec &spec, const Loops &loops); ///< adds natively

// conv.cpp
PreparedKernel prepareConv(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareConvGradInput(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareConvGradWeight(const CallSpec &spec, const Loops &loops);

// rows.cpp
PreparedKernel prepareSoftmax(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareSoftmaxGrad(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareRope(const CallSpec &spec, const Loops &loops);

// norm.cpp
PreparedKernel prepareNorm(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareNormGrad(const CallSpec &spec, const Loops &loops); ///< adds natively

// loss.cpp
PreparedKernel prepareCrossEntropy(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareCrossEntropyGrad(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareKlDivergence(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareKlDivergenceGrad(const CallSpec &spec, const Loops &loops);

// attention.cpp
PreparedKernel prepareAttention(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareAttentionGrad(const CallSpec &spec, const Loops &loops);

// recurrence.cpp
PreparedKernel prepareRecurrence(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareRecurrenceGrad(const CallSpec &spec, const Loops &loops);

// random.cpp
PreparedKernel prepareDropout(const CallSpec &spec, const Loops &loops);

// optimizer.cpp
PreparedKernel prepareAdam(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareSgd(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareAdafactor(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareAverage(const CallSpec &spec, const Loops &loops);
PreparedKernel prepareAddInto(const CallSpec &spec, const Loops &loops);

template <typename Body> PreparedKernel makeKernel(const CallSpec &spec, Body body, size_t scratchBytes = 0) {
  return PreparedKernel(std::make_unique<LambdaKernel<Operands, Body>>(spec, std::move(body), scratchBytes));
}

inline PreparedKernel unsupported() { return PreparedKernel(nullptr); }

/// A pointer `index` elements of `bytes` each behind `base`.
inline const void *at(const void *base, int64_t index, int64_t bytes) {
  return static_cast<const char *>(base) + index * bytes;
}
inline void *at(void *base, int64_t index, int64_t bytes) { return static_cast<char *>(base) + index * bytes; }

} // namespace maestro::kernels::cpu
