// Attention by cuDNN, on the fake library: gradients whole, in parts and in order beside the reference; what is
// refused.
#include "kernels/cuda/cudnn.h"

#include "kernels/cuda/host/functions.h"
#include "test/kernels/harness.h"

namespace maestro::kernels::test {
namespace {

constexpr int64_t kHeadBytes = 2 * 128 * 128; ///< Scores of one head of up to 128 queries and keys.

struct Case {
  const char *name;
  int64_t queries, keys;
  bool causal, sequenceMajor;
  std::vector<int64_t> mask = {};
  DType maskType = DType::Bool;
  double softcap = 0;
};

std::unique_ptr<Library> libraryOf(int64_t maxScoreBytes) {
  static cuda::host::HostFunctions functions;
  cuda::CudnnOptions options;
  options.maxScoreBytes = maxScoreBytes;
  cuda::Libraries first;
  first.push_back(cuda::createCudnnLibrary(functions, options));
  return cuda::host::createHostLibrary(std::move(first));
}

class CudnnAttention : public testing::TestWithParam<Case> {};

TEST_P(CudnnAttention, GradientsAreThoseOfTheReferenceHoweverTheyAreCut) {
  constexpr int64_t kBatch = 2, kHeads = 4, kKeyHeads = 2, kDepth = 16, kValueDepth = 24;
  const Case &c = GetParam();
  Random random(5);
  auto rows = [&](int64_t heads, int64_t length, int64_t width) {
    return c.sequenceMajor ? std::vector<int64_t>{kBatch, length, heads, width}
                           : std::vector<int64_t>{kBatch, heads, length, width};
  };
  Tensor q = random.floats(DType::BF16, rows(kHeads, c.queries, kDepth)),
         k = random.floats(DType::BF16, rows(kKeyHeads, c.keys, kDepth));
  Tensor v = random.floats(DType::BF16, rows(kKeyHeads, c.keys, kValueDepth)),
         grad = random.floats(DType::BF16, rows(kHeads, c.queries, kValueDepth));
  Tensor mask;
  if (!c.mask.empty())
    mask = c.maskType == DType::Bool ? random.booleans(c.mask) : random.floats(c.maskType, c.mask);
  std::vector<Attribute> attributes{number("scale", 0.25), flag("causal", c.causal),
                                    flag("sequence_major", c.sequenceMajor), number("softcap", c.softcap)};
  auto reference = createReferenceLibrary();
  std::vector<Tensor> forward{grad, Tensor(DType::F32, {kBatch, kHeads, c.queries})}, expected{q, k, v};
  ASSERT_TRUE(call(*reference, "attention", attributes, {q, k, v, mask}, forward).status.isOk());
  std::vector<Tensor> inputs{grad, q, k, v, forward[0], forward[1], mask};
  ASSERT_TRUE(call(*reference, "attention_grad", attributes, inputs, expected).status.isOk());
  // Whole; each sample; each group of heads; in order.
  for (int64_t limit : {8 * kHeadBytes, 4 * kHeadBytes, 2 * kHeadBytes, int64_t{1000}}) {
    std::vector<Tensor> found{q, k, v};
    CallResult result = call(*libraryOf(limit), "attention_grad", attributes, inputs, found);
    ASSERT_TRUE(result.status.isOk()) << result.status.message();
    for (size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(closeToScale(found[i], expected[i], 1.5e-2)) << "at most " << limit << " bytes, result " << i;
  }
}

const Case kCases[] = {
    {"causal", 67, 67, true, true},
    {"head_major", 64, 80, false, false},
    {"mask_of_samples", 67, 67, false, true, {2, 1, 67, 67}},
    {"mask_of_heads", 35, 67, false, true, {4, 35, 67}, DType::F32},
    {"mask_of_all", 35, 67, true, false, {2, 4, 35, 67}},
    {"capped", 67, 67, true, true, {}, DType::Bool, 2},
};
INSTANTIATE_TEST_SUITE_P(, CudnnAttention, testing::ValuesIn(kCases), [](const auto &info) { return info.param.name; });

/// Whether cuDNN serves attention over one such tensor.
bool served(DType dtype, std::vector<int64_t> shape, const std::vector<Attribute> &attributes = {},
            int computeCapability = 90) {
  static cuda::host::HostFunctions functions;
  cuda::CudnnOptions options;
  options.computeCapability = computeCapability;
  TensorType rows(dtype, shape), inputs[] = {rows, rows, rows},
                                 outputs[] = {rows, {DType::F32, std::vector<int64_t>(shape.begin(), shape.end() - 1)}};
  auto prepared =
      cuda::createCudnnLibrary(functions, options)->prepare({"attention", Attributes(attributes), inputs, outputs});
  EXPECT_TRUE(prepared.isOk()) << prepared.status().message();
  return prepared.isOk() && *prepared;
}

TEST(Cudnn, ServesBf16AndLeavesTheRest) {
  EXPECT_TRUE(served(DType::BF16, {1, 2, 8, 16}));
  EXPECT_TRUE(served(DType::BF16, {1, 2, 8, 256}));
  EXPECT_FALSE(served(DType::F32, {1, 2, 8, 16}));
  EXPECT_FALSE(served(DType::BF16, {1, 2, 8, 20}));
  EXPECT_FALSE(served(DType::BF16, {1, 2, 8, 264}));
  EXPECT_FALSE(served(DType::BF16, {1, 2, 1, 16}));
  EXPECT_FALSE(served(DType::BF16, {0, 2, 8, 16}));
  EXPECT_FALSE(served(DType::BF16, {1, 2, 8, 16}, {flag("causal"), ints("causal_offset", {-1})}));
  EXPECT_FALSE(served(DType::BF16, {1, 2, 8, 16}, {}, 80));
}

TEST(Cudnn, AMisalignedOperandIsNamed) {
  static cuda::host::HostFunctions functions;
  TensorType rows(DType::BF16, std::vector<int64_t>{1, 2, 8, 16}),
      inputs[] = {rows, rows, rows}, outputs[] = {rows, {DType::F32, std::vector<int64_t>{1, 2, 8}}};
  auto library = cuda::createCudnnLibrary(functions, {});
  auto prepared = library->prepare({"attention", {}, inputs, outputs});
  ASSERT_TRUE(prepared.isOk() && *prepared);
  CUdeviceptr in[] = {0x1000, 0x2008, 0x3000}, out[] = {0x4000, 0x5000};
  Status status = (*prepared)->enqueue({}, in, out, 0x6000);
  EXPECT_EQ(status.message(), "attention: an operand lies at 0x2008, which is no multiple of 16");
}

} // namespace
} // namespace maestro::kernels::test
