// Products by cuBLASLt, on the fake library: the products of test/kernels/conformance.cpp are judged by it too (subject
// below); here what is refused, and what reaches it.
#include "kernels/cuda/cublaslt.h"

#include "kernels/cuda/host/functions.h"
#include "test/kernels/harness.h"
#include "test/kernels/subject.h"

namespace maestro::kernels::test {

const Library &subject() {
  static cuda::host::HostFunctions functions;
  static auto library = [] {
    auto loaded = maestro::cuda::loadCublasLt();
    EXPECT_TRUE(loaded.isOk()) << loaded.status().message();
    auto products = cuda::createCublasLtLibrary(**loaded, functions);
    EXPECT_TRUE(products.isOk());
    cuda::Libraries first;
    first.push_back(std::move(*products));
    return cuda::host::createHostLibrary(std::move(first));
  }();
  return *library;
}

namespace {

/// Whether cuBLASLt serves the call: a kernel of one product and a bias at most needs its workspace.
bool served(DType dtype, std::vector<int64_t> a, std::vector<int64_t> b, std::vector<int64_t> y) {
  static cuda::host::HostFunctions functions;
  auto products = cuda::createCublasLtLibrary(**maestro::cuda::loadCublasLt(), functions);
  TensorType inputs[] = {{dtype, a}, {dtype, b}, {}}, outputs[] = {{dtype, y}};
  auto prepared = (*products)->prepare({"matmul", {}, inputs, outputs});
  EXPECT_TRUE(prepared.isOk()) << prepared.status().message();
  return *prepared != nullptr && (*prepared)->scratchBytes() > 0;
}

TEST(CublasLt, ServesFloatsAndLeavesTheRest) {
  for (DType dtype : {DType::F32, DType::BF16}) {
    EXPECT_TRUE(served(dtype, {4, 8}, {8, 16}, {4, 16}));
    EXPECT_TRUE(served(dtype, {2, 3, 4, 8}, {8, 16}, {2, 3, 4, 16}));
    EXPECT_TRUE(served(dtype, {2, 1, 4, 8}, {1, 3, 8, 16}, {2, 3, 4, 16}));
    EXPECT_FALSE(served(dtype, {4, 0}, {0, 16}, {4, 16}));
    EXPECT_FALSE(served(dtype, {0, 8}, {8, 16}, {0, 16}));
  }
  EXPECT_FALSE(served(DType::I64, {4, 8}, {8, 16}, {4, 16}));
  EXPECT_FALSE(served(DType::F64, {4, 8}, {8, 16}, {4, 16}));
}

TEST(CublasLt, AMisalignedOperandIsNamed) {
  static cuda::host::HostFunctions functions;
  auto products = cuda::createCublasLtLibrary(**maestro::cuda::loadCublasLt(), functions);
  std::vector<int64_t> shape{8, 8};
  TensorType inputs[] = {{DType::F32, shape}, {DType::F32, shape}, {}}, outputs[] = {{DType::F32, shape}};
  auto prepared = (*products)->prepare({"matmul", {}, inputs, outputs});
  ASSERT_TRUE(prepared.isOk() && *prepared);
  CUdeviceptr in[] = {0x1000, 0x2004, 0}, out[] = {0x3000};
  Status status = (*prepared)->enqueue({}, in, out, 0x4000);
  EXPECT_EQ(status.message(), "matmul: an operand lies at 0x2004, which is no multiple of 16");
}

} // namespace
} // namespace maestro::kernels::test
