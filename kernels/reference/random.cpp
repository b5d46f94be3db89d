// Dropout by counter-based random numbers.
#include "kernels/random.h"
#include "kernels/reference/prepare.h"

#include <algorithm>

namespace maestro::kernels::reference {

PreparedKernel prepareDropout(const CallSpec &spec) {
  double ratio = spec.attributes.getFloat("ratio", 0.5);
  int64_t stream = spec.attributes.getInt("stream", 0);
  Dims strides{};
  std::ranges::copy(spec.attributes.getInts("strides"), strides.begin());
  return makeKernel(spec, [=](const Call &call) {
    Source<double> x = call.source(0);
    Source<int64_t> state = call.source<int64_t>(1), ids = call.source<int64_t>(2);
    Sink<double> y = call.sink(0);
    auto shape = call.in[0].shape();
    int64_t samples = std::max<int64_t>(call.in[2].elements(), 1);
    int64_t rowsPerSample = std::max<int64_t>(shape[0] / samples, 1);
    int64_t width = product(shape.subspan(1));
    IndexMap position(shape.subspan(1), strides);
    double scale = ratio < 1 ? 1 / (1 - ratio) : 0;
    for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i) {
      int64_t row = i / width;
      float uniform = dropoutUniform(state[0], stream, state[1], ids[row / rowsPerSample], row % rowsPerSample,
                                     position(i % width));
      y.set(i, uniform < static_cast<float>(ratio) ? 0 : x[i] * scale);
    }
  });
}

} // namespace maestro::kernels::reference
