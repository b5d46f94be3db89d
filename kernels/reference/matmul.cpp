// Matrix products: a[…, m, k] · b[…, k, n] (+ bias[n]) (+ addend).
#include "kernels/reference/prepare.h"

namespace maestro::kernels::reference {
namespace {

/// The leading dims of a matmul operand.
std::span<const int64_t> leading(const TensorType &type) {
  return type.shape().first(static_cast<size_t>(type.rank - 2));
}

} // namespace

PreparedKernel prepareMatmul(const CallSpec &spec) {
  bool transposeA = spec.attributes.getFlag("transpose_a");
  bool transposeB = spec.attributes.getFlag("transpose_b");
  const TensorType &a = spec.inputs[0], &result = spec.outputs[0];
  IndexMap batchA = broadcastMap(leading(a), leading(result));
  IndexMap batchB = broadcastMap(leading(spec.inputs[1]), leading(result));
  int64_t batches = product(leading(result));
  int64_t m = result.dims[result.rank - 2], n = result.dims[result.rank - 1];
  int64_t k = a.dims[a.rank - (transposeA ? 2 : 1)];
  return withComputeType(result.dtype, [&]<typename C>(C) {
    return makeKernel(spec, [=](const Call &call) {
      Source<C> a = call.source<C>(0), b = call.source<C>(1);
      Source<C> bias = call.source<C>(call.hasInput(2) ? 2 : 0), addend = call.source<C>(call.hasInput(3) ? 3 : 0);
      Sink<C> result = call.sink<C>(0);
      for (int64_t batch = 0; batch < batches; ++batch) {
        int64_t startA = batchA(batch) * m * k, startB = batchB(batch) * k * n;
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            C sum = call.hasInput(2) ? bias[j] : C(0);
            for (int64_t l = 0; l < k; ++l)
              sum = wrappingAdd(sum, wrappingMultiply(a[startA + (transposeA ? l * m + i : i * k + l)],
                                                      b[startB + (transposeB ? j * k + l : l * n + j)]));
            int64_t at = (batch * m + i) * n + j;
            result.set(at, call.hasInput(3) ? wrappingAdd(sum, addend[at]) : sum);
          }
      }
    });
  });
}

} // namespace maestro::kernels::reference
