// Operators that fill, move, repeat or pad elements, and the running sum.
#include "kernels/reference/prepare.h"

#include <algorithm>

namespace maestro::kernels::reference {
namespace {

/// y[i] = x[map(i)] for every element of the result.
PreparedKernel makeGatherByMap(const CallSpec &spec, const IndexMap &map) {
  return withComputeType(spec.outputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [map](const Call &call) {
      Source<C> x = call.source<C>(0);
      Sink<C> y = call.sink<C>(0);
      for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i)
        y.set(i, x[map(i)]);
    });
  });
}

/// Where element i of the part lies in the whole.
IndexMap sliceMap(const CallSpec &spec, const TensorType &whole, const TensorType &part) {
  auto offsets = spec.attributes.getInts("offsets"), steps = spec.attributes.getInts("steps");
  Dims dense = denseStrides(whole.shape()), strides{};
  int64_t offset = 0;
  for (int i = 0; i < whole.rank; ++i) {
    offset += offsets[i] * dense[i];
    strides[i] = (steps.empty() ? 1 : steps[i]) * dense[i];
  }
  return IndexMap(part.shape(), strides, offset);
}

PreparedKernel makeSequence(const CallSpec &spec, std::vector<int64_t> values) {
  return makeKernel(spec, [values = std::move(values)](const Call &call) {
    Sink<int64_t> y = call.sink<int64_t>(0);
    for (size_t i = 0; i < values.size(); ++i)
      y.set(static_cast<int64_t>(i), values[i]);
  });
}

/// The source position of padded position `i` in a dim of `size`; −1: none (constant).
int64_t unpadded(int64_t i, int64_t size, std::string_view mode) {
  if ((i >= 0 && i < size) || size == 0)
    return size == 0 ? -1 : i;
  if (mode == "edge")
    return std::clamp<int64_t>(i, 0, size - 1);
  if (mode == "wrap")
    return ((i % size) + size) % size;
  if (mode == "reflect") {
    int64_t period = std::max<int64_t>(2 * (size - 1), 1);
    int64_t folded = ((i % period) + period) % period;
    return folded < size ? folded : period - folded;
  }
  return -1;
}

} // namespace

PreparedKernel prepareFill(const CallSpec &spec) {
  double value = spec.attributes.getFloat("value", 0);
  return makeKernel(spec, [value](const Call &call) {
    Sink<double> y = call.sink(0);
    for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i)
      y.set(i, value);
  });
}

PreparedKernel prepareIota(const CallSpec &spec) {
  int64_t start = spec.attributes.getInt("start", 0), step = spec.attributes.getInt("step", 1);
  return makeKernel(spec, [=](const Call &call) {
    Sink<int64_t> y = call.sink<int64_t>(0);
    for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i)
      y.set(i, wrappingAdd(start, wrappingMultiply(i, step)));
  });
}

PreparedKernel prepareDimValues(const CallSpec &spec) {
  auto values = spec.attributes.getInts("values");
  return makeSequence(spec, {values.begin(), values.end()});
}

PreparedKernel prepareTranspose(const CallSpec &spec) {
  auto permutation = spec.attributes.getInts("permutation");
  Dims dense = denseStrides(spec.inputs[0].shape()), strides{};
  for (size_t i = 0; i < permutation.size(); ++i)
    strides[i] = dense[permutation[i]];
  return makeGatherByMap(spec, IndexMap(spec.outputs[0].shape(), strides));
}

PreparedKernel prepareBroadcastTo(const CallSpec &spec) {
  return makeGatherByMap(spec, broadcastMap(spec.inputs[0].shape(), spec.outputs[0].shape()));
}

PreparedKernel prepareConcat(const CallSpec &spec) {
  int64_t axis = spec.attributes.getInt("axis", 0);
  return withComputeType(spec.outputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [axis](const Call &call) {
      AxisView whole(call.out[0].shape(), axis);
      Sink<C> y = call.sink<C>(0);
      int64_t start = 0;
      for (size_t k = 0; k < call.in.size(); ++k) {
        AxisView part(call.in[k].shape(), axis);
        Source<C> x = call.source<C>(k);
        int64_t run = part.axis * part.inner;
        for (int64_t i = 0; i < part.outer; ++i)
          for (int64_t j = 0; j < run; ++j)
            y.set((i * whole.axis + start) * whole.inner + j, x[i * run + j]);
        start += part.axis;
      }
    });
  });
}

PreparedKernel prepareSlice(const CallSpec &spec) {
  return makeGatherByMap(spec, sliceMap(spec, spec.inputs[0], spec.outputs[0]));
}

PreparedKernel prepareSliceGrad(const CallSpec &spec) {
  IndexMap map = sliceMap(spec, spec.outputs[0], spec.inputs[0]);
  return withComputeType(spec.outputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [map](const Call &call) {
      Source<C> dy = call.source<C>(0);
      Sink<C> dx = call.sink<C>(0);
      for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i)
        dx.set(i, C(0));
      for (int64_t i = 0, n = call.in[0].elements(); i < n; ++i)
        dx.set(map(i), dy[i]);
    });
  });
}

PreparedKernel preparePad(const CallSpec &spec) {
  auto low = spec.attributes.getInts("low");
  std::vector<int64_t> before(low.begin(), low.end());
  std::string mode(spec.attributes.getText("mode", "constant"));
  double value = spec.attributes.getFloat("value", 0);
  return withComputeType(spec.outputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [=](const Call &call) {
      Source<C> x = call.source<C>(0);
      Sink<C> y = call.sink<C>(0);
      auto from = call.in[0].shape(), to = call.out[0].shape();
      for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i) {
        int64_t rest = i, position = 0, stride = 1;
        for (size_t d = to.size(); d-- > 0; rest /= to[d], stride *= from[d]) {
          int64_t at = unpadded(rest % to[d] - before[d], from[d], mode);
          position = at < 0 || position < 0 ? -1 : position + at * stride;
        }
        y.set(i, position < 0 ? convert<C>(value) : x[position]);
      }
    });
  });
}

PreparedKernel prepareCumsum(const CallSpec &spec) {
  int64_t axis = spec.attributes.getInt("axis", 0);
  bool exclusive = spec.attributes.getFlag("exclusive"), reverse = spec.attributes.getFlag("reverse");
  return withComputeType(spec.outputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [=](const Call &call) {
      Source<C> x = call.source<C>(0);
      Sink<C> y = call.sink<C>(0);
      AxisView view(call.out[0].shape(), axis);
      for (int64_t line = 0; line < view.outer * view.inner; ++line) {
        int64_t start = line / view.inner * view.axis * view.inner + line % view.inner;
        C sum = 0;
        for (int64_t k = 0; k < view.axis; ++k) {
          int64_t at = start + (reverse ? view.axis - 1 - k : k) * view.inner;
          C element = x[at]; // The result may lie over the operand.
          y.set(at, exclusive ? sum : wrappingAdd(sum, element));
          sum = wrappingAdd(sum, element);
        }
      }
    });
  });
}

} // namespace maestro::kernels::reference
