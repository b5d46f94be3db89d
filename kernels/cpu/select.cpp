// Rows of f32 by indices that are data: the largest elements of a row, elements taken from rows, elements put into
// rows. Only the last axis, and as many rows of indices as of data: what losses over a part of the classes read.
// Indices are checked before any thread starts.
#include "kernels/cpu/prepare.h"
#include "kernels/indices.h"

#include <algorithm>
#include <cstring>

namespace maestro::kernels::cpu {
namespace {

/// Rows of `width` elements of data and `picked` indices each.
struct PickedRows {
  int64_t rows = 0, width = 0, picked = 0;
  DType indexType = DType::I64;
  int64_t grain() const { return std::max<int64_t>(1, kElementGrain / std::max<int64_t>(width, 1)); }
};

/// Nothing where these kernels do not cover it.
bool pickedRows(const CallSpec &spec, const TensorType &data, const TensorType &indices, PickedRows &result) {
  bool isLast = data.rank > 0 && indices.rank == data.rank && spec.attributes.getInt("axis", 0) == data.rank - 1;
  bool isIndex = indices.dtype == DType::I64 || indices.dtype == DType::I32;
  if (!isLast || !isIndex || data.dtype != DType::F32 ||
      !std::ranges::equal(data.shape().first(data.rank - 1), indices.shape().first(data.rank - 1)))
    return false;
  result = {product(data.shape().first(data.rank - 1)), data.shape().back(), indices.shape().back(), indices.dtype};
  return true;
}

int64_t indexAt(const void *indices, DType dtype, int64_t i) {
  return dtype == DType::I64 ? static_cast<const int64_t *>(indices)[i] : static_cast<const int32_t *>(indices)[i];
}

Status checkIndices(const void *indices, const PickedRows &view, std::string_view kernel) {
  for (int64_t i = 0; i < view.rows * view.picked; ++i)
    if (int64_t index = indexAt(indices, view.indexType, i); index < -view.width || index >= view.width)
      return indexError(kernel, index, i, -view.width, view.width);
  return Status();
}

/// A heap of the `k` elements that come first, in the row of indices itself; the last of them on top.
void selectRow(const float *x, int64_t width, int64_t k, bool largest, float *values, int64_t *indices) {
  auto comesBefore = [=](int64_t i, int64_t j) {
    float a = x[i], b = x[j];
    bool aNaN = a != a, bNaN = b != b;
    if (aNaN != bNaN)
      return aNaN == largest;
    if (!aNaN && a != b)
      return largest ? a > b : a < b;
    return i < j;
  };
  for (int64_t i = 0; i < width && k > 0; ++i) {
    if (i >= k && !comesBefore(i, indices[0]))
      continue;
    if (i >= k)
      std::pop_heap(indices, indices + k, comesBefore);
    int64_t held = std::min(i, k - 1);
    indices[held] = i;
    std::push_heap(indices, indices + held + 1, comesBefore);
  }
  std::sort_heap(indices, indices + k, comesBefore);
  for (int64_t i = 0; i < k; ++i)
    values[i] = x[indices[i]];
}

} // namespace

PreparedKernel prepareTopK(const CallSpec &spec, const Loops &) {
  PickedRows view;
  if (!pickedRows(spec, spec.inputs[0], spec.outputs[1], view) || view.indexType != DType::I64)
    return unsupported();
  bool largest = spec.attributes.getInt("largest", 1) != 0;
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) {
    auto *x = static_cast<const float *>(call.inputs[0]);
    auto *indices = static_cast<int64_t *>(call.outputs[1]);
    float *values = call.output<float>(0);
    parallelFor(threads, view.rows, view.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        selectRow(x + r * view.width, view.width, view.picked, largest, values + r * view.picked,
                  indices + r * view.picked);
    });
  });
}

PreparedKernel prepareGatherElements(const CallSpec &spec, const Loops &) {
  PickedRows view;
  if (!pickedRows(spec, spec.inputs[0], spec.inputs[1], view))
    return unsupported();
  return makeKernel(spec, [=](const Operands &call) -> Status {
    MAESTRO_TRY(checkIndices(call.inputs[1], view, "gather_elements"));
    auto *x = static_cast<const float *>(call.inputs[0]);
    for (int64_t i = 0; i < view.rows * view.picked; ++i)
      call.output<float>(0)[i] =
          x[i / view.picked * view.width + wrapIndex(indexAt(call.inputs[1], view.indexType, i), view.width)];
    return Status();
  });
}

/// Reductions other than none and add are rare: the reference library has them.
PreparedKernel prepareScatterElements(const CallSpec &spec, const Loops &) {
  PickedRows view;
  std::string_view reduction = spec.attributes.getText("reduction", "none");
  if (!pickedRows(spec, spec.inputs[0], spec.inputs[1], view) || (reduction != "none" && reduction != "add"))
    return unsupported();
  return makeKernel(spec, [=, adds = reduction == "add", threads = spec.threads](const Operands &call) -> Status {
    MAESTRO_TRY(checkIndices(call.inputs[1], view, "scatter_elements"));
    auto *updates = static_cast<const float *>(call.inputs[2]);
    int64_t bytes = view.width * static_cast<int64_t>(sizeof(float));
    parallelFor(threads, view.rows, view.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        float *row = call.output<float>(0) + r * view.width;
        std::memcpy(row, at(call.inputs[0], r, bytes), static_cast<size_t>(bytes));
        for (int64_t i = r * view.picked; i < (r + 1) * view.picked; ++i) {
          float &element = row[wrapIndex(indexAt(call.inputs[1], view.indexType, i), view.width)];
          element = adds ? element + updates[i] : updates[i];
        }
      }
    });
    return Status();
  });
}

} // namespace maestro::kernels::cpu
