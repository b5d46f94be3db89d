// A prepared call as launches one after the other, and what families prepare them with.
#pragma once

#include "kernels/cuda/kernel.h"
#include "kernels/cuda/library.h"
#include "kernels/cuda/params.h"
#include "kernels/shape.h"

#include <array>
#include <utility>

namespace maestro::kernels::cuda {

using PreparedKernel = Result<std::unique_ptr<Kernel>>;
inline PreparedKernel unsupported() { return PreparedKernel(nullptr); }

/// The addresses of one run.
struct Operands {
  std::span<const CUdeviceptr> inputs, outputs;
  CUdeviceptr scratch;
  const Launch &launch;

  template <typename T = void> const T *in(size_t i) const {
    return i < inputs.size() ? reinterpret_cast<const T *>(inputs[i]) : nullptr;
  }
  template <typename T = void> T *out(size_t i) const {
    return i < outputs.size() ? reinterpret_cast<T *>(outputs[i]) : nullptr;
  }
  template <typename T = void> T *scratchAt(size_t offset) const { return reinterpret_cast<T *>(scratch + offset); }
  Report report() const { return {reinterpret_cast<Failure *>(launch.failure), launch.call}; }
};

/// Launches in order. What one leaves in scratch memory the next may read.
class Sequence : public Kernel {
public:
  explicit Sequence(const Functions &functions) : functions(functions) {}

  /// `bind(params, operands)` fills in the addresses of a run. A grid without blocks is no launch.
  template <typename Params, typename Bind>
  Status add(const std::string &name, Grid grid, const Params &params, Bind bind, size_t sharedBytes = 0) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0)
      return Status();
    MAESTRO_TRY(checkGrid(name, grid));
    MAESTRO_ASSIGN(CUfunction function, functions.find(name));
    steps.push_back(std::make_unique<TypedStep<Params, Bind>>(function, grid, sharedBytes, params, std::move(bind)));
    return Status();
  }
  /// Another prepared call whose operands and result lie in this one's scratch memory, at these offsets.
  void add(std::unique_ptr<Kernel> kernel, std::array<size_t, 2> inputs, size_t output) {
    nested = std::max(nested, kernel->scratchBytes());
    steps.push_back(std::make_unique<NestedStep>(std::move(kernel), inputs, output, scratch));
  }
  /// Returns the offset of `bytes` more bytes of scratch memory.
  size_t reserve(size_t bytes) {
    size_t offset = scratch;
    scratch += (bytes + 255) & ~size_t{255};
    return offset;
  }

  Status enqueue(const Launch &launch, std::span<const CUdeviceptr> inputs, std::span<const CUdeviceptr> outputs,
                 CUdeviceptr memory) override {
    Operands operands{inputs, outputs, memory, launch};
    for (const auto &step : steps)
      MAESTRO_TRY(step->enqueue(functions, operands));
    return Status();
  }
  size_t scratchBytes() const override { return scratch + nested; }

private:
  struct Step {
    virtual ~Step() = default;
    virtual Status enqueue(const Functions &functions, const Operands &operands) = 0;
  };
  template <typename Params, typename Bind> struct TypedStep : Step {
    CUfunction function;
    Grid grid;
    size_t sharedBytes;
    Params params;
    Bind bind;
    TypedStep(CUfunction function, Grid grid, size_t sharedBytes, const Params &params, Bind bind)
        : function(function), grid(grid), sharedBytes(sharedBytes), params(params), bind(std::move(bind)) {}
    Status enqueue(const Functions &functions, const Operands &operands) override {
      bind(params, operands);
      return functions.launch(function, grid, kBlock, sharedBytes, operands.launch.stream, &params);
    }
  };
  struct NestedStep : Step {
    std::unique_ptr<Kernel> kernel;
    std::array<size_t, 2> inputs;
    size_t output;
    const size_t &scratch; ///< Where the sequence's own ends, once it is complete.
    NestedStep(std::unique_ptr<Kernel> kernel, std::array<size_t, 2> inputs, size_t output, const size_t &scratch)
        : kernel(std::move(kernel)), inputs(inputs), output(output), scratch(scratch) {}
    Status enqueue(const Functions &, const Operands &operands) override {
      CUdeviceptr in[] = {operands.scratch + inputs[0], operands.scratch + inputs[1]};
      CUdeviceptr out[] = {operands.scratch + output};
      return kernel->enqueue(operands.launch, in, out, operands.scratch + scratch);
    }
  };
  static Status checkGrid(const std::string &name, Grid grid);

  const Functions &functions;
  std::vector<std::unique_ptr<Step>> steps;
  size_t scratch = 0; ///< Of its own launches,
  size_t nested = 0;  ///< and behind it the largest nested call's.
};

