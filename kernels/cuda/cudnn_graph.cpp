#include "kernels/cuda/cudnn_graph.h"

#include <bit>
#include <cstring>

namespace maestro::kernels::cuda {
namespace {

constexpr int64_t kAlignment = 16;

Dims4 dense(const Dims4 &dims) { return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}; }

} // namespace

// ---- descriptors

Descriptor::Descriptor(const Cudnn &library, cudnnBackendDescriptorType_t type, Status &status) : library(&library) {
  if (status.isOk())
    status = library.check(library.cudnnBackendCreateDescriptor(type, &descriptor), "cudnnBackendCreateDescriptor");
}

Descriptor::~Descriptor() {
  if (descriptor)
    (void)library->cudnnBackendDestroyDescriptor(descriptor);
}

void Descriptor::set(Status &status, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                     const void *values) const {
  if (status.isOk())
    status = library->check(library->cudnnBackendSetAttribute(descriptor, name, type, count, values),
                            "cudnnBackendSetAttribute");
}

void Descriptor::finalize(Status &status) const {
  if (status.isOk())
    status = library->check(library->cudnnBackendFinalize(descriptor), "cudnnBackendFinalize");
}

Result<Descriptor> deviceProperties(const Cudnn &library, std::string_view json) {
  Status status;
  Descriptor properties(library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, status);
  properties.set(status, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<int64_t>(json.size()),
                 json.data());
  properties.finalize(status);
  if (!status.isOk())
    return status;
  return properties;
}

// ---- tensors

