// The predicted scratch memory of a call is never less than what the CUDA library's kernel asks for, and not absurdly
// more.
#include "cost_models/gpu_memory.h"

#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/host/functions.h"
#include "test/cost_models/calls.h"

#include <gtest/gtest.h>

#include <string>

namespace maestro::cost_models {
namespace {

using namespace test;

/// With attention by cuDNN, where its headers are: the fake one's workspaces are of the size of scores.
std::unique_ptr<kernels::Library> makeLibrary() {
  kernels::cuda::Libraries first;
#ifdef MAESTRO_CUDNN
  static kernels::cuda::host::HostFunctions functions;
  first.push_back(kernels::cuda::createCudnnLibrary(functions, {}));
#endif
  return kernels::cuda::host::createHostLibrary(std::move(first));
}

void hold(const Call &call) {
  static auto library = makeLibrary();
  std::vector<kernels::Attribute> attributes = call.attributes;
  attributes.push_back(ints("accumulate", {static_cast<int64_t>(call.accumulate)}));
  auto in = types(call.inputs), out = types(call.outputs);
  auto kernel = library->prepare({call.kernel, kernels::Attributes(attributes), in, out, 1});
  ASSERT_TRUE(kernel.isOk() && *kernel) << call.kernel << ": " << kernel.status().message();
  uint64_t needed = (*kernel)->scratchBytes();
  uint64_t predicted = gpuScratchBytes({call.kernel, call.inputs, call.outputs, call.accumulate});
  EXPECT_LE(needed, predicted) << call.kernel;
  EXPECT_LE(predicted, 2 * needed + (uint64_t{32} << 20)) << call.kernel;
}

TEST(GpuMemoryTest, scratchIsNotUnderWhatKernelsAskFor) {
  int64_t rows = 4096, width = 4096, vocabulary = 32000;
  hold({"matmul", {}, {bf16({rows, width}), bf16({width, 512}), {}}, {bf16({rows, 512})}});
  for (auto axes : {std::vector<int64_t>{0}, {1}, {0, 1}}) {
    Shape kept = axes.size() == 2 ? Shape{} : Shape{axes[0] == 0 ? width : rows};
    for (uint64_t accumulate : {0, 1})
      hold({"reduce_sum", {ints("axes", axes)}, {f32({rows, width})}, {f32(kept)}, accumulate});
  }
  for (auto make : {f32, bf16}) {
    hold({"rms_norm_grad",
          {ints("axis", {1}), number("epsilon", 1e-5)},
          {make({rows, width}), make({rows, width}), f32({rows}), f32({width})},
          {make({rows, width}), f32({width})},
          2});
    hold({"layer_norm_grad",
          {ints("axis", {1}), number("epsilon", 1e-5)},
          {make({rows, width}), make({rows, width}), f32({rows}), f32({rows}), f32({width})},
          {make({rows, width}), f32({width}), f32({width})},
          6});
    KernelOperand heads = make({2, 512, 8, 64}), lse = f32({2, 8, 512});
    hold({"attention_grad",
          {number("scale", 0.125), ints("causal", {1}), ints("sequence_major", {1})},
          {heads, heads, heads, heads, heads, lse, {}},
          {heads, heads, heads}});
    for (Shape shape : {Shape{1, 1}, {2, 1}, {2, 8}}) {
      KernelOperand grouped = make({2, 500, 2, 64});
      KernelOperand bias = make({shape[0], shape[1], 512, 500});
      hold({"attention",
            {number("scale", 0.125), ints("sequence_major", {1})},
            {heads, grouped, grouped, bias},
            {heads, lse}});
      hold({"attention_grad",
            {number("scale", 0.125), ints("sequence_major", {1})},
            {heads, heads, grouped, grouped, heads, lse, bias},
            {heads, grouped, grouped}});
    }
    for (int64_t length : {2048, 8192, 32768}) { // Whole, in parts, in order.
      KernelOperand q = make({1, length, 8, 64}), k = make({1, length, 2, 64}), sums = f32({1, 8, length});
      hold({"attention_grad",
            {number("scale", 0.125), ints("causal", {1}), ints("sequence_major", {1})},
            {q, q, k, k, q, sums, {}},
            {q, k, k}});
    }
    for (int64_t samples : {4, 48}) { // At once, and in parts.
      KernelOperand x = make({samples, 64, 112, 112}), w = make({128, 64, 3, 3}), y = make({samples, 128, 56, 56});
      std::vector<kernels::Attribute> halves{ints("strides", {2, 2}), ints("pads", {1, 1, 1, 1})};
      hold({"conv", halves, {x, w, make({128})}, {y}});
      hold({"conv_grad_input", halves, {y, w}, {x}});
      hold({"conv_grad_weight", halves, {x, y}, {f32({128, 64, 3, 3})}, 1});
    }
    hold({"gather_grad", {ints("axis", {0})}, {i64({4, 1024}), make({4, 1024, 64})}, {f32({vocabulary, 64})}, 1});
    hold({"gather_nd_grad", {}, {i64({512, 2}), make({512})}, {make({64, 128})}});
    hold({"scatter_nd", {}, {make({64, 128}), i64({512, 2}), make({512})}, {make({64, 128})}});
    hold({"masked_scatter", {}, {make({rows, 64}), mask({rows, 64}), make({128, 64})}, {make({rows, 64})}});
    hold({"masked_scatter_grad", {}, {mask({rows, 64}), make({rows, 64})}, {make({128, 64})}});
    hold({"cross_entropy_grad",
          {ints("ignore_index", {-100})},
          {make({64, vocabulary}), i64({64}), f32({64}), f32({})},
          {make({64, vocabulary})}});
  }
  hold({"sum_squares", {}, {f32({vocabulary, 512})}, {of(DType::F64, {1})}, 1});
  for (const Shape &shape : {Shape{300, 200}, Shape{64, 1024}, Shape{4, 1024, 64}, Shape{1, 7}}) {
    KernelOperand p = f32(shape), scalars = f32({8});
    Shape rows = shape, columns = shape;
    rows.back() = columns[columns.size() - 2] = 1;
    if (shape.size() == 2)
      hold({"muon", {}, {p, p, p, scalars}, {p, p, p}});
    hold({"adafactor", {}, {p, p, f32(rows), f32(columns), scalars}, {p, f32(rows), f32(columns), p}});
  }
  hold({"adafactor",
        {},
        {f32({9000}), f32({9000}), {}, f32({9000}), f32({8})},
        {f32({9000}), {}, f32({9000}), f32({9000})}});
  hold({"conv_grad_weight", // Written aside: it cannot add.
        {ints("strides", {1, 1}), ints("pads", {1, 1, 1, 1}), ints("dilations", {1, 1})},
        {f32({2, 16, 32, 32}), f32({2, 64, 32, 32})},
        {f32({64, 16, 3, 3})},
        1});
}

} // namespace
} // namespace maestro::cost_models
