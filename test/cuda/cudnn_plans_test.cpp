// What cuDNN itself says of our graphs, without a GPU: it plans them, kernels included, for an H100 that is described.
// How they are cut into parts, too.
//
// The library is that of test/requirements.txt; where there is none, its tests are skipped.
#include "kernels/cuda/cudnn_attention.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace maestro::kernels::cuda {
namespace {

namespace fs = std::filesystem;

/// As cudaDeviceProp has them.
constexpr const char *kH100 =
    R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
"multiProcessorCount": 132, "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
"reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
"maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "smClockRateKHz": 1980000,
"memClockRateKHz": 2619000, "l2CacheSize": 52428800, "deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900,
"driverVer": 13000, "totalGlobalMem": 85029158912, "cudaDeviceId": 0})";

/// The package's libraries, in the order in which they need each other.
bool preload() {
  bool found = false;
  auto open = [&](const fs::path &path) { EXPECT_TRUE(::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) << ::dlerror(); };
  std::error_code none;
  for (const auto &python : fs::directory_iterator(MAESTRO_PACKAGES, none)) {
    fs::path packages = python.path() / "site-packages/nvidia";
    if (!fs::exists(packages / "cudnn/lib/libcudnn.so.9"))
      continue;
    open(fs::path(MAESTRO_STANDIN_FOLDER) / "libcuda.so.1");
    open(packages / "cu13/lib/libnvrtc.so.13");
    open(packages / "cudnn/lib/libcudnn.so.9");
    found = true;
  }
  return found;
}

struct Case {
  const char *name;
  int64_t batch, heads, keyHeads, queries, keys, depth;
  bool causal = true;
  std::vector<int64_t> mask = {};
  std::optional<DType> bias = {};
  double softcap = 0;
  int64_t offset = 0;
  bool sequenceMajor = true;
};

AttentionGraph graphOf(const Case &c) {
  Attribute attributes[5];
  attributes[0] = {"causal", Attribute::Kind::Ints, {c.causal}, {}, ""};
  attributes[1] = {"causal_offset", Attribute::Kind::Ints, {c.offset}, {}, ""};
  attributes[2] = {"sequence_major", Attribute::Kind::Ints, {c.sequenceMajor}, {}, ""};
  attributes[3] = {"softcap", Attribute::Kind::Floats, {}, {c.softcap}, ""};
  attributes[4] = {"scale", Attribute::Kind::Floats, {}, {0.125}, ""};
  auto rows = [&](int64_t heads, int64_t length) {
    std::vector<int64_t> shape = c.sequenceMajor ? std::vector<int64_t>{c.batch, length, heads, c.depth}
                                                 : std::vector<int64_t>{c.batch, heads, length, c.depth};
    return TensorType(DType::BF16, shape);
  };
  TensorType mask(DType::Bool, c.mask);
  AttentionShape shape(Attributes(attributes), rows(c.heads, c.queries), rows(c.keyHeads, c.keys),
                       rows(c.keyHeads, c.keys), c.mask.empty() ? nullptr : &mask);
  return {shape, c.bias};
}

TEST(CudnnParts, GradientsAreCutByBatchThenByHeads) {
  auto cut = [](const Case &c, bool canOrder) {
    auto part = partOfGradient(graphOf(c), canOrder, int64_t{1} << 30);
    return part ? std::vector<int64_t>{part->batch, part->heads, part->keyHeads, part->ordered}
                : std::vector<int64_t>();
  };
  using List = std::vector<int64_t>;
  EXPECT_EQ(cut({"", 1, 32, 8, 4096, 4096, 128}, true), (List{1, 32, 8, 0}));
  EXPECT_EQ(cut({"", 6, 32, 8, 2048, 2048, 128}, true), (List{3, 32, 8, 0}));
  EXPECT_EQ(cut({"", 2, 32, 8, 8192, 8192, 128}, true), (List{1, 8, 2, 0}));
  EXPECT_EQ(cut({"", 1, 28, 4, 8192, 8192, 128}, true), (List{1, 7, 1, 0}));
  EXPECT_EQ(cut({"", 2, 32, 8, 32768, 32768, 128}, true), (List{2, 32, 8, 1}));
  EXPECT_EQ(cut({"", 2, 32, 8, 32768, 32768, 128}, false), List());
}

class CudnnPlans : public testing::TestWithParam<Case> {};

TEST_P(CudnnPlans, AreMade) {
  static bool found = preload();
  if (!found)
    GTEST_SKIP() << "no cuDNN in " MAESTRO_PACKAGES "; ./dev setup python installs it";
  auto loaded = maestro::cuda::loadCudnn();
  ASSERT_TRUE(loaded.isOk()) << loaded.status().message();
  auto properties = deviceProperties(**loaded, kH100);
  ASSERT_TRUE(properties.isOk()) << properties.status().message();
  Place place{nullptr, &*properties};
  AttentionGraph whole = graphOf(GetParam());
  auto part = partOfGradient(whole, (*loaded)->version() >= 92500, int64_t{1} << 30);
  ASSERT_TRUE(part.has_value());
  auto expectPlan = [](const Result<Plan> &plan, const AttentionGraph &graph, bool isGradient) {
    const char *what = isGradient ? "its gradient" : "attention";
    ASSERT_TRUE(plan.isOk()) << what << ": " << plan.status().message();
    EXPECT_LE(plan->workspaceBytes(), static_cast<size_t>(graph.maxWorkspaceBytes(isGradient))) << what;
    std::printf("%s: %zu bytes of workspace\n", what, plan->workspaceBytes());
  };
  expectPlan(planAttention(**loaded, place, whole), whole, false);
  expectPlan(planAttentionGrad(**loaded, place, *part), *part, true);
}

// As plans of the examples and of well-known models have them.
const Case kCases[] = {
    {"llama_8b", 1, 32, 8, 4096, 4096, 128},
    {"llama_1b", 2, 32, 8, 2048, 2048, 64},
    {"long_context_in_order", 1, 32, 8, 32768, 32768, 128},
    {"gpt2_head_major", 4, 12, 12, 1024, 1024, 64, true, {}, {}, 0, 0, false},
    {"vision_odd_length", 8, 16, 16, 577, 577, 64, false},
    {"padding_mask", 4, 12, 12, 512, 512, 64, false, {4, 1, 1, 512}, DType::BF16},
    {"packed_documents_grouped", 2, 28, 4, 1000, 1000, 128, false, {2, 1, 1000, 1000}, DType::BF16},
    {"position_bias_of_heads", 2, 8, 8, 300, 200, 64, false, {8, 300, 200}, DType::F32},
    {"capped_window", 1, 8, 4, 1024, 1024, 256, true, {1, 1, 1024, 1024}, DType::BF16, 50},
    {"continued", 2, 8, 8, 128, 640, 64, true, {}, {}, 0, 512},
    {"tiny", 2, 4, 2, 7, 9, 8},
};
INSTANTIATE_TEST_SUITE_P(, CudnnPlans, testing::ValuesIn(kCases), [](const auto &info) { return info.param.name; });

} // namespace
} // namespace maestro::kernels::cuda