inline PreparedKernel prepared(std::unique_ptr<Sequence> sequence) { return PreparedKernel(std::move(sequence)); }

/// What prepares a family's calls.
struct Call {
  const CallSpec &spec;
  const Functions &functions;
  const Library &library; ///< For calls that one consists of.

  const TensorType &in(size_t i) const { return spec.inputs[i]; }
  const TensorType &out(size_t i) const { return spec.outputs[i]; }
  bool hasIn(size_t i) const { return i < spec.inputs.size() && spec.inputs[i].present; }
  bool hasOut(size_t i) const { return i < spec.outputs.size() && spec.outputs[i].present; }
  const Attributes &attributes() const { return spec.attributes; }
  std::unique_ptr<Sequence> sequence() const { return std::make_unique<Sequence>(functions); }
};

/// Blocks of kBlock threads for `count` threads. Beyond what one dimension of a grid takes, checkGrid() refuses.
inline Grid blocksFor(int64_t count) {
  int64_t blocks = (count + kBlock - 1) / kBlock;
  return {static_cast<unsigned>(std::min<int64_t>(blocks, UINT32_MAX))};
}

/// "f32" or "bf16": the types that kernels are compiled for; null otherwise.
inline const char *fastSuffix(DType dtype) {
  return dtype == DType::F32 ? "f32" : dtype == DType::BF16 ? "bf16" : nullptr;
}

/// "f64", "f32" or "integer": what kernels that are compiled for few types compute in.
inline const char *computedAs(DType dtype) { return dtype == DType::F64 ? "f64" : isFloat(dtype) ? "f32" : "integer"; }

inline AnyTensor anyTensor(const TensorType &type) { return {nullptr, type.present ? type.dtype : DType::F32}; }
inline void *address(const void *data) { return const_cast<void *>(data); }
inline bool aligned(const void *data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

/// `strides[k]`: those of tensor k in `shape`. Dims of size 1 are dropped, neighbours that all tensors walk through as
/// one are joined.
template <int N> Strided<N> joinDims(std::span<const int64_t> shape, const std::array<Dims, N> &strides) {
  Strided<N> map;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1)
      continue;
    bool joins = map.rank > 0;
    for (int k = 0; k < N && joins; ++k)
      joins = map.strides[k][map.rank - 1] == strides[k][d] * shape[d];
    if (!joins)
      map.dims[map.rank++] = 1;
    map.dims[map.rank - 1] *= shape[d];
    for (int k = 0; k < N; ++k)
      map.strides[k][map.rank - 1] = strides[k][d];
  }
  map.narrow = product(shape) <= INT64_C(0xffffffff);
  return map;
}

/// The strides of `from` broadcast to `to`.
inline Dims broadcastStrides(std::span<const int64_t> from, std::span<const int64_t> to) {
  Dims dense = denseStrides(from), strides{};
  for (size_t i = 0; i < from.size(); ++i)
    strides[to.size() - from.size() + i] = from[i] == 1 ? 0 : dense[i];
  return strides;
}

/// Whether `width` elements at a time are neighbours, at aligned places, or one and the same in each tensor.
template <int N> bool packs(const Strided<N> &map, int64_t width) {
  if (map.rank == 0 || map.dims[map.rank - 1] % width)
    return false;
  for (int k = 0; k < N; ++k) {
    if (map.strides[k][map.rank - 1] > 1 || map.strides[k][map.rank - 1] < 0)
      return false;
    for (int d = 0; d + 1 < map.rank && map.strides[k][map.rank - 1] == 1; ++d)
      if (map.strides[k][d] % width)
        return false;
    if (map.strides[k][map.rank - 1] == 1 && map.starts[k] % width)
      return false;
  }
  return true;
}

} // namespace maestro::kernels::cuda
