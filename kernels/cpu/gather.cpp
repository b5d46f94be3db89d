// Embedding rows and their gradient. Indices are checked before any thread starts; the gradient gives
// each thread a range of destination rows, so that every row adds up in index order.
#include "kernels/cpu/prepare.h"
#include "kernels/indices.h"

#include <cstring>

namespace maestro::kernels::cpu {
namespace {

int64_t indexAt(const void *indices, DType dtype, int64_t i) {
  return dtype == DType::I64 ? static_cast<const int64_t *>(indices)[i] : static_cast<const int32_t *>(indices)[i];
}

Status checkIndices(const void *indices, DType dtype, int64_t count, int64_t limit, std::string_view kernel) {
  for (int64_t i = 0; i < count; ++i)
    if (int64_t index = indexAt(indices, dtype, i); index < -limit || index >= limit)
      return indexError(kernel, index, i, -limit, limit);
  return Status();
}

bool isIndex(DType dtype) { return dtype == DType::I64 || dtype == DType::I32; }

} // namespace

PreparedKernel prepareGather(const CallSpec &spec, const Loops &) {
  if (!isIndex(spec.inputs[1].dtype))
    return unsupported();
  AxisView view(spec.inputs[0].shape(), spec.attributes.getInt("axis", 0));
  DType indexType = spec.inputs[1].dtype;
  int64_t count = spec.inputs[1].elements(), bytes = view.inner * static_cast<int64_t>(byteSize(spec.inputs[0].dtype));
  int64_t grain = std::max<int64_t>(1, 4 * kElementGrain / std::max<int64_t>(bytes, 1));
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) -> Status {
    MAESTRO_TRY(checkIndices(call.inputs[1], indexType, count, view.axis, "gather"));
    parallelFor(threads, view.outer * count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t index = wrapIndex(indexAt(call.inputs[1], indexType, i % count), view.axis);
        std::memcpy(at(call.outputs[0], i, bytes), at(call.inputs[0], i / count * view.axis + index, bytes),
                    static_cast<size_t>(bytes));
      }
    });
    return Status();
  });
}

PreparedKernel prepareGatherGrad(const CallSpec &spec, const Loops &loops) {
  int index = floatIndex(spec.inputs[1].dtype);
  if (!isIndex(spec.inputs[0].dtype) || index < 0 || spec.outputs[0].dtype != DType::F32)
    return unsupported();
  AxisView view(spec.outputs[0].shape(), spec.attributes.getInt("axis", 0));
  auto addTo = loops.floats[index].addTo;
  DType indexType = spec.inputs[0].dtype;
  bool accumulate = accumulateMask(spec) & 1;
  int64_t count = spec.inputs[0].elements(), bytes = view.inner * static_cast<int64_t>(byteSize(spec.inputs[1].dtype));
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) -> Status {
    MAESTRO_TRY(checkIndices(call.inputs[0], indexType, count, view.axis, "gather_grad"));
    float *sums = call.output<float>(0);
    int64_t team = view.outer * (count + view.axis) * view.inner < kElementGrain ? 1 : threads;
    parallelFor(static_cast<int>(team), view.axis, 1, [&](int64_t begin, int64_t end) {
      for (int64_t o = 0; o < view.outer; ++o) {
        float *plane = sums + o * view.axis * view.inner;
        if (!accumulate)
          std::fill(plane + begin * view.inner, plane + end * view.inner, 0.0f);
        for (int64_t i = 0; i < count; ++i) {
          int64_t row = wrapIndex(indexAt(call.inputs[0], indexType, i), view.axis);
          if (row >= begin && row < end)
            addTo(plane + row * view.inner, at(call.inputs[1], o * count + i, bytes), view.inner);
        }
      }
    });
    return Status();
  });
}

} // namespace maestro::kernels::cpu
