// cuDNN without a GPU: libcudnn.so.9 with the real one's ABI of descriptors, which evaluates the graph that it is given
// on the host, as a kernel on a stream of the fake driver, and refuses what the real one refuses or would silently do
// wrong: operands without alignment, a missing workspace, addresses that are not the graph's.
//
// MAESTRO_FAKE_CUDNN_VERSION: another version. MAESTRO_FAKE_CUDNN_REFUSES: no graph has an engine.
#include "kernels/cuda/host/grid.h"
#include "test/cuda/fake/cudnn_values.h"
#include "test/cuda/fake/kernels.h"

#include <cuda.h>

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

using namespace maestro::cuda::fake;
namespace host = maestro::kernels::cuda::host;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

constexpr size_t kVersion = 92600, kOrdered = 92500;
constexpr int64_t kOrderedEngine = 6;

/// What was set, and once it is final what was made of it.
struct Descriptor {
  struct Value {
    cudnnBackendAttributeType_t type;
    std::vector<std::byte> bytes;
  };
  cudnnBackendDescriptorType_t kind;
  std::map<cudnnBackendAttributeName_t, Value> values;
  bool isFinal = false;
  std::shared_ptr<Tensor> tensor;
  std::shared_ptr<const Program> program; ///< Of a graph and of all that is made of it.
};

Descriptor &descriptorOf(void *handle) { return *static_cast<Descriptor *>(handle); }

std::mutex lastMutex;
std::string lastError;

cudnnStatus_t refuse(const std::string &why, cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM) {
  std::lock_guard lock(lastMutex);
  lastError = why;
  return status;
}

size_t bytesOf(cudnnBackendAttributeType_t type) {
  switch (type) {
  case CUDNN_TYPE_BOOLEAN:
  case CUDNN_TYPE_CHAR:
    return 1;
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR:
  case CUDNN_TYPE_HANDLE:
    return 8;
  default:
    return 4; // Enums.
  }
}

template <typename T> std::vector<T> listOf(const Descriptor &from, cudnnBackendAttributeName_t name) {
  auto found = from.values.find(name);
  std::vector<T> list(found == from.values.end() ? 0 : found->second.bytes.size() / sizeof(T));
  if (!list.empty())
    std::memcpy(list.data(), found->second.bytes.data(), list.size() * sizeof(T));
  return list;
}
template <typename T> T valueOf(const Descriptor &from, cudnnBackendAttributeName_t name, T otherwise) {
  std::vector<T> list = listOf<T>(from, name);
  return list.empty() ? otherwise : list[0];
}
const Descriptor *partOf(const Descriptor &from, cudnnBackendAttributeName_t name) {
  return static_cast<const Descriptor *>(valueOf<cudnnBackendDescriptor_t>(from, name, nullptr));
}

cudnnStatus_t finalizeTensor(Descriptor &made) {
  auto tensor = std::make_shared<Tensor>();
  auto dims = listOf<int64_t>(made, CUDNN_ATTR_TENSOR_DIMENSIONS),
       strides = listOf<int64_t>(made, CUDNN_ATTR_TENSOR_STRIDES);
  if (dims.size() != 4 || strides.size() != 4 || std::ranges::any_of(dims, [](int64_t dim) { return dim < 1; }))
    return refuse("a tensor without four dims");
  std::ranges::copy(dims, tensor->dims.begin());
  std::ranges::copy(strides, tensor->strides.begin());
  tensor->number = valueOf<int64_t>(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, -1);
  tensor->type = valueOf(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  tensor->alignment = valueOf<int64_t>(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0);
  tensor->isVirtual = valueOf<uint8_t>(made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0;
  tensor->isConstant = valueOf<uint8_t>(made, CUDNN_ATTR_TENSOR_IS_BY_VALUE, 0) != 0;
  made.tensor = std::move(tensor);
  return CUDNN_STATUS_SUCCESS;
}

/// What an operation's descriptor says: how, operands, result.
struct OperationNames {
  cudnnBackendDescriptorType_t kind;
  std::vector<cudnnBackendAttributeName_t> operands;
  cudnnBackendAttributeName_t result, how, mode;
};
const std::vector<OperationNames> &operationNames() {
  static const std::vector<OperationNames> names = {
      {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC},
       CUDNN_ATTR_OPERATION_MATMUL_CDESC,
       CUDNN_ATTR_OPERATION_MATMUL_DESC,
       CUDNN_ATTR_MATMUL_COMP_TYPE},
      {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
        CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
       CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
       CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
       CUDNN_ATTR_POINTWISE_MODE},
      {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_REDUCTION_XDESC},
       CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
       CUDNN_ATTR_OPERATION_REDUCTION_DESC,
       CUDNN_ATTR_REDUCTION_OPERATOR},
      {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
       {CUDNN_ATTR_OPERATION_RESHAPE_XDESC},
       CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
       CUDNN_ATTR_OPERATION_RESHAPE_XDESC,
       CUDNN_ATTR_TENSOR_UNIQUE_ID}};
  return names;
}