const Tensor *Graph::add(cudnnDataType_t type, const Dims4 &dims, const Dims4 &strides, int64_t number, bool isVirtual,
                         bool isConstant) {
  Descriptor made(library, CUDNN_BACKEND_TENSOR_DESCRIPTOR, failure);
  made.set(failure, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, number);
  made.set(failure, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  made.set(failure, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims.data());
  made.set(failure, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides.data());
  made.set(failure, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kAlignment);
  made.set(failure, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, isVirtual);
  made.set(failure, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, isConstant);
  made.finalize(failure);
  if (!failure.isOk())
    return nullptr;
  return &tensors.emplace_back(dims, strides, type, std::move(made));
}

const Tensor *Graph::held(cudnnDataType_t type, const Dims4 &dims, const Dims4 &strides) {
  heldNumbers.push_back(static_cast<int64_t>(heldNumbers.size()) + 1);
  return add(type, dims, strides, heldNumbers.back(), false, false);
}

const Tensor *Graph::intermediate(cudnnDataType_t type, const Dims4 &dims) {
  return add(type, dims, dense(dims), lastVirtual++, true, false);
}

const Tensor *Graph::constant(cudnnDataType_t type, int64_t bits) {
  constantNumbers.push_back(kFirstConstant + static_cast<int64_t>(constantNumbers.size()));
  constants.push_back(bits);
  return add(type, {1, 1, 1, 1}, {1, 1, 1, 1}, constantNumbers.back(), false, true);
}
const Tensor *Graph::constant(float value) { return constant(CUDNN_DATA_FLOAT, std::bit_cast<uint32_t>(value)); }
const Tensor *Graph::constant(int32_t value) { return constant(CUDNN_DATA_INT32, static_cast<uint32_t>(value)); }

// ---- operations

Descriptor Graph::operation(cudnnBackendDescriptorType_t type) { return Descriptor(library, type, failure); }

void Graph::finish(Descriptor made) {
  made.finalize(failure);
  operations.push_back(std::move(made));
}

const Tensor *Graph::matmul(const Tensor *a, const Tensor *b, const Dims4 &dims, const Tensor *result,
                            cudnnDataType_t type) {
  if (!result)
    result = intermediate(type, dims);
  if (!failure.isOk())
    return nullptr;
  Descriptor how = operation(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  how.set(failure, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  how.finalize(failure);
  Descriptor made = operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  made.set(failure, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a->descriptor);
  made.set(failure, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b->descriptor);
  made.set(failure, CUDNN_ATTR_OPERATION_MATMUL_CDESC, result->descriptor);
  made.set(failure, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  parts.push_back(std::move(how));
  finish(std::move(made));
  return result;
}

const Tensor *Graph::pointwise(cudnnPointwiseMode_t mode, std::initializer_list<const Tensor *> operands,
                               const Tensor *result, cudnnDataType_t type, cudnnDataType_t compute, int64_t dim) {
  if (!failure.isOk())
    return nullptr;
  if (!result)
    result = intermediate(type, (*operands.begin())->dims);
  if (!failure.isOk())
    return nullptr;
  Descriptor how = operation(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(failure, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  how.set(failure, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, compute);
  if (mode == CUDNN_POINTWISE_GEN_INDEX)
    how.set(failure, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, dim);
  how.finalize(failure);
  Descriptor made = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(failure, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  constexpr cudnnBackendAttributeName_t kOperands[] = {
      CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  for (size_t i = 0; i < operands.size(); ++i)
    made.set(failure, kOperands[i], operands.begin()[i]->descriptor);
  made.set(failure, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, result->descriptor);
  parts.push_back(std::move(how));
  finish(std::move(made));
  return result;
}
const Tensor *Graph::pointwise(cudnnPointwiseMode_t mode, std::initializer_list<const Tensor *> operands,
                               const Tensor *result) {
  return pointwise(mode, operands, result, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, 0);
}
const Tensor *Graph::pointwise(cudnnPointwiseMode_t mode, std::initializer_list<const Tensor *> operands,
                               cudnnDataType_t type) {
  return pointwise(mode, operands, nullptr, type, type, 0);
}
const Tensor *Graph::quotient(const Tensor *x, const Tensor *y, cudnnDataType_t type) {
  return pointwise(CUDNN_POINTWISE_DIV, {x, y}, nullptr, type, CUDNN_DATA_FLOAT, 0);
}
const Tensor *Graph::places(const Tensor *like, int64_t dim) {
  return pointwise(CUDNN_POINTWISE_GEN_INDEX, {like}, nullptr, CUDNN_DATA_INT32, CUDNN_DATA_FLOAT, dim);
}

const Tensor *Graph::reduce(cudnnReduceTensorOp_t how, const Tensor *x, const Dims4 &dims, const Tensor *result) {
  if (!result)
    result = intermediate(CUDNN_DATA_FLOAT, dims);
  if (!failure.isOk())
    return nullptr;
  Descriptor reduction = operation(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.set(failure, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, how);
  reduction.set(failure, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  reduction.finalize(failure);
  Descriptor made = operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  made.set(failure, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x->descriptor);
  made.set(failure, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, result->descriptor);
  made.set(failure, CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
  parts.push_back(std::move(reduction));
  finish(std::move(made));
  return result;
}

const Tensor *Graph::transpose(const Tensor *x, cudnnDataType_t type) {
  if (!failure.isOk())
    return nullptr;
  const Tensor *result = add(type, {x->dims[0], x->dims[1], x->dims[3], x->dims[2]},
                             {x->strides[0], x->strides[1], x->strides[3], x->strides[2]}, lastVirtual++, true, false);
  if (!failure.isOk())
    return nullptr;
  Descriptor made = operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  made.set(failure, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x->descriptor);
  made.set(failure, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, result->descriptor);
  finish(std::move(made));
  return result;
}

// ---- plans

Result<Plan> Graph::plan(const Place &place, const Engine *engine) {
  std::vector<cudnnBackendDescriptor_t> list;
  for (const Descriptor &made : operations)
    list.push_back(made.get());
  Descriptor graph(library, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, failure);
  graph.set(failure, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(list.size()),
            list.data());
  if (place.handle)
    graph.set(failure, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, place.handle);
  graph.finalize(failure);

  std::vector<Descriptor> candidates;
  if (engine) {
    Descriptor chosen(library, CUDNN_BACKEND_ENGINE_DESCRIPTOR, failure);
    chosen.set(failure, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    chosen.set(failure, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, engine->number);
    if (place.properties)
      chosen.set(failure, CUDNN_ATTR_ENGINE_DEVICEPROP, *place.properties);
    chosen.finalize(failure);
    std::vector<cudnnBackendDescriptor_t> knobs;
    for (auto [type, value] : engine->knobs) {
      Descriptor knob(library, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, failure);
      knob.set(failure, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, type);
      knob.set(failure, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, value);
      knob.finalize(failure);
      knobs.push_back(knob.get());
      parts.push_back(std::move(knob));
    }
    Descriptor config(library, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, failure);
    config.set(failure, CUDNN_ATTR_ENGINECFG_ENGINE, chosen);
    config.set(failure, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
               static_cast<int64_t>(knobs.size()), knobs.data());
    config.finalize(failure);
    parts.push_back(std::move(chosen));
    candidates.push_back(std::move(config));
  } else {
    Descriptor heuristics(library, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, failure);
    heuristics.set(failure, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristics.set(failure, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
    if (place.properties)
      heuristics.set(failure, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *place.properties);
    heuristics.finalize(failure);
    int64_t count = 0;
    if (failure.isOk())
      failure = library.check(library.cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
                              "cudnnBackendGetAttribute");
    std::vector<cudnnBackendDescriptor_t> found;
    for (int64_t i = 0; i < count; ++i) {
      candidates.emplace_back(library, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, failure);
      found.push_back(candidates.back().get());
    }
    if (failure.isOk())
      failure =
          library.check(library.cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, found.data()),
                        "cudnnBackendGetAttribute");
  }
  if (!failure.isOk())
    return std::move(failure);

  Status last = Status::unavailable("cuDNN has no engine for this graph");
  for (const Descriptor &config : candidates) {
    Status status;
    Descriptor made(library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, status);
    if (place.properties)
      made.set(status, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *place.properties);
    else
      made.set(status, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, place.handle);
    made.set(status, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    made.finalize(status);
    int64_t bytes = 0, count = 0;
    if (status.isOk())
      status = library.check(library.cudnnBackendGetAttribute(made.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                              CUDNN_TYPE_INT64, 1, &count, &bytes),
                             "cudnnBackendGetAttribute");
    if (!status.isOk()) {
      last = std::move(status);
      continue;
    }
    Plan plan;
    plan.library = &library;
    plan.descriptor = std::move(made);
    plan.workspace = static_cast<size_t>(bytes);
    plan.numbers = std::move(heldNumbers);
    plan.numbers.insert(plan.numbers.end(), constantNumbers.begin(), constantNumbers.end());
    plan.constants = std::move(constants);
    return plan;
  }
  return last;
}

Status Plan::execute(cudnnHandle_t handle, std::span<void *const> pointers, void *memory) const {
  constexpr size_t kMaxTensors = 32;
  std::array<void *, kMaxTensors> all;
  if (numbers.size() > kMaxTensors || pointers.size() + constants.size() != numbers.size())
    return Status::internal("a graph of " + std::to_string(numbers.size()) + " tensors is executed with " +
                            std::to_string(pointers.size()));
  size_t count = 0;
  for (void *pointer : pointers)
    all[count++] = pointer;
  for (const int64_t &value : constants)
    all[count++] = const_cast<int64_t *>(&value);
  Status status;
  Descriptor pack(*library, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, status);
  pack.set(status, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, static_cast<int64_t>(count), numbers.data());
  pack.set(status, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(count), all.data());
  pack.set(status, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, memory);
  pack.finalize(status);
  if (!status.isOk())
    return status;
  return library->check(library->cudnnBackendExecute(handle, descriptor.get(), pack.get()), "cudnnBackendExecute");
}

} // namespace maestro::kernels::cuda
