// Softmax and log-softmax along an axis, and their gradients from the result.
#include "kernels/reference/prepare.h"

#include <algorithm>

namespace maestro::kernels::reference {
namespace {

/// Calls visit(start, stride, length) for every line along the axis.
template <typename Visit> void forEachLine(std::span<const int64_t> shape, int64_t axis, Visit visit) {
  AxisView view(shape, axis);
  for (int64_t line = 0; line < view.outer * view.inner; ++line)
    visit(line / view.inner * view.axis * view.inner + line % view.inner, view.inner, view.axis);
}

} // namespace

PreparedKernel prepareSoftmax(const CallSpec &spec) {
  int64_t axis = spec.attributes.getInt("axis", 0);
  bool logarithm = spec.kernel == "log_softmax";
  return makeKernel(spec, [=](const Call &call) {
    Source<double> x = call.source(0);
    Sink<double> y = call.sink(0);
    forEachLine(call.out[0].shape(), axis, [&](int64_t start, int64_t stride, int64_t length) {
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t i = 0; i < length; ++i)
        largest = std::max(largest, x[start + i * stride]);
      for (int64_t i = 0; i < length; ++i)
        sum += std::exp(x[start + i * stride] - largest);
      for (int64_t i = 0; i < length; ++i) {
        double shifted = x[start + i * stride] - largest;
        y.set(start + i * stride, logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum);
      }
    });
  });
}

PreparedKernel prepareSoftmaxGrad(const CallSpec &spec) {
  int64_t axis = spec.attributes.getInt("axis", 0);
  bool logarithm = spec.kernel == "log_softmax_grad";
  return makeKernel(spec, [=](const Call &call) {
    Source<double> y = call.source(0), dy = call.source(1);
    Sink<double> dx = call.sink(0);
    forEachLine(call.out[0].shape(), axis, [&](int64_t start, int64_t stride, int64_t length) {
      double sum = 0;
      for (int64_t i = 0; i < length; ++i)
        sum += dy[start + i * stride] * (logarithm ? 1 : y[start + i * stride]);
      for (int64_t i = 0; i < length; ++i) {
        int64_t at = start + i * stride;
        dx.set(at, logarithm ? dy[at] - std::exp(y[at]) * sum : y[at] * (dy[at] - sum));
      }
    });
  });
}

} // namespace maestro::kernels::reference
