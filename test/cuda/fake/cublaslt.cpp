// cuBLASLt without a GPU: libcublasLt.so.13 with the real one's ABI, which multiplies on the host and refuses what the
// real one would refuse, or what it would silently do wrong: layouts, types, alignments, a workspace too small, an
// algorithm for another product.
//
// On a stream of the fake driver a product is a kernel among others; without a stream it is done when the call returns.
#include "base/dtype.h"
#include "kernels/cuda/host/grid.h"
#include "test/cuda/fake/kernels.h"

#include <cublasLt.h>
#include <cuda.h>

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using maestro::BFloat16;
namespace host = maestro::kernels::cuda::host;

namespace {

struct LayoutData {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t ld;
  int32_t batch;
  int64_t batchStride;
};
struct OperationData {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t transposeA, transposeB, epilogue;
  const void *bias;
};
struct PreferenceData {
  uint64_t workspace;
  uint32_t schemes, alignments[4];
};

/// What an algorithm was chosen for, in its 64 bytes: a product of other layouts, or less aligned, has others.
struct AlgorithmData {
  uint64_t layouts, workspace;
  uint32_t alignments[4], biasAlignment;
};
static_assert(sizeof(AlgorithmData) <= sizeof(cublasLtMatmulAlgo_t));

template <typename Data, typename Handle> Data &dataOf(Handle handle) { return *reinterpret_cast<Data *>(handle); }
template <typename Data, typename Handle> cublasStatus_t create(Handle *handle, const Data &data) {
  *handle = reinterpret_cast<Handle>(new Data(data));
  return CUBLAS_STATUS_SUCCESS;
}
template <typename Data, typename Handle> cublasStatus_t destroy(Handle handle) {
  delete reinterpret_cast<Data *>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
template <typename T> cublasStatus_t assign(T &field, const void *value, size_t bytes) {
  if (bytes != sizeof(T))
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t refuse(const char *why, cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE) {
  std::fprintf(stderr, "fake cublasLt: %s\n", why);
  return status;
}

uint64_t hashOf(const OperationData &operation, const LayoutData *const (&layouts)[4]) {
  uint64_t hash = static_cast<uint64_t>(operation.transposeA * 4 + operation.transposeB * 2 + operation.epilogue);
  auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15u; };
  for (const LayoutData *layout : layouts)
    for (uint64_t value : {uint64_t(layout->type), layout->rows, layout->columns, uint64_t(layout->ld),
                           uint64_t(layout->batch), uint64_t(layout->batchStride)})
      add(value);
  return hash;
}

/// What an address can be divided by, up to 256.
uint32_t alignmentOf(const void *address) {
  auto number = reinterpret_cast<uintptr_t>(address) | 256;
  return static_cast<uint32_t>(number & (~number + 1));
}

size_t bytesOf(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

/// Ok where op(A)·op(B) has D's shape and the library has such types.
cublasStatus_t check(const OperationData &operation, const LayoutData *const (&layouts)[4]) {
  const auto &[a, b, c, d] = layouts;
  if (operation.compute != CUBLAS_COMPUTE_32F || operation.scale != CUDA_R_32F)
    return refuse("compute and scale types other than f32");
  bool narrow = a->type == CUDA_R_16BF;
  if (b->type != a->type || (!narrow && a->type != CUDA_R_32F) || c->type != d->type ||
      (d->type != CUDA_R_32F && !(narrow && d->type == CUDA_R_16BF)))
    return refuse("a combination of types that is not supported", CUBLAS_STATUS_NOT_SUPPORTED);
  uint64_t m = operation.transposeA ? a->columns : a->rows, k = operation.transposeA ? a->rows : a->columns;
  uint64_t kb = operation.transposeB ? b->columns : b->rows, n = operation.transposeB ? b->rows : b->columns;
  if (k != kb || d->rows != m || d->columns != n || c->rows != m || c->columns != n)
    return refuse("shapes that do not agree");
  for (const LayoutData *layout : layouts) {
    if (layout->ld < static_cast<int64_t>(layout->rows))
      return refuse("a leading dim below the rows");
    if (layout->batch != d->batch || layout->batch < 1)
      return refuse("batch counts that differ");
  }
  if (d->batch > 1 && d->batchStride < d->ld * static_cast<int64_t>(d->columns))
    return refuse("results of a batch that overlap");
  return CUBLAS_STATUS_SUCCESS;
}

struct ProductParams {
  OperationData operation;
  LayoutData a, b, d;
  const void *dataA, *dataB;
  const void *dataC; ///< Laid out as D.
  void *dataD;
  float alpha, beta;
  uint8_t *workspace;
  uint64_t workspaceBytes;
  MaestroFakeCudaThreadInGrid threadInGrid; ///< Of whoever runs the grid.
};

float elementAt(const LayoutData &layout, const void *data, int64_t batch, uint64_t row, uint64_t column) {
  int64_t at = batch * layout.batchStride + static_cast<int64_t>(column) * layout.ld + static_cast<int64_t>(row);
  return layout.type == CUDA_R_32F ? static_cast<const float *>(data)[at]
                                   : static_cast<float>(static_cast<const BFloat16 *>(data)[at]);
}

/// One element of D a thread; the workspace becomes rubbish.
void product(const void *params) {
  const auto &p = *static_cast<const ProductParams *>(params);
  uint64_t thread = p.threadInGrid();
  if (thread < p.workspaceBytes)
    p.workspace[thread] = 0xee;
  uint64_t size = p.d.rows * p.d.columns;
  if (thread >= size * static_cast<uint64_t>(p.d.batch))
    return;
  int64_t batch = static_cast<int64_t>(thread / size);
  uint64_t row = thread % size % p.d.rows, column = thread % size / p.d.rows;
  uint64_t k = p.operation.transposeA ? p.a.rows : p.a.columns;
  double sum = 0;
  for (uint64_t l = 0; l < k; ++l)
    sum += static_cast<double>(p.operation.transposeA ? elementAt(p.a, p.dataA, batch, l, row)
                                                      : elementAt(p.a, p.dataA, batch, row, l)) *
           (p.operation.transposeB ? elementAt(p.b, p.dataB, batch, column, l)
                                   : elementAt(p.b, p.dataB, batch, l, column));
  float value = p.alpha * static_cast<float>(sum);
  if (p.beta != 0)
    value += p.beta * elementAt(p.d, p.dataC, batch, row, column);
  if (p.operation.epilogue == CUBLASLT_EPILOGUE_BIAS)
    value += p.d.type == CUDA_R_32F ? static_cast<const float *>(p.operation.bias)[row]
                                    : static_cast<float>(static_cast<const BFloat16 *>(p.operation.bias)[row]);
  int64_t at = batch * p.d.batchStride + static_cast<int64_t>(column) * p.d.ld + static_cast<int64_t>(row);
  if (p.d.type == CUDA_R_32F)
    static_cast<float *>(p.dataD)[at] = value;
  else
    static_cast<BFloat16 *>(p.dataD)[at] = BFloat16(value);
}

constexpr host::KernelEntry kProduct{"fake_cublaslt_product", sizeof(ProductParams), product};

cublasStatus_t launch(const ProductParams &params, cudaStream_t stream) {
  uint64_t threads = params.d.rows * params.d.columns * static_cast<uint64_t>(params.d.batch);
  unsigned blocks = static_cast<unsigned>((std::max(threads, params.workspaceBytes) + 255) / 256);
  ProductParams copy = params;
  if (!stream) {
    copy.threadInGrid = host::threadInGrid;
    return host::runGrid(kProduct, {blocks}, 256, 0, &copy).isOk() ? CUBLAS_STATUS_SUCCESS
                                                                   : CUBLAS_STATUS_EXECUTION_FAILED;
  }
  void *driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  auto cuLaunch = driver ? reinterpret_cast<decltype(&::cuLaunchKernel)>(::dlsym(driver, "cuLaunchKernel")) : nullptr;
  if (!cuLaunch)
    return refuse("a stream, and no driver", CUBLAS_STATUS_NOT_INITIALIZED);
  copy.threadInGrid = reinterpret_cast<MaestroFakeCudaThreadInGrid>(::dlsym(driver, MAESTRO_FAKE_CUDA_THREAD_IN_GRID));
  void *list[] = {&copy};
  auto function =
      reinterpret_cast<CUfunction>(const_cast<host::KernelEntry *>(&kProduct)); // As the fake driver has them.
  bool launched =
      cuLaunch(function, blocks, 1, 1, 256, 1, 1, 0, reinterpret_cast<CUstream>(stream), list, nullptr) == CUDA_SUCCESS;
  return launched ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

} // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) { return create<int>(handle, 0); }
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy<int>(handle); }
size_t cublasLtGetVersion() {
  const char *wanted = std::getenv("MAESTRO_FAKE_CUBLASLT_VERSION");
  return wanted ? std::strtoull(wanted, nullptr, 10) : CUBLAS_VERSION;
}
const char *cublasLtGetStatusName(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_INVALID_VALUE";
}
const char *cublasLtGetStatusString(cublasStatus_t) { return "the fake library refuses"; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  return create(layout, LayoutData{type, rows, columns, ld, 1, 0});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy<LayoutData>(layout); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes) {
  auto &data = dataOf<LayoutData>(layout);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
    return assign(data.batch, value, bytes);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    return assign(data.batchStride, value, bytes);
  return refuse("a layout's attribute that the fake does not know");
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return create(operation, OperationData{compute, scale, 0, 0, CUBLASLT_EPILOGUE_DEFAULT, nullptr});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) { return destroy<OperationData>(operation); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
  auto &data = dataOf<OperationData>(operation);
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return assign(data.transposeA, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return assign(data.transposeB, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return assign(data.epilogue, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return assign(data.bias, value, bytes);
  default:
    return refuse("an operation's attribute that the fake does not know");
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
  return create(preference, PreferenceData{0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy<PreferenceData>(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes) {
  auto &data = dataOf<PreferenceData>(preference);
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return assign(data.workspace, value, bytes);
  case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    return assign(data.schemes, value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    return assign(data.alignments[0], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    return assign(data.alignments[1], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    return assign(data.alignments[2], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return assign(data.alignments[3], value, bytes);
  default:
    return refuse("a preference that the fake does not know");
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *count) {
  const LayoutData *layouts[] = {&dataOf<LayoutData>(a), &dataOf<LayoutData>(b), &dataOf<LayoutData>(c),
                                 &dataOf<LayoutData>(d)};
  const auto &asked = dataOf<PreferenceData>(preference);
  *count = 0;
  if (cublasStatus_t status = check(dataOf<OperationData>(operation), layouts); status != CUBLAS_STATUS_SUCCESS)
    return status;
  if (asked.schemes & (CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE))
    return refuse("sums in parts whose precision or order is not ours");
  const void *bias = dataOf<OperationData>(operation).bias;
  if (dataOf<OperationData>(operation).epilogue == CUBLASLT_EPILOGUE_BIAS && !bias)
    return refuse("a choice for a bias whose alignment is not told");
  AlgorithmData chosen{hashOf(dataOf<OperationData>(operation), layouts),
                       std::min<uint64_t>(asked.workspace, 4000),
                       {},
                       alignmentOf(bias)};
  std::memcpy(chosen.alignments, asked.alignments, sizeof chosen.alignments);
  if (wanted < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  results[0] = {};
  std::memcpy(&results[0].algo, &chosen, sizeof chosen);
  results[0].workspaceSize = chosen.workspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void *alpha, const void *dataA,
                              cublasLtMatrixLayout_t a, const void *dataB, cublasLtMatrixLayout_t b, const void *beta,
                              const void *dataC, cublasLtMatrixLayout_t c, void *dataD, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspaceBytes,
                              cudaStream_t stream) {
  const LayoutData *layouts[] = {&dataOf<LayoutData>(a), &dataOf<LayoutData>(b), &dataOf<LayoutData>(c),
                                 &dataOf<LayoutData>(d)};
  if (cublasStatus_t status = check(dataOf<OperationData>(operation), layouts); status != CUBLAS_STATUS_SUCCESS)
    return status;
  AlgorithmData chosen;
  if (!algorithm)
    return refuse("no algorithm: the choice would be made at every call");
  std::memcpy(&chosen, algorithm, sizeof chosen);
  if (chosen.layouts != hashOf(dataOf<OperationData>(operation), layouts))
    return refuse("an algorithm that was chosen for another product");
  const void *addresses[] = {dataA, dataB, dataC, dataD};
  for (int i = 0; i < 4; ++i)
    if (reinterpret_cast<uintptr_t>(addresses[i]) % chosen.alignments[i] ||
        reinterpret_cast<uintptr_t>(addresses[i]) % bytesOf(layouts[i]->type))
      return refuse("an operand that is less aligned than the algorithm was chosen for");
  if (workspaceBytes < chosen.workspace ||
      (chosen.workspace > 0 && (!workspace || reinterpret_cast<uintptr_t>(workspace) % 256)))
    return refuse("a workspace that is missing, too small or not aligned");
  if (layouts[2]->ld != layouts[3]->ld || layouts[2]->batchStride != layouts[3]->batchStride)
    return refuse("C of another layout than D, which no call of ours wants");
  if (dataOf<OperationData>(operation).epilogue == CUBLASLT_EPILOGUE_BIAS && !dataOf<OperationData>(operation).bias)
    return refuse("a bias without an address");
  if (const void *bias = dataOf<OperationData>(operation).bias; alignmentOf(bias) < chosen.biasAlignment)
    return refuse("a bias that is less aligned than the algorithm was chosen for");
  return launch({dataOf<OperationData>(operation), *layouts[0], *layouts[1], *layouts[3], dataA, dataB, dataC, dataD,
                 *static_cast<const float *>(alpha), *static_cast<const float *>(beta),
                 static_cast<uint8_t *>(workspace), chosen.workspace, nullptr},
                stream);
}
