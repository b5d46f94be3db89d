// Reading elements at indices that are data, and the gradients: adding at those indices in order.
#include "kernels/indices.h"
#include "kernels/reference/prepare.h"

#include <algorithm>

namespace maestro::kernels::reference {
namespace {

/// The offset in data of the slice that index tuple `tuple` addresses (after batch dims), or an error.
Result<int64_t> tupleOffset(std::string_view kernel, const Source<int64_t> &indices, int64_t tuple,
                            std::span<const int64_t> addressed, int64_t inner) {
  int64_t offset = 0;
  for (size_t k = 0; k < addressed.size(); ++k) {
    int64_t position = tuple * static_cast<int64_t>(addressed.size()) + static_cast<int64_t>(k);
    int64_t index = wrapIndex(indices[position], addressed[k]);
    if (index < 0)
      return indexError(kernel, indices[position], position, -addressed[k], addressed[k]);
    offset = offset * addressed[k] + index;
  }
  return offset * inner;
}

/// GatherND's geometry: data [batch…, addressed…, inner…], indices [batch…, tuples…, addressed.size()].
struct TupleView {
  Dims addressed{};
  size_t depth;
  int64_t batches, tuples, inner;

  TupleView(const TensorType &data, const TensorType &indices, int64_t batchDims)
      : depth(static_cast<size_t>(indices.dims[indices.rank - 1])), batches(product(data.shape().first(batchDims))) {
    auto rest = data.shape().subspan(batchDims);
    std::copy_n(rest.begin(), depth, addressed.begin());
    inner = product(rest.subspan(depth));
    tuples = product(indices.shape().subspan(batchDims, indices.rank - 1 - batchDims));
  }
  std::span<const int64_t> limits() const { return {addressed.data(), depth}; }
  int64_t slice() const { return product(limits()) * inner; }
};

} // namespace

PreparedKernel prepareGather(const CallSpec &spec) {
  int64_t axis = spec.attributes.getInt("axis", 0);
  return withComputeType(spec.outputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [axis](const Call &call) -> Status {
      AxisView view(call.in[0].shape(), axis);
      Source<C> data = call.source<C>(0);
      Source<int64_t> indices = call.source<int64_t>(1);
      Sink<C> result = call.sink<C>(0);
      int64_t count = call.in[1].elements();
      for (int64_t i = 0; i < count; ++i) {
        int64_t index = wrapIndex(indices[i], view.axis);
        if (index < 0)
          return indexError("gather", indices[i], i, -view.axis, view.axis);
        for (int64_t o = 0; o < view.outer; ++o)
          for (int64_t k = 0; k < view.inner; ++k)
            result.set((o * count + i) * view.inner + k, data[(o * view.axis + index) * view.inner + k]);
      }
      return Status();
    });
  });
}

PreparedKernel prepareGatherGrad(const CallSpec &spec) {
  int64_t axis = spec.attributes.getInt("axis", 0);
  return withComputeType(spec.outputs[0].dtype, [&]<typename C>(C) {
    auto body = [axis](const Call &call) -> Status {
      AxisView view(call.out[0].shape(), axis);
      Source<int64_t> indices = call.source<int64_t>(0);
      Source<C> dy = call.source<C>(1);
      C *sums = static_cast<C *>(call.scratch);
      std::fill_n(sums, call.out[0].elements(), C(0));
      int64_t count = call.in[0].elements();
      for (int64_t i = 0; i < count; ++i) {
        int64_t index = wrapIndex(indices[i], view.axis);
        if (index < 0)
          return indexError("gather_grad", indices[i], i, -view.axis, view.axis);
        for (int64_t o = 0; o < view.outer; ++o)
          for (int64_t k = 0; k < view.inner; ++k)
            sums[(o * view.axis + index) * view.inner + k] += dy[(o * count + i) * view.inner + k];
      }
      storeSums(call, sums);
      return Status();
    };
    return makeKernel(spec, body, sumBytes(spec));
  });
}

PreparedKernel prepareGatherElements(const CallSpec &spec) {
  int64_t axis = spec.attributes.getInt("axis", 0);
  return withComputeType(spec.outputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [axis](const Call &call) -> Status {
      // Indices may be smaller than data in every dim, so positions go through data's strides.
      Dims strides = denseStrides(call.in[0].shape());
      int64_t along = strides[axis], limit = call.in[0].dims[axis];
      strides[axis] = 0;
      IndexMap map(call.in[1].shape(), strides);
      Source<C> data = call.source<C>(0);
      Source<int64_t> indices = call.source<int64_t>(1);
      Sink<C> result = call.sink<C>(0);
      for (int64_t i = 0, n = call.out[0].elements(); i < n; ++i) {
        int64_t index = wrapIndex(indices[i], limit);
        if (index < 0)
          return indexError("gather_elements", indices[i], i, -limit, limit);
        result.set(i, data[map(i) + index * along]);
      }
      return Status();
    });
  });
}

PreparedKernel prepareGatherNd(const CallSpec &spec) {
  int64_t batchDims = spec.attributes.getInt("batch_dims", 0);
  return withComputeType(spec.outputs[0].dtype, [&]<typename C>(C) {
    return makeKernel(spec, [batchDims](const Call &call) -> Status {
      TupleView view(call.in[0], call.in[1], batchDims);
      Source<C> data = call.source<C>(0);
      Source<int64_t> indices = call.source<int64_t>(1);
      Sink<C> result = call.sink<C>(0);
      for (int64_t i = 0; i < view.batches * view.tuples; ++i) {
        MAESTRO_ASSIGN(int64_t offset, tupleOffset("gather_nd", indices, i, view.limits(), view.inner));
        offset += i / view.tuples * view.slice();
        for (int64_t k = 0; k < view.inner; ++k)
          result.set(i * view.inner + k, data[offset + k]);
      }
      return Status();
    });
  });
}

PreparedKernel prepareGatherNdGrad(const CallSpec &spec) {
  int64_t batchDims = spec.attributes.getInt("batch_dims", 0);
  return withComputeType(spec.outputs[0].dtype, [&]<typename C>(C) {
    auto body = [batchDims](const Call &call) -> Status {
      TupleView view(call.out[0], call.in[0], batchDims);
      Source<int64_t> indices = call.source<int64_t>(0);
      Source<C> dy = call.source<C>(1);
      C *sums = static_cast<C *>(call.scratch);
      std::fill_n(sums, call.out[0].elements(), C(0));
      for (int64_t i = 0; i < view.batches * view.tuples; ++i) {
        MAESTRO_ASSIGN(int64_t offset, tupleOffset("gather_nd_grad", indices, i, view.limits(), view.inner));
        offset += i / view.tuples * view.slice();
        for (int64_t k = 0; k < view.inner; ++k)
          sums[offset + k] += dy[i * view.inner + k];
      }
      storeSums(call, sums);
      return Status();
    };
    return makeKernel(spec, body, sumBytes(spec));
  });
}

} // namespace maestro::kernels::reference
