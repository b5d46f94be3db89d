// The largest or smallest elements along an axis.
#include "kernels/reference/prepare.h"

namespace maestro::kernels::reference {
namespace {

/// Whether element a at index i comes before element b at index j: NaN first, then by value, ties
/// by the lower index.
template <typename C> bool comesBefore(C a, int64_t i, C b, int64_t j, bool largest) {
  bool aNaN = a != a, bNaN = b != b;
  if (aNaN != bNaN)
    return aNaN == largest;
  if (!aNaN && a != b)
    return largest ? a > b : a < b;
  return i < j;
}

} // namespace

PreparedKernel prepareTopK(const CallSpec &spec) {
  int64_t axis = spec.attributes.getInt("axis", 0);
  bool largest = spec.attributes.getInt("largest", 1) != 0;
  return withComputeType(spec.inputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [=](const Call &call) {
      AxisView view(call.in[0].shape(), axis);
      int64_t k = call.out[0].dims[axis];
      Source<C> x = call.source<C>(0);
      Sink<C> values = call.sink<C>(0);
      Sink<int64_t> indices = call.sink<int64_t>(1);
      for (int64_t line = 0; line < view.outer * view.inner; ++line) {
        int64_t outer = line / view.inner, inner = line % view.inner;
        auto at = [&](int64_t i) { return x[(outer * view.axis + i) * view.inner + inner]; };
        int64_t previous = -1;
        for (int64_t rank = 0; rank < k; ++rank) {
          int64_t best = -1; // The first of those that come after the previous one.
          for (int64_t i = 0; i < view.axis; ++i)
            if ((previous < 0 || comesBefore(at(previous), previous, at(i), i, largest)) && i != previous &&
                (best < 0 || comesBefore(at(i), i, at(best), best, largest)))
              best = i;
          int64_t target = (outer * k + rank) * view.inner + inner;
          values.set(target, at(best));
          indices.set(target, best);
          previous = best;
        }
      }
    });
  });
}

PreparedKernel prepareArgExtreme(const CallSpec &spec) {
  int64_t axis = spec.attributes.getInt("axis", 0);
  bool last = spec.attributes.getFlag("select_last"), largest = spec.kernel == "arg_max";
  return withComputeType(spec.inputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [=](const Call &call) {
      AxisView view(call.in[0].shape(), axis);
      Source<C> x = call.source<C>(0);
      Sink<int64_t> y = call.sink<int64_t>(0);
      for (int64_t line = 0; line < view.outer * view.inner; ++line) {
        int64_t start = line / view.inner * view.axis * view.inner + line % view.inner;
        int64_t best = 0;
        for (int64_t i = 1; i < view.axis; ++i) {
          C a = x[start + i * view.inner], b = x[start + best * view.inner];
          if ((largest ? a > b : a < b) || (last && a == b))
            best = i;
        }
        y.set(line, best);
      }
    });
  });
}

} // namespace maestro::kernels::reference
