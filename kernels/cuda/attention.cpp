// Preparing attention without a library.
#include "kernels/cuda/attention.h"

#include "kernels/attention_shape.h"
#include "kernels/cuda/prepare.h"

#include <algorithm>

namespace maestro::kernels::cuda {
namespace {

constexpr int64_t kTile = 32, kMaxDepth = 256;

RowStrides stridesOf(const AttentionShape &s, int64_t heads, int64_t length, int64_t width) {
  if (s.sequenceMajor)
    return {length * heads * width, width, heads * width};
  return {heads * length * width, length * width, width};
}

/// `q` is the operand of q (k and v follow), `mask` that of the mask.
AttentionParams paramsOf(const Call &call, const AttentionShape &s, size_t mask) {
  AttentionParams params{};
  params.heads = s.heads;
  params.group = s.group();
  params.queries = s.queries;
  params.keys = s.keys;
  params.depth = static_cast<int32_t>(s.depth);
  params.valueDepth = static_cast<int32_t>(s.valueDepth);
  params.qRows = stridesOf(s, s.heads, s.queries, s.depth);
  params.kRows = stridesOf(s, s.keyHeads, s.keys, s.depth);
  params.vRows = stridesOf(s, s.keyHeads, s.keys, s.valueDepth);
  params.oRows = stridesOf(s, s.heads, s.queries, s.valueDepth);
  std::copy_n(s.maskStrides.begin(), 4, params.maskStrides);
  params.scale = static_cast<float>(s.scale);
  params.softcap = static_cast<float>(s.softcap);
  params.causal = s.causal;
  params.causalOffset = s.causalOffset;
  if (call.hasIn(mask)) {
    params.mask = anyTensor(call.in(mask));
    params.boolean = call.in(mask).dtype == DType::Bool;
  }
  return params;
}

/// "64", "128" or "256": the slices that are compiled.
std::string sizeFor(int64_t depth) { return depth <= 64 ? "64" : depth <= 128 ? "128" : "256"; }

Grid tiles(int64_t rows, int64_t perBlock, int64_t heads, int64_t batch) {
  return {static_cast<unsigned>((rows + perBlock - 1) / perBlock), static_cast<unsigned>(heads),
          static_cast<unsigned>(batch)};
}

AttentionShape shapeOf(const Call &call, size_t q, size_t mask) {
  return {call.attributes(), call.in(q), call.in(q + 1), call.in(q + 2), call.hasIn(mask) ? &call.in(mask) : nullptr};
}

/// The element type of all of q, k, v and the others; null where they differ or the rows are too long.
const char *suffixOf(const AttentionShape &shape, std::span<const TensorType> rows, const TensorType &lse) {
  bool alike = std::ranges::all_of(rows, [&](const TensorType &type) { return type.dtype == rows[0].dtype; });
  if (!alike || lse.dtype != DType::F32 || shape.depth > kMaxDepth || shape.valueDepth > kMaxDepth)
    return nullptr;
  return fastSuffix(rows[0].dtype);
}

} // namespace

PreparedKernel prepareAttention(const Call &call) {
  AttentionShape shape = shapeOf(call, 0, 3);
  const char *suffix = suffixOf(shape, call.spec.inputs.first(3), call.out(1));
  if (!suffix || call.out(0).dtype != call.in(0).dtype)
    return unsupported();
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add("attention_" + sizeFor(shape.valueDepth) + "_" + suffix,
                            tiles(shape.queries, kTile, shape.heads, shape.batch), paramsOf(call, shape, 3),
                            [](AttentionParams &p, const Operands &o) {
                              p.q = o.in(0);
                              p.k = o.in(1);
                              p.v = o.in(2);
                              p.mask.data = address(o.in(3));
                              p.o = o.out(0);
                              p.lse = o.out<float>(1);
                            }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareAttentionGrad(const Call &call) {
  AttentionShape shape = shapeOf(call, 1, 6);
  const char *suffix = suffixOf(shape, call.spec.inputs.first(5), call.in(5));
  bool alike = std::ranges::all_of(call.spec.outputs, [&](const TensorType &t) { return t.dtype == call.in(0).dtype; });
  if (!suffix || !alike)
    return unsupported();
  auto sequence = call.sequence();
  size_t dots = sequence->reserve(call.in(5).bytes());
  AttentionGradParams params{};
  params.forward = paramsOf(call, shape, 6);
  auto bind = [dots](AttentionGradParams &p, const Operands &o) {
    p.grad = o.in(0);
    p.forward.q = o.in(1);
    p.forward.k = o.in(2);
    p.forward.v = o.in(3);
    p.forward.o = address(o.in(4));
    p.forward.lse = const_cast<float *>(o.in<float>(5));
    p.forward.mask.data = address(o.in(6));
    p.dots = o.scratchAt<float>(dots);
    p.dq = o.out(0);
    p.dk = o.out(1);
    p.dv = o.out(2);
  };
  std::string keys = sizeFor(std::max(shape.depth, shape.valueDepth));
  MAESTRO_TRY(sequence->add(std::string("attention_dots_") + suffix,
                            tiles(shape.queries, kBlock / 32, shape.heads, shape.batch), params, bind));
  MAESTRO_TRY(sequence->add("attention_grad_query_" + sizeFor(shape.depth) + "_" + suffix,
                            tiles(shape.queries, kTile, shape.heads, shape.batch), params, bind));
  MAESTRO_TRY(sequence->add("attention_grad_key_" + keys + "_" + suffix,
                            tiles(shape.keys, kTile, shape.keyHeads, shape.batch), params, bind));
  return prepared(std::move(sequence));
}

} // namespace maestro::kernels::cuda
