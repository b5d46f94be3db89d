// Convolution and its two gradients, each as the sum over everything that contributes.
#include "kernels/reference/prepare.h"
#include "kernels/window.h"

#include <algorithm>

namespace maestro::kernels::reference {
namespace {

struct Geometry {
  Window window;
  int64_t samples, inChannels, outChannels, groups;

  Geometry(const CallSpec &spec, const TensorType &x, const TensorType &w, const TensorType &y)
      : window(x, w.shape().subspan(2), y, spec.attributes), samples(x.dims[0]), inChannels(x.dims[1]),
        outChannels(w.dims[0]), groups(spec.attributes.getInt("group", 1)) {}

  int64_t groupInputs() const { return inChannels / groups; }

  /// Calls visit(x index, w index, y index) for every product of the convolution.
  template <typename Visit> void forEachProduct(Visit visit) const {
    int64_t outputs = window.outputs(), inputs = window.inputs(), taps = window.taps();
    int64_t perGroup = std::max<int64_t>(outChannels / groups, 1);
    for (int64_t n = 0; n < samples; ++n)
      for (int64_t m = 0; m < outChannels; ++m)
        for (int64_t out = 0; out < outputs; ++out)
          for (int64_t c = 0; c < groupInputs(); ++c)
            for (int64_t tap = 0; tap < taps; ++tap) {
              int64_t at = window.inputAt(out, tap);
              if (at >= 0)
                visit((n * inChannels + m / perGroup * groupInputs() + c) * inputs + at,
                      (m * groupInputs() + c) * taps + tap, (n * outChannels + m) * outputs + out);
            }
  }
};

} // namespace

PreparedKernel prepareConv(const CallSpec &spec) {
  Geometry geometry(spec, spec.inputs[0], spec.inputs[1], spec.outputs[0]);
  auto body = [geometry](const Call &call) {
    Source<double> x = call.source(0), w = call.source(1);
    double *sums = zeroedSums(call);
    if (call.hasInput(2)) {
      Source<double> bias = call.source(2);
      int64_t plane = geometry.window.outputs();
      for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i)
        sums[i] = bias[i / plane % geometry.outChannels];
    }
    geometry.forEachProduct([&](int64_t xi, int64_t wi, int64_t yi) { sums[yi] += x[xi] * w[wi]; });
    storeSums(call, sums);
  };
  return makeKernel(spec, body, sumBytes(spec));
}

PreparedKernel prepareConvGradInput(const CallSpec &spec) {
  Geometry geometry(spec, spec.outputs[0], spec.inputs[1], spec.inputs[0]);
  auto body = [geometry](const Call &call) {
    Source<double> dy = call.source(0), w = call.source(1);
    double *sums = zeroedSums(call);
    geometry.forEachProduct([&](int64_t xi, int64_t wi, int64_t yi) { sums[xi] += dy[yi] * w[wi]; });
    storeSums(call, sums);
  };
  return makeKernel(spec, body, sumBytes(spec));
}

PreparedKernel prepareConvGradWeight(const CallSpec &spec) {
  Geometry geometry(spec, spec.inputs[0], spec.outputs[0], spec.inputs[1]);
  auto body = [geometry](const Call &call) {
    Source<double> x = call.source(0), dy = call.source(1);
    double *sums = zeroedSums(call);
    geometry.forEachProduct([&](int64_t xi, int64_t wi, int64_t yi) { sums[wi] += dy[yi] * x[xi]; });
    storeSums(call, sums);
  };
  return makeKernel(spec, body, sumBytes(spec));
}

} // namespace maestro::kernels::reference
