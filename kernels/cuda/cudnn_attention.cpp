#include "kernels/cuda/cudnn_attention.h"

#include <limits>

namespace maestro::kernels::cuda {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();
constexpr int64_t kWorkspaceSlack = 1 << 20;
constexpr cudnnDataType_t kRows = CUDNN_DATA_BFLOAT16;

/// Where row (b, h, i) of a tensor with `heads` heads of `length` rows lies.
Dims4 rowStrides(const AttentionShape &s, int64_t heads, int64_t length, int64_t width) {
  if (s.sequenceMajor)
    return {length * heads * width, width, heads * width, 1};
  return {heads * length * width, length * width, width, 1};
}
Dims4 exchanged(Dims4 dims) {
  std::swap(dims[2], dims[3]);
  return dims;
}

/// What both graphs begin with.
struct Builder {
  Graph &graph;
  const AttentionGraph &a;
  const AttentionShape &s = a.shape;
  int64_t b = a.batch, h = a.heads, hk = a.keyHeads;
  Dims4 scores{b, h, s.queries, s.keys}, column{b, h, s.queries, 1};

  const Tensor *queries(int64_t width) {
    return graph.held(kRows, {b, h, s.queries, width}, rowStrides(s, s.heads, s.queries, width));
  }
  const Tensor *keys(int64_t width, bool transposed) {
    Dims4 dims{b, hk, s.keys, width}, strides = rowStrides(s, s.keyHeads, s.keys, width);
    return graph.held(kRows, transposed ? exchanged(dims) : dims, transposed ? exchanged(strides) : strides);
  }
  const Tensor *statistics() { return graph.held(CUDNN_DATA_FLOAT, column, {h * s.queries, s.queries, 1, 1}); }
  const Tensor *bias() {
    if (!a.bias)
      return nullptr;
    Dims4 dims{a.biasBatch() > 1 ? b : 1, a.biasHeads() > 1 ? h : 1, s.queries, s.keys};
    int64_t row = a.biasRow(), head = row * s.queries;
    return graph.held(*a.bias == DType::F32 ? CUDNN_DATA_FLOAT : kRows, dims, {head * a.biasHeads(), head, row, 1});
  }
  const Tensor *scaled(const Tensor *x) {
    return graph.pointwise(CUDNN_POINTWISE_MUL, {x, graph.constant(static_cast<float>(s.scale))});
  }
  /// cap(q·kᵀ·scale) + bias; `tanh`: what the cap's gradient needs.
  const Tensor *score(const Tensor *q, const Tensor *kT, const Tensor *bias, const Tensor *&tanh) {
    const Tensor *x = scaled(graph.matmul(q, kT, scores));
    if (s.softcap > 0) {
      const Tensor *cap = graph.constant(static_cast<float>(s.softcap));
      x = graph.pointwise(CUDNN_POINTWISE_DIV, {x, cap});
      tanh = graph.pointwise(CUDNN_POINTWISE_TANH_FWD, {x});
      x = graph.pointwise(CUDNN_POINTWISE_MUL, {tanh, cap});
    }
    return bias ? graph.pointwise(CUDNN_POINTWISE_ADD, {x, bias}) : x;
  }
  const Tensor *withoutHidden(const Tensor *x) {
    if (!s.causal)
      return x;
    const Tensor *row = graph.places(x, 2), *key = graph.places(x, 3);
    if (s.causalOffset != 0)
      row = graph.pointwise(CUDNN_POINTWISE_ADD, {row, graph.constant(static_cast<int32_t>(s.causalOffset))},
                            CUDNN_DATA_INT32);
    const Tensor *seen = graph.pointwise(CUDNN_POINTWISE_CMP_GE, {row, key}, CUDNN_DATA_BOOLEAN);
    return graph.pointwise(CUDNN_POINTWISE_BINARY_SELECT, {x, graph.constant(kHidden), seen});
  }
};

} // namespace

int64_t AttentionGraph::scoreBytes() const {
  auto rounded = [](int64_t length) { return (length + 127) / 128 * 128; };
  return batch * heads * rounded(shape.queries) * rounded(shape.keys) * 2;
}

int64_t AttentionGraph::maxWorkspaceBytes(bool isGradient) const {
  if (!isGradient)
    return kWorkspaceSlack;
  int64_t ofHeads = heads == keyHeads ? 0 : 2 * batch * heads * shape.keys * (shape.depth + shape.valueDepth);
  return (ordered ? 0 : scoreBytes()) + ofHeads + kWorkspaceSlack;
}

std::optional<AttentionGraph> partOfGradient(const AttentionGraph &whole, bool canOrder, int64_t maxScoreBytes) {
  AttentionGraph part = whole;
  auto fits = [&] { return part.scoreBytes() <= maxScoreBytes; };
  int64_t group = whole.shape.group();
  for (; part.batch > 1 && (!fits() || whole.batch % part.batch); --part.batch)
    ;
  for (; part.keyHeads > 1 && (!fits() || whole.keyHeads % part.keyHeads); --part.keyHeads)
    part.heads = (part.keyHeads - 1) * group;
  if (fits())
    return part;
  if (!canOrder)
    return std::nullopt;
  part = whole;
  part.ordered = true;
  return part;
}

