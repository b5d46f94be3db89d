// Convolutions as products, so few samples at a time that there are several parts: what a plan's shapes reach only
// beyond 256 MiB of patches.
#include "test/kernels/harness.h"

#include "kernels/cuda/conv.h"
#include "kernels/cuda/failure.h"
#include "kernels/cuda/host/functions.h"
#include "kernels/cuda/prepare.h"

namespace maestro::kernels::test {
namespace {

CUdeviceptr addressOf(const void *data) { return reinterpret_cast<CUdeviceptr>(data); }

void checkConvolution(const char *kernel, const std::vector<Attribute> &attributes, const std::vector<Tensor> &inputs,
                      Tensor result, int64_t maxPatchBytes) {
  SCOPED_TRACE(std::string(kernel) + " in parts of " + std::to_string(maxPatchBytes) + " bytes");
  std::vector<Tensor> expected{result};
  ASSERT_TRUE(call(*createReferenceLibrary(), kernel, attributes, inputs, expected).status.isOk());
  cuda::host::HostFunctions functions;
  auto library = cuda::createLibrary(functions);
  std::vector<TensorType> in, out{result.type()};
  std::vector<CUdeviceptr> from, to{addressOf(result.data())};
  for (const Tensor &input : inputs) {
    in.push_back(input.type());
    from.push_back(addressOf(input.data()));
  }
  CallSpec spec{kernel, Attributes(attributes), in, out, 1};
  auto prepared = cuda::prepareConvolutionByProducts({spec, functions, *library}, maxPatchBytes);
  ASSERT_TRUE(prepared.isOk() && *prepared) << "not by products";
  std::vector<uint8_t> scratch((*prepared)->scratchBytes() + 512);
  cuda::Failure failure{};
  ASSERT_TRUE((*prepared)
                  ->enqueue({nullptr, addressOf(&failure), 1}, from, to, (addressOf(scratch.data()) + 255) / 256 * 256)
                  .isOk());
  EXPECT_TRUE(closeToScale(result, expected[0], result.type().dtype == DType::BF16 ? 1.2e-2 : 1e-5));
  EXPECT_TRUE(result.guardsIntact());
}

TEST(Convolution, InParts) {
  Random random(1);
  for (DType dtype : {DType::F32, DType::BF16}) {
    Tensor x = random.floats(dtype, {6, 3, 10, 12}), w = random.floats(dtype, {8, 3, 3, 2});
    std::vector<Attribute> attributes{ints("strides", {2, 1}), ints("pads", {1, 0, 1, 1}), ints("dilations", {1, 2})};
    Tensor y(dtype, {6, 8, 5, 11}), dy = random.floats(dtype, {6, 8, 5, 11}), bias = random.floats(dtype, {8});
    int64_t ofOne = 5 * 11 * 3 * 3 * 2 * static_cast<int64_t>(byteSize(dtype));
    for (int64_t samples : {1, 2, 4, 6}) { // Of six: four at a time would leave two, so it is three.
      checkConvolution("conv", attributes, {x, w, bias}, y, samples * ofOne);
      checkConvolution("conv_grad_input", attributes, {dy, w}, x, samples * ofOne);
      checkConvolution("conv_grad_weight", attributes, {x, dy}, Tensor(DType::F32, {8, 3, 3, 2}), samples * ofOne);
    }
  }
}

/// What is left to the loops: nothing that a part does not hold, groups, nothing at all.
TEST(Convolution, RefusesWhatItDoesNotServe) {
  cuda::host::HostFunctions functions;
  auto library = cuda::createLibrary(functions);
  auto serves = [&](std::vector<int64_t> x, std::vector<int64_t> w, std::vector<int64_t> y, int64_t group,
                    int64_t maxPatchBytes) {
    std::vector<Attribute> attributes{ints("group", {group})};
    TensorType in[] = {TensorType(DType::F32, x), TensorType(DType::F32, w)}, out[] = {TensorType(DType::F32, y)};
    CallSpec spec{"conv", Attributes(attributes), in, out, 1};
    auto prepared = cuda::prepareConvolutionByProducts({spec, functions, *library}, maxPatchBytes);
    return prepared.isOk() && *prepared;
  };
  EXPECT_TRUE(serves({2, 4, 9}, {8, 4, 2}, {2, 8, 8}, 1, 1 << 20));
  EXPECT_FALSE(serves({2, 4, 9}, {8, 4, 2}, {2, 8, 8}, 1, 8));
  EXPECT_FALSE(serves({2, 4, 9}, {8, 2, 2}, {2, 8, 8}, 2, 1 << 20));
  EXPECT_FALSE(serves({0, 4, 9}, {8, 4, 2}, {0, 8, 8}, 1, 1 << 20));
  // A part's results begin where a product's may not: 3 · 5 elements of f32.
  EXPECT_FALSE(serves({4, 4, 6}, {3, 4, 2}, {4, 3, 5}, 1, 2 * 5 * 8 * 4));
  EXPECT_TRUE(serves({4, 4, 6}, {3, 4, 2}, {4, 3, 5}, 1, 4 * 5 * 8 * 4));
}

} // namespace
} // namespace maestro::kernels::test