/// As the real library's: scores' gradients are kept where several results are made of them and none is a sum in order,
/// and what is added up over heads.
size_t workspaceOf(const Program &program) {
  int64_t scores = 0, heads = 0, results = 0;
  bool isOrdered = false;
  for (const Operation &operation : program.operations) {
    const Tensor &result = program.tensors[operation.result];
    bool isProduct = operation.kind == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
    if (isProduct && result.isVirtual && result.type == CUDNN_DATA_FLOAT)
      scores = std::max(scores, 2 * result.elements());
    if (isProduct && result.isVirtual && result.type == CUDNN_DATA_BFLOAT16)
      heads += 2 * result.elements();
    results += !result.isVirtual && result.type == CUDNN_DATA_BFLOAT16;
    isOrdered |= isProduct && !result.isVirtual && result.type == CUDNN_DATA_FLOAT;
  }
  return static_cast<size_t>((results > 1 && !isOrdered ? scores : 0) + heads) + 256;
}

cudnnStatus_t finalizeGraph(Descriptor &made) {
  auto program = std::make_shared<Program>();
  auto add = [&](const Descriptor *part) {
    auto found = std::ranges::find(program->tensors, part->tensor->number, &Tensor::number);
    if (found == program->tensors.end())
      found = program->tensors.insert(found, *part->tensor);
    return static_cast<size_t>(found - program->tensors.begin());
  };
  for (cudnnBackendDescriptor_t handle : listOf<cudnnBackendDescriptor_t>(made, CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    const Descriptor &described = descriptorOf(handle);
    auto names = std::ranges::find(operationNames(), described.kind, &OperationNames::kind);
    if (names == operationNames().end() || !described.isFinal)
      return refuse("an operation that the fake does not know, or that is not final", CUDNN_STATUS_NOT_SUPPORTED);
    const Descriptor &how = *partOf(described, names->how);
    Operation operation{
        described.kind, valueOf<int>(how, names->mode, 0), valueOf<int64_t>(how, CUDNN_ATTR_POINTWISE_AXIS, 0), {}, 0};
    for (cudnnBackendAttributeName_t name : names->operands)
      if (const Descriptor *operand = partOf(described, name))
        operation.operands.push_back(add(operand));
    const Descriptor *result = partOf(described, names->result);
    if (!result || operation.operands.empty())
      return refuse("an operation without operands or a result");
    operation.result = add(result);
    program->operations.push_back(std::move(operation));
  }
  if (std::string fault = program->fault(); !fault.empty())
    return refuse(fault, CUDNN_STATUS_NOT_SUPPORTED);
  program->workspace = workspaceOf(*program);
  made.program = std::move(program);
  return CUDNN_STATUS_SUCCESS;
}

/// Attention's heads are what the library has engines for.
bool hasEngine(const Program &program) {
  return !std::getenv("MAESTRO_FAKE_CUDNN_REFUSES") && std::ranges::all_of(program.tensors, [](const Tensor &tensor) {
    bool isRows = !tensor.isVirtual && tensor.type == CUDNN_DATA_BFLOAT16 && tensor.strides[3] == 1;
    return !isRows || tensor.strides[2] % 8 == 0;
  });
}

cudnnStatus_t finalize(Descriptor &made) {
  auto inherit = [&](cudnnBackendAttributeName_t name) {
    const Descriptor *from = partOf(made, name);
    if (!from || !from->isFinal)
      return refuse("a part is missing or not final");
    made.program = from->program;
    return CUDNN_STATUS_SUCCESS;
  };
  switch (made.kind) {
  case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    return finalizeTensor(made);
  case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    return finalizeGraph(made);
  case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    return inherit(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
    if (cudnnGetVersion() < kOrdered || valueOf<int64_t>(made, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1) != kOrderedEngine)
      return refuse("an engine that is not there", CUDNN_STATUS_NOT_SUPPORTED);
    return inherit(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
    return inherit(CUDNN_ATTR_ENGINECFG_ENGINE);
  case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
    return inherit(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  default:
    return CUDNN_STATUS_SUCCESS;
  }
}

// ---- execution

struct GraphParams {
  const Program *program;
  const std::vector<void *> *pointers;
  uint8_t *workspace;
  MaestroFakeCudaThreadInGrid threadInGrid;
};

void runGraph(const void *params) {
  const auto &p = *static_cast<const GraphParams *>(params);
  if (p.threadInGrid() != 0)
    return;
  std::memset(p.workspace, 0xee, p.program->workspace);
  p.program->run(*p.pointers);
}

constexpr host::KernelEntry kGraph{"fake_cudnn_graph", sizeof(GraphParams), runGraph};

/// Programs and addresses of all executions: streams come to them later.
struct Kept {
  std::mutex mutex;
  std::deque<std::vector<void *>> pointers;
  std::vector<std::shared_ptr<const Program>> programs;
  std::deque<std::vector<std::byte>> constants;
};
Kept &kept() {
  static auto *all = new Kept();
  return *all;
}

cudnnStatus_t launch(cudaStream_t stream, GraphParams params) {
  void *list[] = {&params};
  if (!stream) {
    params.threadInGrid = host::threadInGrid;
    return host::runGrid(kGraph, {1}, 32, 0, &params).isOk() ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
  }
  void *driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto cuLaunch = driver ? reinterpret_cast<decltype(&::cuLaunchKernel)>(::dlsym(driver, "cuLaunchKernel")) : nullptr;
  if (!cuLaunch)
    return refuse("a stream, and no driver", CUDNN_STATUS_NOT_INITIALIZED);
  params.threadInGrid =
      reinterpret_cast<MaestroFakeCudaThreadInGrid>(::dlsym(driver, MAESTRO_FAKE_CUDA_THREAD_IN_GRID));
  auto function = reinterpret_cast<CUfunction>(const_cast<host::KernelEntry *>(&kGraph));
  bool launched =
      cuLaunch(function, 1, 1, 1, 32, 1, 1, 0, reinterpret_cast<CUstream>(stream), list, nullptr) == CUDA_SUCCESS;
  return launched ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

} // namespace

size_t cudnnGetVersion() {
  const char *wanted = std::getenv("MAESTRO_FAKE_CUDNN_VERSION");
  return wanted ? std::strtoull(wanted, nullptr, 10) : kVersion;
}
const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}
void cudnnGetLastErrorString(char *text, size_t bytes) {
  std::lock_guard lock(lastMutex);
  std::snprintf(text, bytes, "%s", lastError.c_str());
}
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  *handle = new cudnnContext();
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind, cudnnBackendDescriptor_t *descriptor) {
  *descriptor = new Descriptor{kind, {}, false, nullptr, nullptr};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Descriptor *>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *values) {
  Descriptor &own = descriptorOf(descriptor);
  if (own.isFinal)
    return refuse("an attribute of what is final", CUDNN_STATUS_NOT_INITIALIZED);
  auto bytes = static_cast<const std::byte *>(values);
  own.values[name] = {type, {bytes, bytes + static_cast<size_t>(count) * bytesOf(type)}};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Descriptor &own = descriptorOf(descriptor);
  cudnnStatus_t status = finalize(own);
  own.isFinal = status == CUDNN_STATUS_SUCCESS;
  return status;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t wanted, int64_t *count, void *values) {
  const Descriptor &own = descriptorOf(descriptor);
  if (!own.isFinal)
    return refuse("what is not final", CUDNN_STATUS_NOT_INITIALIZED);
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    *static_cast<int64_t *>(values) = static_cast<int64_t>(own.program->workspace);
    return CUDNN_STATUS_SUCCESS;
  }
  if (name != CUDNN_ATTR_ENGINEHEUR_RESULTS)
    return refuse("an attribute that the fake does not know");
  *count = hasEngine(*own.program) ? 1 : 0;
  if (wanted > 0 && *count > 0) {
    Descriptor &config = descriptorOf(static_cast<cudnnBackendDescriptor_t *>(values)[0]);
    config.program = own.program;
    config.isFinal = true;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  const Descriptor &given = descriptorOf(pack);
  std::shared_ptr<const Program> program = descriptorOf(plan).program;
  auto numbers = listOf<int64_t>(given, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto addresses = listOf<void *>(given, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  auto workspace = valueOf<uint8_t *>(given, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
  if (!workspace || reinterpret_cast<uintptr_t>(workspace) % 16)
    return refuse("a workspace that is missing or not aligned");
  std::lock_guard lock(kept().mutex);
  std::vector<void *> &pointers = kept().pointers.emplace_back();
  for (const Tensor &tensor : program->tensors) {
    auto found = std::ranges::find(numbers, tensor.number);
    void *address = found == numbers.end() ? nullptr : addresses[static_cast<size_t>(found - numbers.begin())];
    if (!tensor.isVirtual && !address)
      return refuse("an address that is missing");
    if (!tensor.isVirtual && !tensor.isConstant &&
        reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(tensor.alignment))
      return refuse("an operand that is less aligned than its description");
    if (tensor.isConstant) { // Read now.
      auto from = static_cast<const std::byte *>(address);
      address = kept().constants.emplace_back(from, from + 4).data();
    }
    pointers.push_back(address);
  }
  kept().programs.push_back(program);
  return launch(handle->stream, {program.get(), &pointers, workspace, nullptr});
}
