#include "tools/profile/subjects.h"

#include <array>

namespace maestro::profile {
namespace {

using kernels::Attribute;
using kernels::TensorType;

TensorType tensor(std::vector<int64_t> shape, DType dtype = DType::F32) { return TensorType(dtype, shape); }
Attribute ints(std::string name, std::vector<int64_t> values) {
  return {std::move(name), Attribute::Kind::Ints, std::move(values), {}, {}};
}
Attribute number(std::string name, double value) { return {std::move(name), Attribute::Kind::Floats, {}, {value}, {}}; }

/// Attention's work is its operations, as its operator counts them (ir/nn/costs.cpp): of all scores, with a causal mask, too.
void addAttention(std::vector<Subject> &list, int64_t batch, int64_t length, int64_t heads, int64_t depth) {
  TensorType q = tensor({batch, length, heads, depth}), lse = tensor({batch, heads, length});
  std::vector<Attribute> attributes{number("scale", 0.125), ints("causal", {1}), ints("sequence_major", {1})};
  auto scores = static_cast<double>(batch * heads * length * length), width = static_cast<double>(depth);
  list.push_back({"attention", "attention", attributes, {q, q, q, TensorType()}, {q, lse}, {scores * (4 * width + 12)}});
  list.push_back({"attention_grad", "attention_grad", attributes, {q, q, q, q, q, lse, TensorType()}, {q, q, q}, {scores * (10 * width + 14)}});
}

/// Kernels on `rows` rows of `width`.
void addRowKernels(std::vector<Subject> &list, int64_t rows, int64_t width) {
  TensorType x = tensor({rows, width}), row = tensor({rows}), scale = tensor({width});
  TensorType heads = tensor({1, rows, width / 16, 16}), moved = tensor({1, width / 16, rows, 16}), table = tensor({1, 1, rows, 16});
  TensorType ids = tensor({rows}, DType::I64);
  list.push_back({"add", "add", {}, {x, x}, {x}, {}});
  list.push_back({"gelu", "gelu", {}, {x}, {x}, {}});
  list.push_back({"softmax", "softmax", {ints("axis", {1})}, {x}, {x}, {}});
  list.push_back({"rms_norm", "rms_norm", {ints("axis", {1}), number("epsilon", 1e-6)}, {x, scale}, {x, row}, {}});
  list.push_back({"rms_norm_grad", "rms_norm_grad", {ints("axis", {1})}, {x, x, row, scale}, {x, scale}, {}});
  list.push_back({"cross_entropy", "cross_entropy", {}, {x, ids}, {row, row}, {}});
  list.push_back({"transpose", "transpose", {ints("permutation", {0, 2, 1, 3})}, {heads}, {moved}, {}});
  list.push_back({"rope", "rope", {ints("interleaved", {0}), ints("adjoint", {0})}, {moved, table, table}, {moved}, {}});
  list.push_back({"reduce_sum", "reduce_sum", {ints("axes", {0})}, {x}, {scale}, {}});
  auto moves = static_cast<double>(2 * x.bytes() + ids.bytes()); // As the operator counts them: not the whole table.
  list.push_back({"gather", "gather", {ints("axis", {0})}, {x, ids}, {x}, {moves}});
  list.push_back({"gather_grad", "gather_grad", {ints("axis", {0})}, {ids, x}, {x}, {}});
}

} // namespace

Subject product(DType dtype, int64_t m, int64_t n, int64_t k) {
  return {dtype == DType::BF16 ? "matmul bf16" : "matmul f32", "matmul", {ints("transpose_b", {1})},
          {tensor({m, k}, dtype), tensor({n, k}, dtype), TensorType()}, {tensor({m, n}, dtype)},
          {static_cast<double>(m), static_cast<double>(n), static_cast<double>(k)}};
}

std::vector<Subject> subjects() {
  std::vector<Subject> list;
  constexpr std::array<int64_t, 4> sizes{32, 128, 512, 2048};
  constexpr std::array<int64_t, 3> fewer{32, 256, 1024};
  for (int64_t m : sizes)
    for (int64_t n : sizes)
      for (int64_t k : sizes)
        list.push_back(product(DType::F32, m, n, k));
  for (int64_t m : fewer)
    for (int64_t n : fewer)
      for (int64_t k : fewer)
        list.push_back(product(DType::BF16, m, n, k));
  for (auto [rows, width] : {std::array<int64_t, 2>{64, 64}, {512, 64}, {512, 512}, {2048, 1024}, {8192, 1024}})
    addRowKernels(list, rows, width);
  for (auto [batch, length, heads, depth] : {std::array<int64_t, 4>{1, 64, 2, 32}, {4, 128, 4, 32}, {4, 256, 8, 64}, {1, 1024, 8, 64}})
    addAttention(list, batch, length, heads, depth);
  return list;
}

Subject optimizerStep() {
  TensorType large = tensor({8, 1 << 20});
  return {"adamw", "adamw", {}, {large, large, large, large, tensor({8})}, {large, large, large, large, TensorType()}, {}};
}

Subject smallestCall() {
  TensorType one = tensor({1});
  return {"call", "add", {}, {one, one}, {one}, {}};
}

} // namespace maestro::profile
