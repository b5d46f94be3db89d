// A graph of cuDNN's operations: tensors, what is computed of them, and the plan that the library makes of the whole.
//
//   Graph graph(library);
//   const Tensor *s = graph.matmul(q, k, {b, h, n, m});     // null behind a failure, which status() keeps
//   graph.pointwise(CUDNN_POINTWISE_EXP, {s}, &result);
//   Plan plan = *graph.plan(place);
//   plan.execute(handle, pointers, workspace);
//
// Tensors have four dims. Those that somebody else holds have numbers, by which execute() finds their addresses; all
// others are never in memory.
#pragma once

#include "cuda/cudnn.h"

#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

namespace maestro::kernels::cuda {

using maestro::cuda::Cudnn;
using Dims4 = std::array<int64_t, 4>;

/// A descriptor of the library's, destroyed with this.
class Descriptor {
public:
  Descriptor() = default;
  Descriptor(const Cudnn &library, cudnnBackendDescriptorType_t type, Status &status);
  Descriptor(Descriptor &&other) noexcept
      : library(other.library), descriptor(std::exchange(other.descriptor, nullptr)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(library, other.library);
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~Descriptor();

  cudnnBackendDescriptor_t get() const { return descriptor; }
  /// Nothing behind a failure, which `status` keeps.
  void set(Status &status, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
           const void *values) const;
  template <typename T>
  void set(Status &status, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T &value) const {
    set(status, name, type, 1, &value);
  }
  void set(Status &status, cudnnBackendAttributeName_t name, const Descriptor &value) const {
    set(status, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.descriptor);
  }
  void finalize(Status &status) const;

private:
  const Cudnn *library = nullptr;
  cudnnBackendDescriptor_t descriptor = nullptr;
};

struct Tensor {
  Dims4 dims, strides;
  cudnnDataType_t type;
  Descriptor descriptor;
};

/// Which device a graph is planned for: that of a handle, or one that is described, of which none need be here.
struct Place {
  cudnnHandle_t handle = nullptr;
  const Descriptor *properties = nullptr;
};

/// A device's properties from cuDNN's description of them, a JSON text.
Result<Descriptor> deviceProperties(const Cudnn &library, std::string_view json);

/// Settings that replace the library's own choice.
struct Engine {
  int64_t number;
  std::initializer_list<std::pair<cudnnBackendKnobType_t, int64_t>> knobs;
};

/// What a graph becomes on a device.
class Plan {
public:
  /// `pointers`: by number, from 1. Neither waits nor keeps anything.
  Status execute(cudnnHandle_t handle, std::span<void *const> pointers, void *workspace) const;
  size_t workspaceBytes() const { return workspace; }

private:
  friend class Graph;
  const Cudnn *library = nullptr;
  Descriptor descriptor;
  size_t workspace = 0;
  std::vector<int64_t> numbers;  ///< Of pointers, then of `constants`.
  std::deque<int64_t> constants; ///< Each a float or an int32; by their addresses.
};

class Graph {
public:
  explicit Graph(const Cudnn &library) : library(library) {}

  /// A tensor that somebody holds; its number is one more than the last one's.
  const Tensor *held(cudnnDataType_t type, const Dims4 &dims, const Dims4 &strides);
  const Tensor *constant(float value);
  const Tensor *constant(int32_t value);

  /// Of matrices in the last two dims; heads of b may be shared by several of a.
  const Tensor *matmul(const Tensor *a, const Tensor *b, const Dims4 &dims, const Tensor *result = nullptr,
                       cudnnDataType_t type = CUDNN_DATA_FLOAT);
  /// One or two operands and, to choose between them, a third. The result's dims are the first one's.
  const Tensor *pointwise(cudnnPointwiseMode_t mode, std::initializer_list<const Tensor *> operands,
                          const Tensor *result = nullptr);
  /// x ÷ y of f32, in another type.
  const Tensor *quotient(const Tensor *x, const Tensor *y, cudnnDataType_t type);
  /// Of integers and truth values.
  const Tensor *pointwise(cudnnPointwiseMode_t mode, std::initializer_list<const Tensor *> operands,
                          cudnnDataType_t type);
  /// Each element's place in a dim, as an int32.
  const Tensor *places(const Tensor *like, int64_t dim);
  const Tensor *reduce(cudnnReduceTensorOp_t operation, const Tensor *x, const Dims4 &dims,
                       const Tensor *result = nullptr);
  /// The last two dims exchanged.
  const Tensor *transpose(const Tensor *x, cudnnDataType_t type);

  const Status &status() const { return failure; }
  /// Unavailable where the library has no engine for such a graph. Takes a second and more.
  Result<Plan> plan(const Place &place, const Engine *engine = nullptr);

private:
  const Tensor *add(cudnnDataType_t type, const Dims4 &dims, const Dims4 &strides, int64_t number, bool isVirtual,
                    bool isConstant);
  const Tensor *intermediate(cudnnDataType_t type, const Dims4 &dims);
  const Tensor *constant(cudnnDataType_t type, int64_t bits);
  const Tensor *pointwise(cudnnPointwiseMode_t mode, std::initializer_list<const Tensor *> operands,
                          const Tensor *result, cudnnDataType_t type, cudnnDataType_t compute, int64_t dim);
  Descriptor operation(cudnnBackendDescriptorType_t type);
  void finish(Descriptor operation);

  const Cudnn &library;
  Status failure;
  std::deque<Tensor> tensors;
  std::vector<Descriptor> parts; ///< What operations refer to.
  std::vector<Descriptor> operations;
  std::vector<int64_t> heldNumbers, constantNumbers;
  std::deque<int64_t> constants;
  int64_t lastVirtual = kFirstVirtual;

  static constexpr int64_t kFirstConstant = 1000, kFirstVirtual = 2000;
};

} // namespace maestro::kernels::cuda
