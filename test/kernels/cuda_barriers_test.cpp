// Every barrier of every kernel is needed, and its absence is noticed: calls run with one barrier left out, in both
// orders of a block's threads, and must differ from what they give with it.
#include "test/kernels/harness.h"

#include "kernels/cuda/host/functions.h"
#include "kernels/cuda/host/threads.h"

#include <fstream>
#include <map>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace maestro::kernels::test {
namespace {

using cuda::host::BarrierSite;

struct Case {
  std::string kernel;
  std::vector<Attribute> attributes;
  std::vector<Tensor> inputs, outputs;
};

/// Calls that meet every barrier more than once, so that what it guards is written again.
std::vector<Case> cases() {
  Random random(1);
  auto f32 = [&](std::vector<int64_t> shape) { return random.floats(DType::F32, std::move(shape)); };
  auto empty = [](std::vector<int64_t> shape) { return Tensor(DType::F32, std::move(shape)); };
  Tensor wide = f32({3, 2000}), row = f32({2000}), statistic = empty({3});
  Tensor mask = random.booleans({5000}), q = f32({1, 2, 70, 72}), lse = empty({1, 2, 70});
  int64_t set = 0;
  for (int64_t i = 0; i < mask.size(); ++i)
    set += mask.at(i) != 0;
  Tensor scalars = Tensor::of(DType::F32, {8}, {0.01, 0.1, 0.001, 1, 1});
  std::vector<Attribute> axis{ints("axis", {1})}, scale{number("scale", 0.2)};
  std::vector<Tensor> attended{q, lse};
  // More elements of h than a block has threads, and a gradient of the first states alone.
  std::vector<Attribute> gru{text("cell", "gru")};
  Tensor x = random.floats(DType::F32, {1, 3, 900}), weight = random.floats(DType::F32, {900, 300}, 0.05);
  Tensor initial = f32({1, 300}), states = empty({1, 3, 300}), gates = empty({1, 3, 1200});
  std::vector<Tensor> recurrent{states, gates};
  EXPECT_TRUE(call(*createReferenceLibrary(), "recurrence", gru, {x, weight, initial, Tensor(), Tensor()}, recurrent)
                  .status.isOk());
  EXPECT_TRUE(call(*createReferenceLibrary(), "attention", scale, {q, q, q, Tensor()}, attended).status.isOk());
  return {
      {"softmax", axis, {wide}, {wide}},
      {"layer_norm", axis, {wide, row, row}, {wide, statistic, statistic}},
      {"sum_squares", {}, {f32({30000})}, {Tensor(DType::F64, {1})}},
      {"reduce_sum", {ints("axes", {1})}, {wide}, {statistic}},
      {"reduce_sum", {ints("axes", {0})}, {f32({300, 264})}, {empty({264})}},
      {"rms_norm_grad", axis, {f32({40, 72}), f32({40, 72}), f32({40}), f32({72})}, {empty({40, 72}), empty({72})}},
      {"adamw", {}, {row, f32({2000}), f32({2000}), f32({2000}), scalars}, {row, row, row, row, Tensor()}},
      {"transpose", {ints("permutation", {0, 2, 1})}, {f32({2, 70, 40})}, {empty({2, 40, 70})}},
      // So many matrices that blocks take turns.
      {"transpose", {ints("permutation", {0, 2, 1})}, {f32({1026, 3, 2})}, {empty({1026, 2, 3})}},
      {"gather_grad",
       {ints("axis", {0})},
       {random.integers(DType::I64, {600}, 0, 50), f32({600, 3})},
       {empty({50, 3})}},
      {"masked_scatter", {}, {f32({5000}), mask, f32({set})}, {empty({5000})}},
      {"masked_scatter_grad", {}, {random.booleans({600000}), f32({600000})}, {empty({600000})}},
      {"recurrence", gru, {x, weight, initial, Tensor(), Tensor()}, {states, gates}},
      {"recurrence_grad", gru, {f32({1, 3, 300}), weight, initial, recurrent[0], recurrent[1], Tensor()}, {x, initial}},
      {"attention", scale, {q, q, q, Tensor()}, {q, lse}},
      {"attention_grad", scale, {q, q, q, q, attended[0], attended[1], Tensor()}, {q, q, q}},
  };
}

/// The results of a run, or nothing where the kernel failed. `order`: 1 or 2 (cuda::host::createHostLibrary).
std::vector<std::vector<double>> resultsOf(const Library &library, const Case &c, int order) {
  std::vector<Tensor> outputs = c.outputs;
  std::vector<std::vector<double>> values;
  if (call(library, c.kernel, c.attributes, c.inputs, outputs, order).status.isOk())
    for (const Tensor &output : outputs)
      values.push_back(output.values());
  return values;
}

bool differ(const std::vector<std::vector<double>> &a, const std::vector<std::vector<double>> &b) {
  if (a.size() != b.size())
    return true;
  for (size_t i = 0; i < a.size(); ++i)
    if (!std::equal(a[i].begin(), a[i].end(), b[i].begin(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }))
      return true;
  return false;
}

/// The call with other operands.
Case doubled(Case c) {
  for (Tensor &input : c.inputs)
    for (int64_t i = 0; i < input.size() && isFloat(input.type().dtype); ++i)
      input.set(i, 2 * input.at(i));
  return c;
}

/// Whether the call gives something else in a process of its own: without a barrier it may read anything and crash.
bool noticesIn(const Library &library, const Case &c, const std::vector<std::vector<double>> &expected) {
  pid_t child = ::fork();
  if (child == 0) {
    ::rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    bool noticed = false;
    for (int order = 1; order <= 2; ++order) {
      resultsOf(library, doubled(c), order); // Shared memory holds what other operands left.
      noticed = noticed || differ(resultsOf(library, c, order), expected);
    }
    ::_exit(noticed);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status != 0;
}

/// The barriers that the kernels' sources have.
std::set<std::pair<std::string, unsigned>> barriersInSources() {
  std::set<std::pair<std::string, unsigned>> found;
  for (const auto &entry : std::filesystem::directory_iterator(MAESTRO_KERNEL_SOURCES)) {
    std::ifstream file(entry.path());
    std::string line;
    for (unsigned number = 1; std::getline(file, line); ++number)
      if (line.find("__syncthreads()") != std::string::npos)
        found.insert({entry.path().filename(), number});
  }
  return found;
}

TEST(Barriers, EachIsNeeded) {
  auto library = cuda::host::createHostLibrary();
  cuda::host::Options &options = cuda::host::options();
  std::map<BarrierSite, bool> found; // Whether a call noticed that it was left out.
  for (const Case &c : cases()) {
    SCOPED_TRACE(c.kernel);
    std::set<BarrierSite> met;
    options.barriers = &met;
    auto expected = resultsOf(*library, c, 1);
    options.barriers = nullptr;
    ASSERT_FALSE(expected.empty());
    EXPECT_FALSE(differ(resultsOf(*library, c, 2), expected));
    for (const BarrierSite &site : met) {
      options.omitted = site;
      bool &noticed = found[site];
      noticed = noticed || noticesIn(*library, c, expected);
      options.omitted.reset();
    }
  }
  std::set<std::pair<std::string, unsigned>> tried;
  for (auto &[site, noticed] : found) {
    EXPECT_TRUE(noticed) << "without the barrier at " << site.file << ":" << site.line << " every result is the same";
    tried.insert({std::filesystem::path(site.file).filename(), site.line});
  }
  EXPECT_EQ(tried, barriersInSources()) << "give a case to each barrier";
}

TEST(Barriers, ADivergentOneIsReported) {
  cuda::host::KernelEntry half{"half", 1, [](const void *) {
                                 if (cuda::host::threadIndex.x < 16)
                                   cuda::host::barrier(std::source_location::current());
                               }};
  char nothing = 0;
  Status status = cuda::host::runGrid(half, {}, 32, 0, &nothing);
  EXPECT_EQ(status.message(), "kernel half: 16 of the 32 threads of a block wait at a barrier, the others have ended");
}

} // namespace
} // namespace maestro::kernels::test
