// Products by cuBLASLt: descriptors, layouts and the algorithm are chosen when a call is prepared; its workspace is the
// call's scratch memory.
//
// cuBLASLt has columns side by side where we have rows, so it is asked for yᵀ = bᵀ·aᵀ, and our n is its m.
#include "kernels/cuda/cublaslt.h"

#include "kernels/accumulate.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/sequence.h"
#include "kernels/signature.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::kernels::cuda {
namespace {

using maestro::cuda::CublasLt;

constexpr size_t kMaxWorkspace = size_t{32} << 20; ///< What Hopper's kernels ask for at most.
constexpr int kCandidates = 8;
constexpr int64_t kMaxProducts = 64; ///< Of one call, where its leading dims are no single batch.
constexpr uint32_t kAlignment = 16;  ///< Of every operand; buffers in plans have 64.

/// A descriptor of the library's, destroyed with this.
template <typename Handle> class Owned {
public:
  Owned() = default;
  Owned(Handle handle, cublasStatus_t (*destroy)(Handle)) : handle(handle), destroy(destroy) {}
  Owned(Owned &&other) noexcept : handle(std::exchange(other.handle, nullptr)), destroy(other.destroy) {}
  Owned &operator=(Owned &&other) noexcept {
    std::swap(handle, other.handle);
    std::swap(destroy, other.destroy);
    return *this;
  }
  ~Owned() {
    if (handle)
      (void)destroy(handle);
  }
  Handle get() const { return handle; }

private:
  Handle handle = nullptr;
  cublasStatus_t (*destroy)(Handle) = nullptr;
};
using Operation = Owned<cublasLtMatmulDesc_t>;
using Layout = Owned<cublasLtMatrixLayout_t>;
using Preference = Owned<cublasLtMatmulPreference_t>;

std::span<const int64_t> leading(const TensorType &type) {
  return type.shape().first(static_cast<size_t>(type.rank - 2));
}

/// What a call multiplies: products of one batch each, in our terms.
struct Geometry {
  int64_t m, n, k, batch = 1;
  int64_t batchStrides[3] = {}; ///< Of a, b and y, in elements.
  std::vector<std::array<int64_t, 3>> starts;

  Geometry(const TensorType &a, const TensorType &b, const TensorType &y, bool transposeA)
      : m(y.dims[y.rank - 2]), n(y.dims[y.rank - 1]), k(a.dims[a.rank - (transposeA ? 2 : 1)]) {
    auto shape = leading(y);
    Dims strides[3] = {broadcastStrides(leading(a), shape), broadcastStrides(leading(b), shape), denseStrides(shape)};
    int64_t sizes[3] = {m * k, k * n, m * n};
    for (int i = 0; i < 3; ++i)
      for (int64_t &stride : strides[i])
        stride *= sizes[i];
    Strided<3> map = joinDims<3>(shape, {strides[0], strides[1], strides[2]});
    int last = map.rank - 1;
    if (last >= 0 && !transposeA && map.strides[0][last] == m * k && map.strides[1][last] == 0) {
      m *= map.dims[last]; // One b for all: more rows.
      map.rank = last--;
    }
    if (last >= 0) {
      batch = map.dims[last];
      for (int i = 0; i < 3; ++i)
        batchStrides[i] = map.strides[i][last];
      map.rank = last;
    }
    int64_t products = product(std::span<const int64_t>(map.dims, static_cast<size_t>(map.rank)));
    for (int64_t i = 0; i < products && products <= kMaxProducts; ++i) {
      std::array<int64_t, 3> start{};
      int64_t rest = i;
      for (int d = map.rank; d-- > 0; rest /= map.dims[d])
        for (size_t t = 0; t < 3; ++t)
          start[t] += rest % map.dims[d] * map.strides[t][d];
      starts.push_back(start);
    }
  }
  bool empty() const { return starts.empty() || m == 0 || n == 0 || k == 0 || batch == 0; }
};

cudaDataType_t dataType(DType type) { return type == DType::F32 ? CUDA_R_32F : CUDA_R_16BF; }

class Product : public Kernel {
public:
  Product(const CublasLt &library, cublasLtHandle_t handle) : library(library), handle(handle) {}

  Status enqueue(const Launch &launch, std::span<const CUdeviceptr> inputs, std::span<const CUdeviceptr> outputs,
                 CUdeviceptr scratch) override {
    float alpha = 1;
    CUdeviceptr bases[] = {inputs[0], inputs[1], outputs[0], addend ? inputs[3] : outputs[0], biased ? inputs[2] : 0};
    for (CUdeviceptr base : bases)
      if (base % kAlignment)
        return Status::internal(
            fmt::format("matmul: an operand lies at {:#x}, which is no multiple of {}", base, kAlignment));
    if (biased) {
      const void *bias = reinterpret_cast<const void *>(inputs[2]);
      MAESTRO_CUBLASLT_TRY(library, cublasLtMatmulDescSetAttribute, operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                           &bias, sizeof bias);
    }
    for (const auto &start : starts) {
      auto at = [&](size_t i) { // What is added to lies as the result does.
        size_t like = std::min<size_t>(i, 2);
        return reinterpret_cast<void *>(bases[i] + static_cast<uint64_t>(start[like]) * elementBytes[like]);
      };
      MAESTRO_CUBLASLT_TRY(library, cublasLtMatmul, handle, operation.get(), &alpha, at(1), b.get(), at(0), a.get(),
                           &beta, at(3), y.get(), at(2), y.get(), &algorithm, reinterpret_cast<void *>(scratch),
                           workspace, reinterpret_cast<cudaStream_t>(launch.stream));
    }
    return afterwards ? afterwards->enqueue(launch, inputs, outputs, 0) : Status();
  }
  size_t scratchBytes() const override { return workspace; }

