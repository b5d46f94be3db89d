// Pooling of x[N, C, spatial…]: each plane by itself.
#include "kernels/reference/prepare.h"
#include "kernels/window.h"

#include <algorithm>

namespace maestro::kernels::reference {
namespace {

Window windowOf(const CallSpec &spec, const TensorType &x, const TensorType &y) {
  return Window(x, spec.attributes.getInts("kernel"), y, spec.attributes);
}

/// The position in the plane of the window's first largest element (NaN counts as largest), or −1.
int64_t largestAt(const Window &window, const Source<double> &x, int64_t plane, int64_t out) {
  int64_t best = -1;
  for (int64_t tap = 0; tap < window.taps(); ++tap) {
    int64_t at = window.inputAt(out, tap);
    if (at < 0)
      continue;
    double value = x[plane + at], held = best < 0 ? 0 : x[plane + best];
    if (best < 0 || value > held || (value != value && held == held))
      best = at;
  }
  return best;
}

/// The number of elements that the mean of output `out` divides by.
int64_t divisor(const Window &window, int64_t out, bool countPadding) {
  int64_t count = 0;
  for (int64_t tap = 0; tap < window.taps(); ++tap)
    count += window.inputAt(out, tap) >= (countPadding ? -1 : 0);
  return count;
}

} // namespace

PreparedKernel prepareMaxPool(const CallSpec &spec) {
  Window window = windowOf(spec, spec.inputs[0], spec.outputs[0]);
  return makeKernel(spec, [window](const Call &call) {
    Source<double> x = call.source(0);
    Sink<double> y = call.sink(0);
    int64_t outputs = window.outputs();
    for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i) {
      int64_t plane = i / outputs * window.inputs();
      int64_t at = largestAt(window, x, plane, i % outputs);
      y.set(i, at < 0 ? -std::numeric_limits<double>::infinity() : x[plane + at]);
    }
  });
}

PreparedKernel prepareMaxPoolGrad(const CallSpec &spec) {
  Window window = windowOf(spec, spec.inputs[0], spec.inputs[1]);
  auto body = [window](const Call &call) {
    Source<double> x = call.source(0), dy = call.source(1);
    double *sums = zeroedSums(call);
    int64_t outputs = window.outputs();
    for (int64_t i = 0, n = call.in[1].elements(); i < n; ++i) {
      int64_t plane = i / outputs * window.inputs();
      int64_t at = largestAt(window, x, plane, i % outputs);
      if (at >= 0)
        sums[plane + at] += dy[i];
    }
    storeSums(call, sums);
  };
  return makeKernel(spec, body, sumBytes(spec));
}

PreparedKernel prepareAvgPool(const CallSpec &spec) {
  Window window = windowOf(spec, spec.inputs[0], spec.outputs[0]);
  bool countPadding = spec.attributes.getFlag("count_include_pad");
  return makeKernel(spec, [=](const Call &call) {
    Source<double> x = call.source(0);
    Sink<double> y = call.sink(0);
    int64_t outputs = window.outputs();
    for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i) {
      int64_t plane = i / outputs * window.inputs(), out = i % outputs;
      double sum = 0;
      for (int64_t tap = 0; tap < window.taps(); ++tap)
        if (int64_t at = window.inputAt(out, tap); at >= 0)
          sum += x[plane + at];
      y.set(i, sum / static_cast<double>(divisor(window, out, countPadding)));
    }
  });
}

PreparedKernel prepareAvgPoolGrad(const CallSpec &spec) {
  Window window = windowOf(spec, spec.outputs[0], spec.inputs[0]);
  bool countPadding = spec.attributes.getFlag("count_include_pad");
  auto body = [=](const Call &call) {
    Source<double> dy = call.source(0);
    double *sums = zeroedSums(call);
    int64_t outputs = window.outputs();
    for (int64_t i = 0, n = call.in[0].elements(); i < n; ++i) {
      int64_t plane = i / outputs * window.inputs(), out = i % outputs;
      double share = dy[i] / static_cast<double>(divisor(window, out, countPadding));
      for (int64_t tap = 0; tap < window.taps(); ++tap)
        if (int64_t at = window.inputAt(out, tap); at >= 0)
          sums[plane + at] += share;
    }
    storeSums(call, sums);
  };
  return makeKernel(spec, body, sumBytes(spec));
}

} // namespace maestro::kernels::reference
