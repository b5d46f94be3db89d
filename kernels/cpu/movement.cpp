// Moving data: every such operator is one or more strided copies.
#include "kernels/cpu/movement.h"

#include "kernels/cpu/prepare.h"

#include <cstring>

namespace maestro::kernels::cpu {
namespace {

constexpr int64_t kTile = 32; ///< Rows and columns of a transposition that stay in the first cache.

template <typename T> void copyLine(T *to, const T *from, int64_t n, int64_t toStride, int64_t fromStride) {
  if (toStride == 1 && fromStride == 0)
    std::fill_n(to, n, *from);
  else if (toStride == 1)
    for (int64_t i = 0; i < n; ++i)
      to[i] = from[i * fromStride];
  else
    for (int64_t i = 0; i < n; ++i)
      to[i * toStride] = from[i * fromStride];
}

/// to[r·toRow + c] = from[r + c·fromColumn]: neighbours in memory lie in different dims.
template <typename T>
void transposeTiles(T *to, const T *from, int64_t rows, int64_t columns, int64_t toRow, int64_t fromColumn) {
  for (int64_t c0 = 0; c0 < columns; c0 += kTile)
    for (int64_t r0 = 0; r0 < rows; r0 += kTile)
      for (int64_t r = r0, rEnd = std::min(r0 + kTile, rows); r < rEnd; ++r)
        for (int64_t c = c0, cEnd = std::min(c0 + kTile, columns); c < cEnd; ++c)
          to[r * toRow + c] = from[r + c * fromColumn];
}

} // namespace

StridedCopy::StridedCopy(std::span<const int64_t> shape, const Dims &toStrides, const Dims &fromStrides,
                         int64_t elementBytes)
    : bytes(elementBytes), count(product(shape)) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1)
      continue;
    bool merges = rank > 0 && to[rank - 1] == toStrides[i] * shape[i] && from[rank - 1] == fromStrides[i] * shape[i];
    int place = merges ? rank - 1 : rank++;
    dims[place] = merges ? dims[place] * shape[i] : shape[i];
    to[place] = toStrides[i];
    from[place] = fromStrides[i];
  }
  if (rank == 0) {
    dims[0] = 1;
    to[0] = from[0] = 1;
    rank = 1;
  }
  chooseInner();
}

/// A block of one or two dims is copied by one call; the others are looped over.
void StridedCopy::chooseInner() {
  int last = rank - 1;
  innerDims = 1;
  if (rank > 1 && to[last] == 1 && from[last] != 1 && from[last] != 0)
    for (int d = last - 1; d >= 0; --d)
      if (from[d] == 1) { // Dim d runs along memory in the source: transpose d and the last dim.
        for (int i = d; i + 1 < last; ++i) {
          std::swap(dims[i], dims[i + 1]);
          std::swap(to[i], to[i + 1]);
          std::swap(from[i], from[i + 1]);
        }
        innerDims = 2;
        break;
      }
  outer = 1;
  for (int i = 0; i < rank - innerDims; ++i)
    outer *= dims[i];
}

template <typename T> void StridedCopy::copyBlock(T *target, const T *source) const {
  int last = rank - 1;
  if (innerDims == 2)
    transposeTiles(target, source, dims[last - 1], dims[last], to[last - 1], from[last]);
  else if (to[last] == 1 && from[last] == 1)
    std::memcpy(target, source, static_cast<size_t>(dims[last]) * sizeof(T));
  else
    copyLine(target, source, dims[last], to[last], from[last]);
}

/// Blocks [begin, end), stepping through the outer dims like an odometer.
template <typename T>
void StridedCopy::copyBlocks(void *toBase, const void *fromBase, int64_t begin, int64_t end) const {
  T *target = static_cast<T *>(toBase);
  const T *source = static_cast<const T *>(fromBase);
  int outerDims = rank - innerDims;
  Dims index{};
  int64_t rest = begin;
  for (int i = outerDims - 1; i >= 0; rest /= dims[i--]) {
    index[i] = rest % dims[i];
    target += index[i] * to[i];
    source += index[i] * from[i];
  }
  for (int64_t block = begin; block < end; ++block) {
    copyBlock(target, source);
    for (int i = outerDims - 1; i >= 0; --i) {
      target += to[i];
      source += from[i];
      if (++index[i] < dims[i])
        break;
      target -= dims[i] * to[i];
      source -= dims[i] * from[i];
      index[i] = 0;
    }
  }
}

