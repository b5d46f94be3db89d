#include "tools/profile/subjects.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace maestro::profile {
namespace {

using kernels::Attribute;
using kernels::TensorType;

TensorType tensor(std::vector<int64_t> shape, DType dtype = DType::F32) { return TensorType(dtype, shape); }
Attribute ints(std::string name, std::vector<int64_t> values) {
  return {std::move(name), Attribute::Kind::Ints, std::move(values), {}, {}};
}
Attribute text(std::string name, std::string value) {
  return {std::move(name), Attribute::Kind::Text, {}, {}, std::move(value)};
}
Attribute number(std::string name, double value) { return {std::move(name), Attribute::Kind::Floats, {}, {value}, {}}; }

/// Which operands lie far away.
constexpr uint32_t kNone = 0, kFirst = 1, kSecond = 2, kFifth = 16;

void addAttention(std::vector<Subject> &list, int64_t queries, int64_t keys, int64_t depth, DType dtype = DType::F32) {
  constexpr int64_t kHeads = 4;
  TensorType q = tensor({queries / keys / kHeads, keys, kHeads, depth}, dtype),
             lse = tensor({queries / keys / kHeads, kHeads, keys});
  std::vector<double> sizes{static_cast<double>(queries), static_cast<double>(keys), static_cast<double>(depth)};
  for (bool causal : {false, true}) {
    std::vector<Attribute> attributes{number("scale", 0.125), ints("causal", {causal}), ints("sequence_major", {1})};
    std::string kind = causal ? " causal" : "";
    list.push_back({"attention" + kind, "attention", attributes, {q, q, q, TensorType()}, {q, lse}, sizes});
    list.push_back({"attention_grad" + kind,
                    "attention_grad",
                    attributes,
                    {q, q, q, q, q, lse, TensorType()},
                    {q, q, q},
                    sizes,
                    false,
                    kFifth});
  }
  TensorType mask = tensor({queries / keys / kHeads, 1, keys, keys}, DType::Bool);
  std::vector<Attribute> attributes{number("scale", 0.125), ints("causal", {0}), ints("sequence_major", {1})};
  list.push_back({"attention masked", "attention", attributes, {q, q, q, mask}, {q, lse}, sizes, true});
  list.push_back({"attention_grad masked",
                  "attention_grad",
                  attributes,
                  {q, q, q, q, q, lse, mask},
                  {q, q, q},
                  sizes,
                  true,
                  kFifth});
}

/// Kernels whose time depends on how wide rows are.
void addRows(std::vector<Subject> &list, int64_t rows, int64_t width) {
  TensorType x = tensor({rows, width}), row = tensor({rows}), scale = tensor({width}), ids = tensor({rows}, DType::I64);
  std::vector<double> sizes{static_cast<double>(rows), static_cast<double>(width), 1};
  list.push_back({"softmax", "softmax", {ints("axis", {1})}, {x}, {x}, sizes});
  std::vector<Attribute> axis{ints("axis", {1})}, norm{ints("axis", {1}), number("epsilon", 1e-6)};
  list.push_back({"rms_norm", "rms_norm", norm, {x, scale}, {x, row}, sizes, false, kNone, kFirst});
  list.push_back({"rms_norm_grad", "rms_norm_grad", axis, {x, x, row, scale}, {x, scale}, sizes, false, kSecond});
  list.push_back({"layer_norm", "layer_norm", norm, {x, scale, scale}, {x, row, row}, sizes, false, kNone, kFirst});
  list.push_back(
      {"layer_norm_grad", "layer_norm_grad", axis, {x, x, row, row, scale}, {x, scale, scale}, sizes, false, kSecond});
  list.push_back({"cross_entropy", "cross_entropy", {}, {x, ids}, {row, row}, sizes});
  list.push_back({"cross_entropy_grad", "cross_entropy_grad", {}, {x, ids, row, row}, {x}, sizes});
  list.push_back({"kl_divergence", "kl_divergence", {number("temperature", 2)}, {x, x}, {row, row, row}, sizes});
}

/// Filters beside each other on images of 2 x 2 patches in 3 channels, as vision models cut them.
void addConvolutions(std::vector<Subject> &list, int64_t patches, int64_t filters, int64_t size) {
  TensorType x = tensor({patches / 4, 3, 2 * size, 2 * size}), w = tensor({filters, 3, size, size}),
             y = tensor({patches / 4, filters, 2, 2});
  std::vector<Attribute> attributes{ints("strides", {size, size})};
  std::vector<double> sizes{static_cast<double>(patches), static_cast<double>(filters),
                            static_cast<double>(3 * size * size)};
  list.push_back({"conv", "conv", attributes, {x, w, TensorType()}, {y}, sizes});
  list.push_back({"conv_grad_weight", "conv_grad_weight", attributes, {x, y}, {w}, sizes});
  list.push_back({"conv_grad_input", "conv_grad_input", attributes, {y, w}, {x}, sizes});
}

/// Kernels on `rows` rows of `width`.
void addKernels(std::vector<Subject> &list, int64_t rows, int64_t width) {
  TensorType x = tensor({rows, width}), scale = tensor({width});
  TensorType heads = tensor({1, rows, width / 16, 16}), moved = tensor({1, width / 16, rows, 16}),
             table = tensor({1, 1, rows, 16});
  TensorType ids = tensor({rows}, DType::I64);
  list.push_back(addition(rows, width));
  list.push_back({"mul", "mul", {}, {x, x}, {x}, {}, false, kSecond});
  std::vector<Attribute> none, tanh{text("approximate", "tanh")};
  for (const auto &[curve, kernel, attributes] :
       {std::tuple{"gelu", "gelu", none}, {"gelu tanh", "gelu", tanh}, {"silu", "silu", none}})
    list.push_back({curve, kernel, attributes, {x}, {x}, {}, false, kNone, kFirst});
  for (const auto &[curve, kernel, attributes] : {std::tuple{"gelu_grad", "gelu_grad", none},
                                                  {"gelu_grad tanh", "gelu_grad", tanh},
                                                  {"silu_grad", "silu_grad", none}})
    list.push_back({curve, kernel, attributes, {x, x}, {x}, {}, false, kFirst});
  list.push_back({"sin", "sin", {}, {x}, {x}, {}});
  TensorType part = tensor({rows, width / 2});
  list.push_back({"concat", "concat", {ints("axis", {1})}, {part, part}, {x}, {}});
  list.push_back({"transpose", "transpose", {ints("permutation", {0, 2, 1, 3})}, {heads}, {moved}, {}});
  list.push_back(
      {"rope", "rope", {ints("interleaved", {0}), ints("adjoint", {0})}, {moved, table, table}, {moved}, {}});
  list.push_back({"reduce_sum", "reduce_sum", {ints("axes", {0})}, {x}, {scale}, {}});
  auto moves = static_cast<double>(2 * x.bytes() + ids.bytes()); // As the operator counts them: not the whole table.
  list.push_back({"gather", "gather", {ints("axis", {0})}, {x, ids}, {x}, {moves}});
  TensorType mask = tensor({rows, width}, DType::Bool);
  list.push_back({"masked_scatter", "masked_scatter", {}, {x, mask, tensor({0})}, {x}, {}});
  list.push_back({"gather_grad", "gather_grad", {ints("axis", {0})}, {ids, x}, {x}, {}});
}

} // namespace