Result<Plan> planAttention(const Cudnn &library, const Place &place, const AttentionGraph &attention) {
  Graph graph(library);
  Builder make{graph, attention};
  const AttentionShape &s = attention.shape;
  const Tensor *q = make.queries(s.depth), *kT = make.keys(s.depth, true), *v = make.keys(s.valueDepth, false);
  const Tensor *bias = make.bias();
  const Tensor *o = make.queries(s.valueDepth), *stats = make.statistics();

  const Tensor *tanh = nullptr;
  const Tensor *x = make.withoutHidden(make.score(q, kT, bias, tanh));
  const Tensor *largest = graph.reduce(CUDNN_REDUCE_TENSOR_MAX, x, make.column);
  const Tensor *weight = graph.pointwise(CUDNN_POINTWISE_SUB, {x, largest});
  weight = graph.pointwise(CUDNN_POINTWISE_EXP, {weight});
  const Tensor *sum = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, weight, make.column);
  const Tensor *logarithm = graph.pointwise(CUDNN_POINTWISE_LOG, {sum});
  graph.pointwise(CUDNN_POINTWISE_ADD, {largest, logarithm}, stats);
  weight = graph.quotient(weight, sum, kRows);
  graph.matmul(weight, v, make.column, o);
  return graph.plan(place);
}

Result<Plan> planAttentionGrad(const Cudnn &library, const Place &place, const AttentionGraph &attention) {
  Graph graph(library);
  Builder make{graph, attention};
  const AttentionShape &s = attention.shape;
  const Tensor *grad = make.queries(s.valueDepth), *q = make.queries(s.depth), *kT = make.keys(s.depth, true),
               *vT = make.keys(s.valueDepth, true), *o = make.queries(s.valueDepth), *stats = make.statistics();
  const Tensor *bias = make.bias();
  const Tensor *dq = make.queries(s.depth), *dk = make.keys(s.depth, false), *dv = make.keys(s.valueDepth, false);
  const Tensor *rowSums = make.statistics();

  const Tensor *product = graph.pointwise(CUDNN_POINTWISE_MUL, {grad, o});
  product = graph.reduce(CUDNN_REDUCE_TENSOR_ADD, product, make.column);
  graph.pointwise(CUDNN_POINTWISE_MUL, {product, graph.constant(1.0f)}, rowSums);

  // The weights again, and of them v's gradient.
  const Tensor *tanh = nullptr;
  const Tensor *weight = graph.pointwise(CUDNN_POINTWISE_SUB, {make.score(q, kT, bias, tanh), stats});
  weight = graph.pointwise(CUDNN_POINTWISE_EXP, {make.withoutHidden(weight)});
  auto ofGroups = [&](const Tensor *rows, const Tensor *of, int64_t width, const Tensor *result) {
    Dims4 dims{make.b, make.h, s.keys, width};
    const Tensor *left = graph.transpose(rows, kRows);
    if (make.h == make.hk)
      return graph.matmul(left, of, dims, result);
    return graph.reduce(CUDNN_REDUCE_TENSOR_ADD, graph.matmul(left, of, dims, nullptr, kRows), dims, result);
  };
  ofGroups(weight, grad, s.valueDepth, dv);

  // The scores' gradient, and of it k's and q's.
  const Tensor *dscore = graph.matmul(grad, vT, make.scores);
  dscore = graph.pointwise(CUDNN_POINTWISE_SUB, {dscore, rowSums});
  dscore = graph.pointwise(CUDNN_POINTWISE_MUL, {dscore, weight});
  if (tanh) // 1 − tanh² of it.
    dscore = graph.pointwise(
        CUDNN_POINTWISE_SUB,
        {dscore, graph.pointwise(CUDNN_POINTWISE_MUL, {dscore, graph.pointwise(CUDNN_POINTWISE_MUL, {tanh, tanh})})});
  dscore = make.scaled(dscore);
  ofGroups(dscore, q, s.depth, dk);
  const Tensor *k = graph.transpose(kT, kRows);
  if (!attention.ordered) {
    graph.matmul(dscore, k, make.column, dq);
    return graph.plan(place);
  }
  Dims4 dims{make.b, make.h, s.queries, s.depth};
  const Tensor *sums =
      graph.held(CUDNN_DATA_FLOAT, dims, {make.h * s.queries * s.depth, s.queries * s.depth, s.depth, 1});
  graph.matmul(dscore, k, dims, sums);
  graph.pointwise(CUDNN_POINTWISE_IDENTITY, {sums}, dq);
  // Hopper's engine of the gradient: tiles of 64 × 64, additions in order (cuDNN 9.25 and newer).
  Engine ordered{6,
                 {{CUDNN_KNOB_TYPE_TILE_M, 2},
                  {CUDNN_KNOB_TYPE_TILE_N, 1},
                  {CUDNN_KNOB_TYPE_KERNEL_CFG, 2},
                  {CUDNN_KNOB_TYPE_STREAM_K, 0},
                  {CUDNN_KNOB_TYPE_TILE_CGA_M, 0},
                  {CUDNN_KNOB_TYPE_STAGES, 4}}};
  return graph.plan(place, &ordered);
}

} // namespace maestro::kernels::cuda