void StridedCopy::run(void *toBase, const void *fromBase, int threads) const {
  if (count == 0)
    return;
  if (outer == 1 && innerDims == 1 && to[rank - 1] == 1 && from[rank - 1] == 1) {
    parallelFor(threads, dims[rank - 1], 4 * kElementGrain / bytes, [&](int64_t begin, int64_t end) {
      std::memcpy(at(toBase, begin, bytes), at(fromBase, begin, bytes), static_cast<size_t>((end - begin) * bytes));
    });
    return;
  }
  int64_t perBlock = std::max<int64_t>(1, count / outer);
  parallelFor(threads, outer, std::max<int64_t>(1, kElementGrain / perBlock), [&](int64_t begin, int64_t end) {
    switch (bytes) {
    case 1:
      return copyBlocks<uint8_t>(toBase, fromBase, begin, end);
    case 2:
      return copyBlocks<uint16_t>(toBase, fromBase, begin, end);
    case 4:
      return copyBlocks<uint32_t>(toBase, fromBase, begin, end);
    default:
      return copyBlocks<uint64_t>(toBase, fromBase, begin, end);
    }
  });
}

namespace {

int64_t elementBytes(const CallSpec &spec) { return static_cast<int64_t>(byteSize(spec.outputs[0].dtype)); }

/// A strided part of `whole`: strides and the offset of its first element.
struct Part {
  Dims strides{};
  int64_t offset = 0;
  Part(const CallSpec &spec, const TensorType &whole) {
    auto offsets = spec.attributes.getInts("offsets"), steps = spec.attributes.getInts("steps");
    Dims dense = denseStrides(whole.shape());
    for (int i = 0; i < whole.rank; ++i) {
      offset += offsets[i] * dense[i];
      strides[i] = (steps.empty() ? 1 : steps[i]) * dense[i];
    }
  }
};

PreparedKernel makeCopyFrom(const CallSpec &spec, const Dims &fromStrides, int64_t offset) {
  int64_t bytes = elementBytes(spec);
  StridedCopy copy(spec.outputs[0].shape(), denseStrides(spec.outputs[0].shape()), fromStrides, bytes);
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) {
    copy.run(call.outputs[0], at(call.inputs[0], offset, bytes), threads);
  });
}

/// The bytes of `value` as one element of `dtype`.
uint64_t elementPattern(DType dtype, double value) {
  uint64_t pattern = 0;
  auto put = [&](auto element) { std::memcpy(&pattern, &element, sizeof element); };
  switch (dtype) {
  case DType::F32:
    put(static_cast<float>(value));
    break;
  case DType::F64:
    put(value);
    break;
  case DType::BF16:
    put(BFloat16(static_cast<float>(value)));
    break;
  case DType::F16:
    put(floatToHalf(static_cast<float>(value)));
    break;
  case DType::Bool:
    put(static_cast<uint8_t>(value != 0));
    break;
  default:
    put(static_cast<int64_t>(value)); // Little-endian: narrower integers are its first bytes.
  }
  return pattern;
}

void fillElements(void *data, int64_t count, int64_t bytes, uint64_t pattern, int threads) {
  parallelFor(threads, count, kElementGrain, [&](int64_t begin, int64_t end) {
    void *part = at(data, begin, bytes);
    int64_t n = end - begin;
    if (pattern == 0)
      std::memset(part, 0, static_cast<size_t>(n * bytes));
    else if (bytes == 1)
      std::memset(part, static_cast<int>(pattern & 0xff), static_cast<size_t>(n));
    else if (bytes == 2)
      std::fill_n(static_cast<uint16_t *>(part), n, static_cast<uint16_t>(pattern));
    else if (bytes == 4)
      std::fill_n(static_cast<uint32_t *>(part), n, static_cast<uint32_t>(pattern));
    else
      std::fill_n(static_cast<uint64_t *>(part), n, pattern);
  });
}

} // namespace