Subject product(DType dtype, int64_t m, int64_t n, int64_t k) {
  return {dtype == DType::BF16 ? "matmul bf16" : "matmul f32",
          "matmul",
          {ints("transpose_b", {1})},
          {tensor({m, k}, dtype), tensor({n, k}, dtype), TensorType()},
          {tensor({m, n}, dtype)},
          {static_cast<double>(m), static_cast<double>(n), static_cast<double>(k)}};
}

Subject addition(int64_t rows, int64_t width) {
  TensorType x = tensor({rows, width});
  return {"add", "add", {}, {x, x}, {x}, {}};
}

Subject gradientProduct(int64_t m, int64_t n, int64_t k) {
  return {"matmul transposed f32",
          "matmul",
          {ints("transpose_a", {1}), ints("accumulate", {1})},
          {tensor({k, m}), tensor({k, n}), TensorType()},
          {tensor({m, n})},
          {static_cast<double>(m), static_cast<double>(n), static_cast<double>(k)},
          false,
          kFirst};
}

Subject pulseProduct() { return product(DType::F32, 128, 128, 128); }

std::vector<Subject> subjects() {
  std::vector<Subject> list;
  constexpr std::array<int64_t, 4> sizes{32, 128, 512, 2048};
  constexpr std::array<int64_t, 3> fewer{32, 256, 1024};
  for (int64_t m : {8, 32, 128, 512, 2048})
    for (int64_t n : sizes)
      for (int64_t k : sizes)
        list.push_back(product(DType::F32, m, n, k));
  for (int64_t m : sizes)
    for (int64_t n : sizes)
      for (int64_t k : {8, 32, 128, 512, 2048})
        list.push_back(gradientProduct(m, n, k));
  for (int64_t m : fewer)
    for (int64_t n : fewer)
      for (int64_t k : fewer)
        list.push_back(product(DType::BF16, m, n, k));
  for (auto [rows, width] : {std::array<int64_t, 2>{64, 64}, {512, 64}, {512, 512}, {2048, 1024}, {8192, 1024}})
    addKernels(list, rows, width);
  for (int64_t patches : {4, 64, 1024})
    for (int64_t filters : {64, 512})
      for (int64_t size : {4, 16})
        addConvolutions(list, patches, filters, size);
  for (int64_t rows : {64, 1024, 8192})
    for (int64_t width : {16, 64, 512, 2048})
      addRows(list, rows, width);
  for (int64_t queries : {4096, 16384})
    for (int64_t keys : {4, 16, 64, 256, 1024})
      for (int64_t depth : {16, 32, 64, 128})
        addAttention(list, queries, keys, depth);
  return list;
}

