// Running a prepared kernel allocates nothing: every way to the heap is counted while kernels run.
// oneDNN allocates inside its own execute(); its kernels are held to a fixed small number instead.
#include "test/allocations/allocations.h"
#include "test/kernels/harness.h"

namespace maestro::kernels::test {
namespace {

/// Calls of operator new during `runs` runs after a first one.
int64_t allocationsPerRuns(std::string_view kernel, const std::vector<Attribute> &attributes,
                           const std::vector<Tensor> &inputs, std::vector<Tensor> outputs, int runs) {
  auto library = createCpuLibrary();
  std::vector<TensorType> in, out;
  std::vector<const void *> sources;
  std::vector<void *> targets;
  for (const Tensor &tensor : inputs) {
    in.push_back(tensor.type());
    sources.push_back(tensor.data());
  }
  for (Tensor &tensor : outputs) {
    out.push_back(tensor.type());
    targets.push_back(tensor.data());
  }
  auto prepared = library->prepare({kernel, Attributes(attributes), in, out, 2});
  EXPECT_TRUE(prepared.isOk() && *prepared);
  std::vector<uint8_t> scratch((*prepared)->scratchBytes() + 64);
  void *aligned = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) & ~uintptr_t{63});
  EXPECT_TRUE((*prepared)->run(sources, targets, aligned).isOk());
  int64_t before = maestro::test::allocations();
  for (int i = 0; i < runs; ++i)
    EXPECT_TRUE((*prepared)->run(sources, targets, aligned).isOk());
  return maestro::test::allocations() - before;
}

TEST(Allocation, OwnKernelsAllocateNothing) {
  Random random(1);
  auto f = [&](std::vector<int64_t> shape) { return random.floats(DType::F32, shape); };
  Tensor x = f({300, 200}), row = f({200}), column = f({300}), labels = random.integers(DType::I64, {300}, 0, 200);
  EXPECT_EQ(allocationsPerRuns("add", {}, {x, row}, {x}, 5), 0);
  EXPECT_EQ(allocationsPerRuns("gelu", {}, {x}, {x}, 5), 0);
  EXPECT_EQ(allocationsPerRuns("softmax", {ints("axis", {1})}, {x}, {x}, 5), 0);
  EXPECT_EQ(allocationsPerRuns("layer_norm", {ints("axis", {1})}, {x, row, row}, {x, column, column}, 5), 0);
  EXPECT_EQ(allocationsPerRuns("layer_norm_grad", {ints("axis", {1})}, {x, x, column, column, row}, {x, row, row}, 5),
            0);
  EXPECT_EQ(allocationsPerRuns("reduce_sum", {ints("axes", {0})}, {x}, {row}, 5), 0);
  EXPECT_EQ(allocationsPerRuns("transpose", {ints("permutation", {1, 0})}, {x}, {f({200, 300})}, 5), 0);
  EXPECT_EQ(allocationsPerRuns("concat", {ints("axis", {0})}, {x, x}, {f({600, 200})}, 5), 0);
  EXPECT_EQ(allocationsPerRuns("cross_entropy", {}, {x, labels}, {column, column}, 5), 0);
  EXPECT_EQ(allocationsPerRuns("gather", {ints("axis", {0})}, {x, labels}, {x}, 5), 0);
  EXPECT_EQ(allocationsPerRuns("gather_grad", {ints("axis", {0})}, {labels, x}, {x}, 5), 0);
  Tensor q = f({2, 100, 3, 16}), lse = f({2, 3, 100});
  std::vector<Attribute> attention{number("scale", 0.25), flag("causal"), flag("sequence_major")};
  EXPECT_EQ(allocationsPerRuns("attention", attention, {q, q, q, Tensor()}, {q, lse}, 5), 0);
  EXPECT_EQ(allocationsPerRuns("attention_grad", attention, {q, q, q, q, q, lse, Tensor()}, {q, q, q}, 5), 0);
  EXPECT_EQ(allocationsPerRuns("matmul", {}, {x, f({200, 70}), f({70})}, {f({300, 70})}, 5), 0);
  EXPECT_EQ(allocationsPerRuns("adamw", {}, {x, x, x, x, f({8})}, {x, x, x, x, Tensor()}, 5), 0);
  EXPECT_EQ(allocationsPerRuns("adam", {ints("accumulate", {0})}, {x, x, x, x, f({8})}, {x, x, x, x, Tensor()}, 5), 0);
  EXPECT_EQ(allocationsPerRuns("exp", {ints("accumulate", {1})}, {x}, {x}, 5), 0);
}

TEST(Allocation, LargeProductsAllocateOnlyInsideOneDnn) {
  Random random(2);
  Tensor a = random.floats(DType::F32, {512, 256}), b = random.floats(DType::F32, {256, 300}),
         c = random.floats(DType::F32, {512, 300});
  // oneDNN is a shared library: its operator new is this program's, so its allocations are counted too.
  EXPECT_LE(allocationsPerRuns("matmul", {}, {a, b, Tensor()}, {c}, 20), 20 * 12);
}

} // namespace
} // namespace maestro::kernels::test