PreparedKernel prepareCopy(const CallSpec &spec, const Loops &loops) {
  if (spec.inputs[0].dtype == spec.outputs[0].dtype)
    return makeCopyFrom(spec, denseStrides(spec.outputs[0].shape()), 0);
  CallSpec cast = spec;
  cast.kernel = "cast";
  return prepareUnary(cast, loops);
}

PreparedKernel prepareFill(const CallSpec &spec, const Loops &) {
  uint64_t pattern = elementPattern(spec.outputs[0].dtype, spec.attributes.getFloat("value", 0));
  int64_t count = spec.outputs[0].elements(), bytes = elementBytes(spec);
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) {
    fillElements(call.outputs[0], count, bytes, pattern, threads);
  });
}

PreparedKernel prepareTranspose(const CallSpec &spec, const Loops &) {
  auto permutation = spec.attributes.getInts("permutation");
  Dims dense = denseStrides(spec.inputs[0].shape()), strides{};
  for (size_t i = 0; i < permutation.size(); ++i)
    strides[i] = dense[permutation[i]];
  return makeCopyFrom(spec, strides, 0);
}

PreparedKernel prepareBroadcastTo(const CallSpec &spec, const Loops &) {
  const TensorType &x = spec.inputs[0];
  Dims dense = denseStrides(x.shape()), strides{};
  int lead = spec.outputs[0].rank - x.rank;
  for (int i = 0; i < x.rank; ++i)
    strides[lead + i] = x.dims[i] == 1 ? 0 : dense[i];
  return makeCopyFrom(spec, strides, 0);
}

PreparedKernel prepareSlice(const CallSpec &spec, const Loops &) {
  Part part(spec, spec.inputs[0]);
  return makeCopyFrom(spec, part.strides, part.offset);
}

PreparedKernel prepareConcat(const CallSpec &spec, const Loops &) {
  int64_t axis = spec.attributes.getInt("axis", 0), bytes = elementBytes(spec), start = 0;
  Dims whole = denseStrides(spec.outputs[0].shape());
  std::vector<StridedCopy> copies;
  std::vector<int64_t> offsets;
  for (const TensorType &part : spec.inputs) {
    copies.emplace_back(part.shape(), whole, denseStrides(part.shape()), bytes);
    offsets.push_back(start * whole[axis]);
    start += part.dims[axis];
  }
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) {
    for (size_t i = 0; i < copies.size(); ++i)
      copies[i].run(at(call.outputs[0], offsets[i], bytes), call.inputs[i], threads);
  });
}

PreparedKernel prepareSliceGrad(const CallSpec &spec, const Loops &) {
  Part part(spec, spec.outputs[0]);
  int64_t bytes = elementBytes(spec), count = spec.outputs[0].elements();
  StridedCopy copy(spec.inputs[0].shape(), part.strides, denseStrides(spec.inputs[0].shape()), bytes);
  bool covers = spec.inputs[0].elements() == count;
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) {
    if (!covers)
      fillElements(call.outputs[0], count, bytes, 0, threads);
    copy.run(at(call.outputs[0], part.offset, bytes), call.inputs[0], threads);
  });
}

PreparedKernel preparePad(const CallSpec &spec, const Loops &) {
  if (spec.attributes.getText("mode", "constant") != "constant")
    return unsupported();
  auto low = spec.attributes.getInts("low");
  Dims whole = denseStrides(spec.outputs[0].shape());
  int64_t offset = 0, bytes = elementBytes(spec), count = spec.outputs[0].elements();
  for (int i = 0; i < spec.outputs[0].rank; ++i)
    offset += low[i] * whole[i];
  uint64_t pattern = elementPattern(spec.outputs[0].dtype, spec.attributes.getFloat("value", 0));
  StridedCopy copy(spec.inputs[0].shape(), whole, denseStrides(spec.inputs[0].shape()), bytes);
  return makeKernel(spec, [=, threads = spec.threads](const Operands &call) {
    fillElements(call.outputs[0], count, bytes, pattern, threads);
    copy.run(at(call.outputs[0], offset, bytes), call.inputs[0], threads);
  });
}

} // namespace maestro::kernels::cpu
