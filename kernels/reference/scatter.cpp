// Writing elements at indices that are data, or where a mask says so.
#include "kernels/indices.h"
#include "kernels/masked_scatter.h"
#include "kernels/reference/prepare.h"

#include <algorithm>

namespace maestro::kernels::reference {
namespace {

enum class Reduction { None, Add, Multiply, Smallest, Largest };

Result<Reduction> readReduction(const CallSpec &spec) {
  std::string_view text = spec.attributes.getText("reduction", "none");
  if (text == "none")
    return Reduction::None;
  if (text == "add")
    return Reduction::Add;
  if (text == "mul")
    return Reduction::Multiply;
  if (text == "min")
    return Reduction::Smallest;
  if (text == "max")
    return Reduction::Largest;
  return Status::invalidInput(std::string(spec.kernel) + ": unknown reduction '" + std::string(text) +
                              "'; known are none, add, mul, min, max");
}

template <typename C> C combine(Reduction reduction, C old, C update) {
  switch (reduction) {
  case Reduction::None:
    return update;
  case Reduction::Add:
    return wrappingAdd(old, update);
  case Reduction::Multiply:
    return wrappingMultiply(old, update);
  case Reduction::Smallest:
    return std::min(old, update);
  case Reduction::Largest:
    return std::max(old, update);
  }
  return update;
}

template <typename C> void copyData(const Call &call) {
  Source<C> data = call.source<C>(0);
  Sink<C> result = call.sink<C>(0);
  for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i)
    result.set(i, data[i]);
}

template <typename C> Source<C> currentResult(const Call &call) {
  return Source<C>(call.outputs[0], call.out[0].dtype);
}

} // namespace

PreparedKernel prepareScatterElements(const CallSpec &spec) {
  int64_t axis = spec.attributes.getInt("axis", 0);
  MAESTRO_ASSIGN(Reduction reduction, readReduction(spec));
  return withComputeType(spec.outputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [=](const Call &call) -> Status {
      Dims strides = denseStrides(call.in[0].shape());
      int64_t along = strides[axis], limit = call.in[0].dims[axis];
      strides[axis] = 0;
      IndexMap map(call.in[1].shape(), strides);
      copyData<C>(call);
      Source<int64_t> indices = call.source<int64_t>(1);
      Source<C> updates = call.source<C>(2), old = currentResult<C>(call);
      Sink<C> result = call.sink<C>(0);
      for (int64_t i = 0, n = call.in[1].elements(); i < n; ++i) {
        int64_t index = wrapIndex(indices[i], limit);
        if (index < 0)
          return indexError("scatter_elements", indices[i], i, -limit, limit);
        int64_t at = map(i) + index * along;
        result.set(at, combine(reduction, old[at], updates[i]));
      }
      return Status();
    });
  });
}

PreparedKernel prepareScatterNd(const CallSpec &spec) {
  MAESTRO_ASSIGN(Reduction reduction, readReduction(spec));
  return withComputeType(spec.outputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [=](const Call &call) -> Status {
      auto shape = call.in[0].shape();
      int64_t depth = call.in[1].dims[call.in[1].rank - 1];
      int64_t tuples = product(call.in[1].shape().first(call.in[1].rank - 1));
      int64_t inner = product(shape.subspan(depth));
      copyData<C>(call);
      Source<int64_t> indices = call.source<int64_t>(1);
      Source<C> updates = call.source<C>(2), old = currentResult<C>(call);
      Sink<C> result = call.sink<C>(0);
      for (int64_t i = 0; i < tuples; ++i) {
        int64_t offset = 0;
        for (int64_t k = 0; k < depth; ++k) {
          int64_t position = i * depth + k, index = wrapIndex(indices[position], shape[k]);
          if (index < 0)
            return indexError("scatter_nd", indices[position], position, -shape[k], shape[k]);
          offset = offset * shape[k] + index;
        }
        for (int64_t k = 0; k < inner; ++k)
          result.set(offset * inner + k, combine(reduction, old[offset * inner + k], updates[i * inner + k]));
      }
      return Status();
    });
  });
}

PreparedKernel prepareMaskedScatter(const CallSpec &spec) {
  return withComputeType(spec.outputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [](const Call &call) -> Status {
      Source<C> x = call.source<C>(0), source = call.source<C>(2);
      Source<int64_t> mask = call.source<int64_t>(1);
      Sink<C> y = call.sink<C>(0);
      int64_t taken = 0, available = call.in[2].elements();
      for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i) {
        if (mask[i] && taken == available)
          return maskAsksForMore(available, i);
        y.set(i, mask[i] ? source[taken] : x[i]);
        taken += mask[i] != 0;
      }
      return taken == available ? Status() : maskTakesFewer(taken, available);
    });
  });
}

PreparedKernel prepareMaskedScatterGrad(const CallSpec &spec) {
  return withComputeType(spec.outputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [](const Call &call) {
      Source<int64_t> mask = call.source<int64_t>(0);
      Source<C> dy = call.source<C>(1);
      Sink<C> dsource = call.sink<C>(0);
      int64_t taken = 0, available = call.out[0].elements();
      for (int64_t i = 0, n = call.in[0].elements(); i < n && taken < available; ++i)
        if (mask[i])
          dsource.set(taken++, dy[i]);
      for (; taken < available; ++taken)
        dsource.set(taken, C(0));
    });
  });
}

} // namespace maestro::kernels::reference