  const CublasLt &library;
  cublasLtHandle_t handle;
  Operation operation;
  Layout a, b, y;
  cublasLtMatmulAlgo_t algorithm{};
  size_t workspace = 0;
  float beta = 0;
  bool addend = false; ///< Operand 3 is what is added to, instead of the result's old contents.
  bool biased = false; ///< By the product's epilogue.
  std::array<uint64_t, 3> elementBytes{};
  std::vector<std::array<int64_t, 3>> starts;
  std::unique_ptr<Sequence> afterwards; ///< Adds a bias that the epilogue does not take.
};

class CublasLtLibrary : public Library {
public:
  CublasLtLibrary(const CublasLt &library, const Functions &functions, cublasLtHandle_t handle)
      : library(library), functions(functions), handle(handle) {}
  ~CublasLtLibrary() override { (void)library.cublasLtDestroy(handle); }

  PreparedKernel prepare(const CallSpec &spec) const override {
    if (spec.kernel != "matmul")
      return unsupported();
    MAESTRO_TRY(checkSignature(spec));
    return prepareMatmul({spec, functions, *this});
  }

private:
  PreparedKernel prepareMatmul(const Call &call) const;
  /// [rows, columns] as we lay it out, in batches.
  Result<Layout> makeLayout(DType type, int64_t rows, int64_t columns, int64_t batch, int64_t batchStride) const;
  Result<Operation> makeOperation(bool transposeA, bool transposeB, bool biased) const;
  /// False: the library has no algorithm for the call.
  Result<bool> chooseAlgorithm(Product &product, const Geometry &geometry) const;

  const CublasLt &library;
  const Functions &functions;
  cublasLtHandle_t handle;
};

Result<Layout> CublasLtLibrary::makeLayout(DType type, int64_t rows, int64_t columns, int64_t batch,
                                           int64_t batchStride) const {
  cublasLtMatrixLayout_t made = nullptr;
  MAESTRO_CUBLASLT_TRY(library, cublasLtMatrixLayoutCreate, &made, dataType(type), static_cast<uint64_t>(columns),
                       static_cast<uint64_t>(rows), columns);
  Layout layout(made, library.cublasLtMatrixLayoutDestroy);
  int32_t count = static_cast<int32_t>(batch);
  MAESTRO_CUBLASLT_TRY(library, cublasLtMatrixLayoutSetAttribute, made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                       sizeof count);
  MAESTRO_CUBLASLT_TRY(library, cublasLtMatrixLayoutSetAttribute, made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                       &batchStride, sizeof batchStride);
  return layout;
}

Result<Operation> CublasLtLibrary::makeOperation(bool transposeA, bool transposeB, bool biased) const {
  cublasLtMatmulDesc_t made = nullptr;
  MAESTRO_CUBLASLT_TRY(library, cublasLtMatmulDescCreate, &made, CUBLAS_COMPUTE_32F, CUDA_R_32F); // Not TF32.
  Operation operation(made, library.cublasLtMatmulDescDestroy);
  auto set = [&](cublasLtMatmulDescAttributes_t attribute, int32_t value) {
    return library.check(library.cublasLtMatmulDescSetAttribute(made, attribute, &value, sizeof value),
                         "cublasLtMatmulDescSetAttribute");
  };
  MAESTRO_TRY(set(CUBLASLT_MATMUL_DESC_TRANSA, transposeB ? CUBLAS_OP_T : CUBLAS_OP_N)); // Its a is our b.
  MAESTRO_TRY(set(CUBLASLT_MATMUL_DESC_TRANSB, transposeA ? CUBLAS_OP_T : CUBLAS_OP_N));
  if (biased) {
    MAESTRO_TRY(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    // The choice of an algorithm reads from the address how aligned the bias will be.
    const void *likeAll = reinterpret_cast<const void *>(uintptr_t{kAlignment});
    MAESTRO_CUBLASLT_TRY(library, cublasLtMatmulDescSetAttribute, made, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &likeAll,
                         sizeof likeAll);
  }
  return operation;
}

Result<bool> CublasLtLibrary::chooseAlgorithm(Product &product, const Geometry &geometry) const {
  cublasLtMatmulPreference_t made = nullptr;
  MAESTRO_CUBLASLT_TRY(library, cublasLtMatmulPreferenceCreate, &made);
  Preference preference(made, library.cublasLtMatmulPreferenceDestroy);
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto &value) {
    return library.check(library.cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value),
                         "cublasLtMatmulPreferenceSetAttribute");
  };
  // Parts of a sum are added in f32, in order; never in the result's bf16.
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  MAESTRO_TRY(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspace));
  MAESTRO_TRY(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes));
  auto alignmentOf = [&](size_t i) { // Of every product's first element.
    uint32_t alignment = kAlignment;
    for (const auto &start : geometry.starts)
      while (static_cast<uint64_t>(start[i]) * product.elementBytes[i] % alignment)
        alignment /= 2;
    return alignment;
  };
  MAESTRO_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignmentOf(1)));
  MAESTRO_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignmentOf(0)));
  MAESTRO_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignmentOf(2)));
  MAESTRO_TRY(set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignmentOf(2)));
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> found{};
  int count = 0;
  cublasStatus_t answer =
      library.cublasLtMatmulAlgoGetHeuristic(handle, product.operation.get(), product.b.get(), product.a.get(),
                                             product.y.get(), product.y.get(), made, kCandidates, found.data(), &count);
  if (answer == CUBLAS_STATUS_NOT_SUPPORTED)
    return false;
  MAESTRO_TRY(library.check(answer, "cublasLtMatmulAlgoGetHeuristic"));
  for (const auto &candidate : std::span(found).first(static_cast<size_t>(count)))
    if (candidate.state == CUBLAS_STATUS_SUCCESS) {
      product.algorithm = candidate.algo;
      product.workspace = candidate.workspaceSize;
      return true;
    }
  return false;
}

