// The predicted scratch memory of a call is never less than what the CPU library's kernel asks for, and not absurdly
// more.
#include "cost_models/cpu_memory.h"

#include "kernels/kernel.h"
#include "test/cost_models/calls.h"

#include <gtest/gtest.h>

#include <string>

namespace maestro::cost_models {
namespace {

using namespace test;

/// Bytes that the library asks for; fails the test where it has no such kernel.
uint64_t asked(const Call &call, int threads) {
  static auto library = kernels::createCpuLibrary();
  std::vector<kernels::Attribute> attributes = call.attributes;
  attributes.push_back(ints("accumulate", {static_cast<int64_t>(call.accumulate)}));
  auto in = types(call.inputs), out = types(call.outputs);
  auto kernel = library->prepare({call.kernel, kernels::Attributes(attributes), in, out, threads});
  EXPECT_TRUE(kernel.isOk() && *kernel) << call.kernel << ": " << kernel.status().message();
  return kernel.isOk() && *kernel ? (*kernel)->scratchBytes() : 0;
}

/// As it is here: a product of bf16 asks for copies of its operands, or it does not.
Bf16Products here() {
  static const uint64_t bytes =
      asked({"matmul", {}, {bf16({1024, 1024}), bf16({1024, 1024}), {}}, {bf16({1024, 1024})}, 0}, 1);
  return bytes > uint64_t{8} << 20 ? Bf16Products::Widened : Bf16Products::Native;
}

void hold(const Call &call) {
  for (int threads : {1, 2, 8, 32}) {
    uint64_t predicted = cpuScratchBytes({call.kernel, call.inputs, call.outputs, call.accumulate}, threads, here());
    uint64_t needed = asked(call, threads);
    EXPECT_LE(needed, predicted) << call.kernel << " on " << threads << " threads";
    uint64_t operands = 0;
    for (const auto &list : {call.inputs, call.outputs})
      for (const KernelOperand &operand : list)
        operands += operand.bytes();
    uint64_t room = (uint64_t{4} << 20) + static_cast<uint64_t>(threads) * (uint64_t{5} << 19);
    if (threads > 8)
      continue; // There it errs upwards by more.
    EXPECT_LE(predicted, 4 * needed + (call.kernel.starts_with("conv") ? 2 * operands : 0) + room) << call.kernel;
  }
}

TEST(CpuMemoryTest, products) {
  for (auto make : {f32, bf16})
    for (auto [m, n, k] : {std::array<int64_t, 3>{1024, 50257, 512},
                           {512, 50257, 1024},
                           {1024, 512, 50257},
                           {4096, 4096, 4096},
                           {7, 3, 5},
                           {1, 2048, 300}})
      for (int64_t transposed : {0, 1, 2}) {
        std::vector<kernels::Attribute> attributes = {ints("transpose_a", {transposed == 1}),
                                                      ints("transpose_b", {transposed == 2})};
        KernelOperand a = make(transposed == 1 ? Shape{k, m} : Shape{m, k});
        KernelOperand b = make(transposed == 2 ? Shape{n, k} : Shape{k, n});
        hold({"matmul", attributes, {a, b, {}}, {f32({m, n})}, 1});
        hold({"matmul", attributes, {a, b, {}}, {make({m, n})}, 0});
      }
}

TEST(CpuMemoryTest, attention) {
  for (auto make : {f32, bf16})
    for (auto [sequence, depth] : {std::array<int64_t, 2>{256, 64}, {2048, 128}, {33, 20}}) {
      KernelOperand q = make({2, sequence, 8, depth}), k = make({2, sequence, 2, depth}), lse = f32({2, 8, sequence});
      std::vector<kernels::Attribute> attributes = {number("scale", 0.1), ints("causal", {1}),
                                                    ints("sequence_major", {1})};
      hold({"attention", attributes, {q, k, k, {}}, {q, lse}});
      hold({"attention_grad", attributes, {q, q, k, k, q, lse, {}}, {q, k, k}});
    }
}

TEST(CpuMemoryTest, recurrences) {
  kernels::Attribute lstm;
  lstm.name = "cell";
  lstm.kind = kernels::Attribute::Kind::Text;
  lstm.text = "lstm";
  for (int64_t hidden : {3, 512}) {
    KernelOperand x = f32({8, 20, 4 * hidden}), weight = f32({4 * hidden, hidden}), states = f32({8, 20, 2 * hidden});
    KernelOperand initial = f32({8, 2 * hidden});
    hold({"recurrence", {lstm}, {x, weight, initial, {}, {}}, {states, x}});
    hold({"recurrence_grad", {lstm}, {states, weight, initial, states, x, {}}, {x, initial}});
  }
}

TEST(CpuMemoryTest, convolutions) {
  for (auto make : {f32, bf16})
    for (auto [batch, from, to, size] : {std::array<int64_t, 4>{8, 3, 64, 64}, {4, 64, 128, 32}, {1, 1, 1, 5}}) {
      std::vector<kernels::Attribute> attributes = {ints("pads", {1, 1, 1, 1})};
      KernelOperand x = make({batch, from, size, size}), w = make({to, from, 3, 3}), y = make({batch, to, size, size});
      hold({"conv", attributes, {x, w, {}}, {y}});
      hold({"conv_grad_input", attributes, {y, w}, {x}});
      hold({"conv_grad_weight", attributes, {x, y}, {w}, 1});
    }
}

TEST(CpuMemoryTest, reductionsNormsAndWhatAddsAside) {
  KernelOperand x = f32({4, 300, 200}), rows = f32({4, 300}), row = f32({200});
  for (Shape axes : {Shape{0}, Shape{0, 1}, Shape{2}, Shape{0, 1, 2}}) {
    Shape kept;
    for (int64_t d = 0; d < 3; ++d)
      if (std::find(axes.begin(), axes.end(), d) == axes.end())
        kept.push_back(x.shape[static_cast<size_t>(d)]);
    hold({"reduce_sum", {ints("axes", axes)}, {x}, {f32(kept)}, 1});
    hold({"reduce_mean", {ints("axes", axes)}, {x}, {f32(kept)}});
  }
  hold({"sum_squares", {}, {f32({55000000})}, {of(DType::F64, {})}});
  for (const Shape &shape : {Shape{300, 200}, Shape{64, 1024}, Shape{1024, 64}, Shape{1, 7}}) {
    KernelOperand p = f32(shape), scalars = f32({8});
    hold({"muon", {}, {p, p, p, scalars}, {p, p, p}});
    hold({"adafactor",
          {},
          {p, p, f32({shape[0], 1}), f32({1, shape[1]}), scalars},
          {p, f32({shape[0], 1}), f32({1, shape[1]}), p}});
  }
  hold({"adafactor",
        {},
        {f32({9000}), f32({9000}), {}, f32({9000}), f32({8})},
        {f32({9000}), {}, f32({9000}), f32({9000})}});
  hold({"layer_norm", {ints("axis", {2})}, {x, row, row}, {x, rows, rows}});
  hold({"layer_norm_grad", {ints("axis", {2})}, {x, x, rows, rows, row}, {x, row, row}, 6});
  hold({"rms_norm", {ints("axis", {2})}, {x, row}, {x, rows}});
  hold({"rms_norm_grad", {ints("axis", {2})}, {x, x, rows, row}, {x, row}, 2});
  hold({"exp", {}, {x}, {x}, 1});
  hold({"gather_grad", {ints("axis", {0})}, {i64({1024}), f32({1024, 64})}, {f32({50257, 64})}, 1});
  hold({"softmax_grad", {ints("axis", {2})}, {x, x}, {x}});
  hold({"cross_entropy", {}, {f32({300, 200}), i64({300})}, {f32({300}), f32({300})}});
}

TEST(CpuMemoryTest, onlyLargeProductsLeaveHoles) {
  auto holes = [](int64_t m, int threads) {
    std::vector<KernelOperand> inputs = {f32({m, 512}), f32({512, 256}), {}}, outputs = {f32({m, 256})};
    return cpuHeapBytes({"matmul", inputs, outputs}, threads);
  };
  EXPECT_EQ(holes(256, 2), 0u);
  EXPECT_GT(holes(257, 2), 0u);
  EXPECT_GT(holes(257, 8), holes(257, 2));
  std::vector<KernelOperand> large = {f32({4096, 4096})};
  EXPECT_EQ(cpuHeapBytes({"exp", large, large}, 2), 0u);
}

TEST(CpuMemoryTest, theRestGrowsWithWhatCausesIt) {
  EXPECT_GT(cpuProcessBytes(8), cpuProcessBytes(2));
  EXPECT_GT(cpuCallBytes(1000), cpuCallBytes(100));
  EXPECT_EQ(assemblyBytes(1000), 2000u);
  EXPECT_EQ(sampleBytesOnTheirWay(32, 250), (4 * 32 + 64) * 250u);
  EXPECT_EQ(sampleBytesOnTheirWay(1, 1000), (4 + 8) * 1000u);
}

} // namespace
} // namespace maestro::cost_models
