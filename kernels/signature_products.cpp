// Reductions, products, convolutions and pools.
#include "kernels/shape.h"
#include "kernels/signature_checker.h"

namespace maestro::kernels {
namespace {

Status checkReduce(const Checker &c) {
  MAESTRO_TRY(c.counts(1, 1, 1, 1));
  auto axes = c.attributes.getInts("axes");
  uint64_t reduced = 0;
  for (int64_t axis : axes) {
    if (axis < 0 || axis >= c.in(0).rank || (reduced >> axis & 1))
      return c.fail(fmt::format("axes [{}] do not suit rank {}", fmt::join(axes, ", "), c.in(0).rank));
    reduced |= uint64_t{1} << axis;
  }
  std::vector<int64_t> kept, dropped;
  for (int d = 0; d < c.in(0).rank; ++d) {
    bool gone = reduced >> d & 1;
    kept.push_back(gone ? 1 : c.in(0).dims[d]);
    if (!gone)
      dropped.push_back(c.in(0).dims[d]);
  }
  return c.shapeIs(c.out(0), c.attributes.getFlag("keepdims") ? kept : dropped, "the result");
}

/// What a product adds to is its result before it runs, as its old contents are with `accumulate`.
Status checkAddend(const Checker &c, const TensorType &addend, const TensorType &result) {
  if (addend.dtype != result.dtype)
    return c.fail("the addend's element type is not the result's");
  if (c.attributes.getInt("accumulate", 0) != 0)
    return c.fail("an addend and `accumulate` exclude each other");
  return c.sameShape(addend, result, "the addend");
}

Status checkMatmul(const Checker &c) {
  MAESTRO_TRY(c.counts(2, 4, 1, 1));
  const TensorType &a = c.in(0), &b = c.in(1), &r = c.out(0);
  if (a.rank < 2 || b.rank < 2 || r.rank != std::max(a.rank, b.rank))
    return c.fail(fmt::format("ranks {} and {} give no result of rank {}", a.rank, b.rank, r.rank));
  bool ta = c.attributes.getFlag("transpose_a"), tb = c.attributes.getFlag("transpose_b");
  int64_t m = a.dims[a.rank - (ta ? 1 : 2)], k = a.dims[a.rank - (ta ? 2 : 1)];
  int64_t kb = b.dims[b.rank - (tb ? 1 : 2)], n = b.dims[b.rank - (tb ? 2 : 1)];
  if (k != kb)
    return c.fail(fmt::format("inner dims differ: {} and {}", k, kb));
  if (r.dims[r.rank - 2] != m || r.dims[r.rank - 1] != n)
    return c.fail(
        fmt::format("the result is [… {}, {}], expected [… {}, {}]", r.dims[r.rank - 2], r.dims[r.rank - 1], m, n));
  auto batch = r.shape().first(static_cast<size_t>(r.rank - 2));
  MAESTRO_TRY(c.broadcasts(a.shape().first(static_cast<size_t>(a.rank - 2)), batch, "a's leading dims"));
  MAESTRO_TRY(c.broadcasts(b.shape().first(static_cast<size_t>(b.rank - 2)), batch, "b's leading dims"));
  for (int d = 0; d < r.rank - 2; ++d) {
    int da = d - (r.rank - a.rank), db = d - (r.rank - b.rank);
    if ((da < 0 || a.dims[da] == 1) && (db < 0 || b.dims[db] == 1) && batch[d] != 1)
      return c.fail(fmt::format("dim {} of the result is {}, its operands give 1", d, batch[d]));
  }
  int64_t bias[] = {n};
  if (c.has(2))
    MAESTRO_TRY(c.shapeIs(c.in(2), bias, "the bias"));
  return c.has(3) ? checkAddend(c, c.in(3), r) : Status();
}

/// Of spatial dims, strides, dilations and pads: oneDNN takes them as int, and products of two of them do not overflow.
constexpr int64_t kMostOfWindow = (int64_t{1} << 31) - 1;

Status windowHolds(const Checker &c, std::span<const int64_t> values, std::string_view what) {
  for (int64_t value : values)
    if (value > kMostOfWindow)
      return c.fail(fmt::format("'{}' holds {}, above {}", what, value, kMostOfWindow));
  return Status();
}

Status checkWindow(const Checker &c, const TensorType &x, const TensorType &y) {
  auto dims = static_cast<size_t>(x.rank - 2);
  MAESTRO_TRY(c.optionalList("strides", dims, 1));
  MAESTRO_TRY(c.optionalList("dilations", dims, 1));
  MAESTRO_TRY(c.optionalList("pads", 2 * dims, 0));
  for (std::string_view list : {"strides", "dilations", "pads", "kernel"})
    MAESTRO_TRY(windowHolds(c, c.attributes.getInts(list), list));
  MAESTRO_TRY(windowHolds(c, x.shape().subspan(2), "x's shape"));
  return windowHolds(c, y.shape().subspan(2), "y's shape");
}

Status checkConvolution(const Checker &c, const TensorType &x, const TensorType &w, const TensorType &y) {
  int64_t group = c.attributes.getInt("group", 1);
  if (x.rank < 3 || x.rank > 5 || w.rank != x.rank || y.rank != x.rank)
    return c.fail("x, w and y have 1 to 3 spatial dims, the same number each");
  MAESTRO_TRY(checkWindow(c, x, y));
  MAESTRO_TRY(windowHolds(c, w.shape().subspan(2), "w's shape"));
  bool divides = group >= 1 && w.dims[0] % group == 0 && x.dims[1] % group == 0;
  if (!divides || w.dims[1] != x.dims[1] / group)
    return c.fail(
        fmt::format("weights [{}] do not suit {} channels in {} groups", fmt::join(w.shape(), ", "), x.dims[1], group));
  auto strides = c.attributes.getInts("strides"), dilations = c.attributes.getInts("dilations"),
       pads = c.attributes.getInts("pads");
  Dims expected{x.dims[0], w.dims[0]};
  for (int d = 0; d < x.rank - 2; ++d) {
    int64_t padded = x.dims[2 + d] + (pads.empty() ? 0 : pads[d] + pads[d + x.rank - 2]);
    int64_t reach = (dilations.empty() ? 1 : dilations[d]) * (w.dims[2 + d] - 1) + 1;
    expected[2 + d] = padded < reach ? 0 : (padded - reach) / (strides.empty() ? 1 : strides[d]) + 1;
  }
  return c.shapeIs(y, {expected.data(), static_cast<size_t>(x.rank)}, "y");
}
Status checkConv(const Checker &c) {
  MAESTRO_TRY(c.counts(2, 3, 1, 1));
  MAESTRO_TRY(checkConvolution(c, c.in(0), c.in(1), c.out(0)));
  int64_t channels[] = {c.in(1).dims[0]};
  return c.has(2) ? c.shapeIs(c.in(2), channels, "the bias") : Status();
}
Status checkConvGradInput(const Checker &c) {
  MAESTRO_TRY(c.counts(2, 2, 1, 1));
  return checkConvolution(c, c.out(0), c.in(1), c.in(0));
}
Status checkConvGradWeight(const Checker &c) {
  MAESTRO_TRY(c.counts(2, 2, 1, 1));
  return checkConvolution(c, c.in(0), c.out(0), c.in(1));
}

Status checkPooling(const Checker &c, const TensorType &x, const TensorType &y) {
  if (x.rank < 3 || x.rank > 5 || y.rank != x.rank || y.dims[0] != x.dims[0] || y.dims[1] != x.dims[1])
    return c.fail("x and y are [N, C, spatial…] with 1 to 3 spatial dims and the same N and C");
  MAESTRO_TRY(c.listHas("kernel", static_cast<size_t>(x.rank - 2)));
  MAESTRO_TRY(c.listAtLeast("kernel", 1));
  return checkWindow(c, x, y);
}
Status checkPool(const Checker &c) {
  MAESTRO_TRY(c.counts(1, 1, 1, 1));
  return checkPooling(c, c.in(0), c.out(0));
}
Status checkMaxPoolGrad(const Checker &c) {
  MAESTRO_TRY(c.counts(2, 2, 1, 1));
  MAESTRO_TRY(c.sameShape(c.out(0), c.in(0), "dx"));
  return checkPooling(c, c.in(0), c.in(1));
}
Status checkAvgPoolGrad(const Checker &c) {
  MAESTRO_TRY(c.counts(1, 1, 1, 1));
  return checkPooling(c, c.out(0), c.in(0));
}

} // namespace

std::span<const SignatureRule> productRules() {
  static constexpr SignatureRule kRules[] = {
      {"reduce_sum", checkReduce},
      {"reduce_mean", checkReduce},
      {"reduce_max", checkReduce},
      {"reduce_min", checkReduce},
      {"reduce_prod", checkReduce},
      {"matmul", checkMatmul},
      {"conv", checkConv},
      {"conv_grad_input", checkConvGradInput},
      {"conv_grad_weight", checkConvGradWeight},
      {"max_pool", checkPool},
      {"avg_pool", checkPool},
      {"max_pool_grad", checkMaxPoolGrad},
      {"avg_pool_grad", checkAvgPoolGrad},
  };
  return kRules;
}

} // namespace maestro::kernels