/// y += bias, whatever its type.
Status addBias(Sequence &sequence, const TensorType &bias, const TensorType &y) {
  auto shape = y.shape();
  BinaryParams params{
      nullptr,      nullptr,    nullptr,
      y.elements(), false,      joinDims<2>(shape, {denseStrides(shape), broadcastStrides(bias.shape(), shape)}),
      y.dtype,      bias.dtype, y.dtype};
  return sequence.add("add_any", blocksFor(params.count), params, [](BinaryParams &p, const Operands &o) {
    p.a = o.out(0);
    p.b = o.in(2);
    p.y = o.out(0);
  });
}

PreparedKernel CublasLtLibrary::prepareMatmul(const Call &call) const {
  const TensorType &a = call.in(0), &b = call.in(1), &y = call.out(0);
  bool known = fastSuffix(a.dtype) && b.dtype == a.dtype && (y.dtype == DType::F32 || y.dtype == a.dtype);
  bool transposeA = call.attributes().getFlag("transpose_a"), transposeB = call.attributes().getFlag("transpose_b");
  if (!known)
    return unsupported();
  Geometry geometry(a, b, y, transposeA);
  if (geometry.empty() || geometry.batch > INT32_MAX)
    return unsupported();

  auto made = std::make_unique<Product>(library, handle);
  bool alike = call.hasIn(2) && call.in(2).dtype == a.dtype && y.dtype == a.dtype;
  made->biased = alike;
  made->addend = call.hasIn(3);
  made->beta = made->addend || (accumulateMask(call.spec) & 1) ? 1 : 0;
  made->elementBytes = {byteSize(a.dtype), byteSize(b.dtype), byteSize(y.dtype)};
  made->starts = geometry.starts;
  if (call.hasIn(2) && !alike) {
    made->afterwards = call.sequence();
    MAESTRO_TRY(addBias(*made->afterwards, call.in(2), y));
  }
  auto stored = [](bool transposed, int64_t rows, int64_t columns) {
    return transposed ? std::pair(columns, rows) : std::pair(rows, columns);
  };
  auto [aRows, aColumns] = stored(transposeA, geometry.m, geometry.k);
  auto [bRows, bColumns] = stored(transposeB, geometry.k, geometry.n);
  MAESTRO_ASSIGN(made->operation, makeOperation(transposeA, transposeB, made->biased));
  MAESTRO_ASSIGN(made->a, makeLayout(a.dtype, aRows, aColumns, geometry.batch, geometry.batchStrides[0]));
  MAESTRO_ASSIGN(made->b, makeLayout(b.dtype, bRows, bColumns, geometry.batch, geometry.batchStrides[1]));
  MAESTRO_ASSIGN(made->y, makeLayout(y.dtype, geometry.m, geometry.n, geometry.batch, geometry.batchStrides[2]));
  MAESTRO_ASSIGN(bool served, chooseAlgorithm(*made, geometry));
  if (!served)
    return unsupported();
  return PreparedKernel(std::move(made));
}

} // namespace

Result<std::unique_ptr<Library>> createCublasLtLibrary(const CublasLt &cublasLt, const Functions &functions) {
  cublasLtHandle_t handle = nullptr;
  MAESTRO_CUBLASLT_TRY(cublasLt, cublasLtCreate, &handle);
  return std::unique_ptr<Library>(std::make_unique<CublasLtLibrary>(cublasLt, functions, handle));
}

} // namespace maestro::kernels::cuda