std::vector<Subject> gpuSubjects(int64_t shrink) {
  std::vector<Subject> list;
  auto shrunk = [&](std::vector<int64_t> sizes, int64_t least) { // Each once: small ones may shrink to the same.
    for (int64_t &size : sizes)
      size = std::max(size / shrink, least);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
  };
  auto less = [&](std::vector<int64_t> sizes) { return shrunk(std::move(sizes), 16); };
  auto fewer = [&](std::vector<int64_t> heads) { return shrunk(std::move(heads), 4); };
  for (int64_t m : less({128, 1024, 8192}))
    for (int64_t n : less({1024, 4096, 16384}))
      for (int64_t k : less({1024, 4096, 16384})) {
        list.push_back(product(DType::F32, m, n, k));
        list.push_back(gradientProduct(m, n, k));
        list.push_back(product(DType::BF16, m, n, k));
      }
  for (int64_t keys : less({1024, 4096}))
    for (int64_t heads : fewer({32, 128}))
      for (int64_t depth : less({64, 128}))
        addAttention(list, heads * less({4096}).back(), keys, depth, DType::BF16);
  for (int64_t width : less({1024, 4096, 16384})) {
    std::vector<Subject> own;
    addKernels(own, width, width);
    for (Subject &subject : own)
      if (subject.kernel != "gather_grad") // All of one row here: its indices are zero.
        list.push_back(std::move(subject));
  }
  return list;
}

std::vector<Subject> companions() {
  std::vector<Subject> list;
  for (int64_t rows = 40; rows < 104; rows += 16) { // Products between others, as they come.
    std::vector<Subject> others;
    addKernels(others, rows, 64);
    addRows(others, rows, 64);
    for (size_t i = 0; i < others.size(); ++i) {
      auto more = static_cast<int64_t>(i);
      list.push_back(std::move(others[i]));
      list.push_back(i % 2 ? product(DType::F32, rows + more, 96, 96) : gradientProduct(96, 96, rows + more));
    }
  }
  return list;
}

Subject optimizerStep() {
  TensorType large = tensor({8, 1 << 20});
  return {"adamw", "adamw", {}, {large, large, large, large, tensor({8})}, {large, large, large, large, TensorType()},
          {}};
}

} // namespace maestro::profile
