// One rule per group of kernels, written against small predicates.
#include "kernels/signature.h"

#include "kernels/optimizer.h"
#include "kernels/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace maestro::kernels {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 47;

class Checker {
public:
  explicit Checker(const CallSpec &spec) : spec(spec), attributes(spec.attributes) {}

  const CallSpec &spec;
  const Attributes &attributes;

  const TensorType &in(size_t i) const { return spec.inputs[i]; }
  const TensorType &out(size_t i) const { return spec.outputs[i]; }
  bool has(size_t i) const { return i < spec.inputs.size() && spec.inputs[i].present; }
  bool hasOut(size_t i) const { return i < spec.outputs.size() && spec.outputs[i].present; }

  Status fail(std::string what) const {
    return Status::invalidInput(fmt::format("{}: {}", spec.kernel, what));
  }

  /// `required` inputs must be there; up to `most` may. The same for results.
  Status counts(size_t required, size_t most, size_t results, size_t mostResults) const {
    if (spec.inputs.size() < required || spec.inputs.size() > most)
      return fail(fmt::format("{} operands, expected {} to {}", spec.inputs.size(), required, most));
    if (spec.outputs.size() < results || spec.outputs.size() > mostResults)
      return fail(fmt::format("{} results, expected {} to {}", spec.outputs.size(), results, mostResults));
    for (size_t i = 0; i < required; ++i)
      if (!in(i).present)
        return fail(fmt::format("operand {} is missing", i));
    for (size_t i = 0; i < results; ++i)
      if (!out(i).present)
        return fail(fmt::format("result {} is missing", i));
    return Status();
  }

  Status sane(const TensorType &type) const {
    if (type.rank < 0 || type.rank > TensorType::kMaxRank)
      return fail(fmt::format("rank {} is above the limit of {}", type.rank, TensorType::kMaxRank));
    int64_t count = 1;
    for (int64_t dim : type.shape()) {
      if (dim < 0 || (dim > 0 && count > kMostElements / dim))
        return fail(fmt::format("shape [{}] is out of range", fmt::join(type.shape(), ", ")));
      count *= std::max<int64_t>(dim, 1);
    }
    return Status();
  }

  Status shapeIs(const TensorType &type, std::span<const int64_t> expected, std::string_view what) const {
    if (std::ranges::equal(type.shape(), expected))
      return Status();
    return fail(fmt::format("{} has shape [{}], expected [{}]", what, fmt::join(type.shape(), ", "),
                            fmt::join(expected, ", ")));
  }
  Status sameShape(const TensorType &type, const TensorType &as, std::string_view what) const {
    return shapeIs(type, as.shape(), what);
  }
  Status elementsAre(const TensorType &type, int64_t expected, std::string_view what) const {
    if (type.elements() == expected)
      return Status();
    return fail(fmt::format("{} has {} elements, expected {}", what, type.elements(), expected));
  }
  Status dtypeIs(const TensorType &type, DType expected, std::string_view what) const {
    if (type.dtype == expected)
      return Status();
    return fail(fmt::format("{} is {}, expected {}", what, name(type.dtype), name(expected)));
  }

  Status broadcasts(std::span<const int64_t> from, std::span<const int64_t> to, std::string_view what) const {
    bool fits = from.size() <= to.size();
    for (size_t i = 0; fits && i < from.size(); ++i)
      fits = from[i] == 1 || from[i] == to[to.size() - from.size() + i];
    if (fits)
      return Status();
    return fail(fmt::format("{} [{}] does not broadcast to [{}]", what, fmt::join(from, ", "), fmt::join(to, ", ")));
  }

  /// The axis attribute in [0, rank), or [0, rank] where the dims behind it may be none.
  Status axisBelow(int64_t limit) const {
    int64_t axis = attributes.getInt("axis", 0);
    if (axis >= 0 && axis < limit)
      return Status();
    return fail(fmt::format("axis {} is outside [0, {})", axis, limit));
  }
  int64_t axis() const { return attributes.getInt("axis", 0); }

  Status listHas(std::string_view attribute, size_t expected) const {
    size_t count = attributes.getInts(attribute).size();
    if (count == expected)
      return Status();
    return fail(fmt::format("'{}' has {} values, expected {}", attribute, count, expected));
  }
  Status listAtLeast(std::string_view attribute, int64_t least) const {
    for (int64_t value : attributes.getInts(attribute))
      if (value < least || value > kMostElements)
        return fail(fmt::format("'{}' holds {}, expected at least {}", attribute, value, least));
    return Status();
  }
  /// Absent, or as long as expected with values of at least `least`.
  Status optionalList(std::string_view attribute, size_t expected, int64_t least) const {
    if (attributes.getInts(attribute).empty())
      return Status();
    MAESTRO_TRY(listHas(attribute, expected));
    return listAtLeast(attribute, least);
  }
};

Status checkUnary(const Checker &c) {
  MAESTRO_TRY(c.counts(1, 1, 1, 1));
  return c.sameShape(c.out(0), c.in(0), "the result");
}

/// The result has exactly the shape that its operands broadcast to.
Status checkBroadcast(const Checker &c, size_t operands) {
  MAESTRO_TRY(c.counts(operands, operands, 1, 1));
  auto shape = c.out(0).shape();
  int rank = 0;
  for (size_t i = 0; i < operands; ++i) {
    MAESTRO_TRY(c.broadcasts(c.in(i).shape(), shape, "an operand"));
    rank = std::max(rank, c.in(i).rank);
  }
  for (int d = 0; d < c.out(0).rank; ++d) {
    int64_t widest = 1;
    for (size_t i = 0; i < operands; ++i)
      if (int at = d - (c.out(0).rank - c.in(i).rank); at >= 0 && c.in(i).dims[at] != 1)
        widest = c.in(i).dims[at];
    if (widest != shape[d])
      return c.fail(fmt::format("dim {} of the result is {}, its operands give {}", d, shape[d], widest));
  }
  return rank == c.out(0).rank ? Status() : c.fail("the result has more dims than its operands");
}
Status checkBinary(const Checker &c) { return checkBroadcast(c, 2); }
Status checkWhere(const Checker &c) { return checkBroadcast(c, 3); }

Status checkGenerator(const Checker &c) {
  MAESTRO_TRY(c.counts(0, 0, 1, 1));
  if (c.spec.kernel == "dim_values")
    return c.listHas("values", static_cast<size_t>(c.out(0).elements()));
  return Status();
}

Status checkTranspose(const Checker &c) {
  MAESTRO_TRY(c.counts(1, 1, 1, 1));
  auto permutation = c.attributes.getInts("permutation");
  MAESTRO_TRY(c.listHas("permutation", static_cast<size_t>(c.in(0).rank)));
  Dims expected{};
  uint64_t seen = 0;
  for (size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] < 0 || permutation[i] >= c.in(0).rank || (seen >> permutation[i] & 1))
      return c.fail(fmt::format("[{}] is no permutation of {} dims", fmt::join(permutation, ", "), c.in(0).rank));
    seen |= uint64_t{1} << permutation[i];
    expected[i] = c.in(0).dims[permutation[i]];
  }
  return c.shapeIs(c.out(0), {expected.data(), permutation.size()}, "the result");
}

Status checkBroadcastTo(const Checker &c) {
  MAESTRO_TRY(c.counts(1, 1, 1, 1));
  return c.broadcasts(c.in(0).shape(), c.out(0).shape(), "the operand");
}

Status checkConcat(const Checker &c) {
  MAESTRO_TRY(c.counts(1, 1u << 16, 1, 1));
  MAESTRO_TRY(c.axisBelow(c.out(0).rank));
  TensorType expected = c.out(0);
  int64_t total = 0;
  for (const TensorType &part : c.spec.inputs) {
    if (!part.present || part.rank != expected.rank)
      return c.fail("an operand is missing or of another rank than the result");
    expected.dims[c.axis()] = part.dims[c.axis()];
    MAESTRO_TRY(c.shapeIs(part, expected.shape(), "an operand"));
    total += part.dims[c.axis()];
  }
  return total == c.out(0).dims[c.axis()] ? Status() : c.fail("the operands do not add up to the result along the axis");
}

/// `part` is what offsets and steps take out of `whole`.
Status checkPart(const Checker &c, const TensorType &whole, const TensorType &part) {
  if (whole.rank != part.rank)
    return c.fail(fmt::format("ranks differ: {} and {}", whole.rank, part.rank));
  auto offsets = c.attributes.getInts("offsets"), steps = c.attributes.getInts("steps");
  MAESTRO_TRY(c.listHas("offsets", static_cast<size_t>(whole.rank)));
  MAESTRO_TRY(c.optionalList("steps", static_cast<size_t>(whole.rank), -kMostElements));
  for (int d = 0; d < whole.rank; ++d) {
    int64_t step = steps.empty() ? 1 : steps[d], last = 0;
    if (part.dims[d] == 0)
      continue;
    bool overflow = __builtin_mul_overflow(part.dims[d] - 1, step, &last) || __builtin_add_overflow(last, offsets[d], &last);
    if (overflow || std::min(offsets[d], last) < 0 || std::max(offsets[d], last) >= whole.dims[d])
      return c.fail(fmt::format("dim {}: {} elements from {} by {} leave [0, {})", d, part.dims[d], offsets[d], step, whole.dims[d]));
  }
  return Status();
}
Status checkSlice(const Checker &c) {
  MAESTRO_TRY(c.counts(1, 1, 1, 1));
  return checkPart(c, c.in(0), c.out(0));
}
Status checkSliceGrad(const Checker &c) {
  MAESTRO_TRY(c.counts(1, 1, 1, 1));
  return checkPart(c, c.out(0), c.in(0));
}

Status checkPad(const Checker &c) {
  MAESTRO_TRY(c.counts(1, 1, 1, 1));
  auto low = c.attributes.getInts("low"), high = c.attributes.getInts("high");
  size_t rank = static_cast<size_t>(c.in(0).rank);
  MAESTRO_TRY(c.listHas("low", rank));
  MAESTRO_TRY(c.listHas("high", rank));
  MAESTRO_TRY(c.listAtLeast("low", 0));
  MAESTRO_TRY(c.listAtLeast("high", 0));
  Dims expected{};
  for (size_t d = 0; d < rank; ++d)
    expected[d] = low[d] + c.in(0).dims[d] + high[d];
  return c.shapeIs(c.out(0), {expected.data(), rank}, "the result");
}

/// One operand, one result of its shape, an axis.
Status checkAlongAxis(const Checker &c) {
  MAESTRO_TRY(c.counts(1, 1, 1, 1));
  MAESTRO_TRY(c.axisBelow(c.in(0).rank));
  return c.sameShape(c.out(0), c.in(0), "the result");
}
Status checkAlongAxisGrad(const Checker &c) {
  MAESTRO_TRY(c.counts(2, 2, 1, 1));
  MAESTRO_TRY(c.axisBelow(c.in(0).rank));
  MAESTRO_TRY(c.sameShape(c.in(1), c.in(0), "dy"));
  return c.sameShape(c.out(0), c.in(0), "the result");
}

Status checkGathered(const Checker &c, const TensorType &data, const TensorType &indices, const TensorType &result) {
  MAESTRO_TRY(c.axisBelow(data.rank));
  std::vector<int64_t> expected(data.dims.begin(), data.dims.begin() + c.axis());
  expected.insert(expected.end(), indices.dims.begin(), indices.dims.begin() + indices.rank);
  expected.insert(expected.end(), data.dims.begin() + c.axis() + 1, data.dims.begin() + data.rank);
  return c.shapeIs(result, expected, "the gathered tensor");
}
Status checkGather(const Checker &c) {
  MAESTRO_TRY(c.counts(2, 2, 1, 1));
  return checkGathered(c, c.in(0), c.in(1), c.out(0));
}
Status checkGatherGrad(const Checker &c) {
  MAESTRO_TRY(c.counts(2, 2, 1, 1));
  return checkGathered(c, c.out(0), c.in(0), c.in(1));
}

/// Indices as large as data at most, except along the axis.
Status checkElementIndices(const Checker &c) {
  MAESTRO_TRY(c.axisBelow(c.in(0).rank));
  if (c.in(1).rank != c.in(0).rank)
    return c.fail("indices and data have different ranks");
  for (int d = 0; d < c.in(0).rank; ++d)
    if (d != c.axis() && c.in(1).dims[d] > c.in(0).dims[d])
      return c.fail(fmt::format("dim {} of indices is {}, above data's {}", d, c.in(1).dims[d], c.in(0).dims[d]));
  return Status();
}
Status checkGatherElements(const Checker &c) {
  MAESTRO_TRY(c.counts(2, 2, 1, 1));
  MAESTRO_TRY(checkElementIndices(c));
  return c.sameShape(c.out(0), c.in(1), "the result");
}
Status checkScatterElements(const Checker &c) {
  MAESTRO_TRY(c.counts(3, 3, 1, 1));
  MAESTRO_TRY(checkElementIndices(c));
  MAESTRO_TRY(c.sameShape(c.in(2), c.in(1), "updates"));
  return c.sameShape(c.out(0), c.in(0), "the result");
}

/// gathered = indices' leading dims + data's dims behind the addressed ones.
Status checkTuples(const Checker &c, const TensorType &data, const TensorType &indices, const TensorType &gathered) {
  int64_t batch = c.attributes.getInt("batch_dims", 0);
  if (indices.rank < 1 || batch < 0 || batch >= indices.rank || batch > data.rank)
    return c.fail(fmt::format("batch_dims {} does not suit indices of rank {}", batch, indices.rank));
  int64_t depth = indices.dims[indices.rank - 1];
  if (depth < 0 || batch + depth > data.rank)
    return c.fail(fmt::format("indices of depth {} address data of rank {}", depth, data.rank));
  for (int64_t d = 0; d < batch; ++d)
    if (indices.dims[d] != data.dims[d])
      return c.fail(fmt::format("batch dim {} differs: {} and {}", d, indices.dims[d], data.dims[d]));
  std::vector<int64_t> expected(indices.dims.begin(), indices.dims.begin() + indices.rank - 1);
  expected.insert(expected.end(), data.dims.begin() + batch + depth, data.dims.begin() + data.rank);
  return c.shapeIs(gathered, expected, "the gathered tensor");
}
Status checkGatherNd(const Checker &c) {
  MAESTRO_TRY(c.counts(2, 2, 1, 1));
  return checkTuples(c, c.in(0), c.in(1), c.out(0));
}
Status checkGatherNdGrad(const Checker &c) {
  MAESTRO_TRY(c.counts(2, 2, 1, 1));
  return checkTuples(c, c.out(0), c.in(0), c.in(1));
}
Status checkScatterNd(const Checker &c) {
  MAESTRO_TRY(c.counts(3, 3, 1, 1));
  if (c.attributes.getInt("batch_dims", 0) != 0)
    return c.fail("scatter_nd has no batch_dims");
  MAESTRO_TRY(checkTuples(c, c.in(0), c.in(1), c.in(2)));
  return c.sameShape(c.out(0), c.in(0), "the result");
}

Status checkMaskedScatter(const Checker &c) {
  MAESTRO_TRY(c.counts(3, 3, 1, 1));
  MAESTRO_TRY(c.sameShape(c.in(1), c.in(0), "the mask"));
  return c.sameShape(c.out(0), c.in(0), "the result");
}
Status checkMaskedScatterGrad(const Checker &c) {
  MAESTRO_TRY(c.counts(2, 2, 1, 1));
  return c.sameShape(c.in(1), c.in(0), "dy");
}

Status checkTopK(const Checker &c) {
  MAESTRO_TRY(c.counts(1, 1, 2, 2));
  MAESTRO_TRY(c.axisBelow(c.in(0).rank));
  MAESTRO_TRY(c.sameShape(c.out(1), c.out(0), "indices"));
  TensorType expected = c.in(0);
  if (c.out(0).rank == expected.rank)
    expected.dims[c.axis()] = std::min(expected.dims[c.axis()], c.out(0).dims[c.axis()]);
  return c.shapeIs(c.out(0), expected.shape(), "values");
}
Status checkArgExtreme(const Checker &c) {
  MAESTRO_TRY(c.counts(1, 1, 1, 1));
  MAESTRO_TRY(c.axisBelow(c.in(0).rank));
  TensorType expected = c.in(0);
  if (expected.dims[c.axis()] == 0)
    return c.fail("the axis has no elements");
  expected.dims[c.axis()] = 1;
  return c.shapeIs(c.out(0), expected.shape(), "the result");
}

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

Status checkMatmul(const Checker &c) {
  MAESTRO_TRY(c.counts(2, 3, 1, 1));
  const TensorType &a = c.in(0), &b = c.in(1), &r = c.out(0);
  if (a.rank < 2 || b.rank < 2 || r.rank != std::max(a.rank, b.rank))
    return c.fail(fmt::format("ranks {} and {} give no result of rank {}", a.rank, b.rank, r.rank));
  bool ta = c.attributes.getFlag("transpose_a"), tb = c.attributes.getFlag("transpose_b");
  int64_t m = a.dims[a.rank - (ta ? 1 : 2)], k = a.dims[a.rank - (ta ? 2 : 1)];
  int64_t kb = b.dims[b.rank - (tb ? 1 : 2)], n = b.dims[b.rank - (tb ? 2 : 1)];
  if (k != kb)
    return c.fail(fmt::format("inner dims differ: {} and {}", k, kb));
  if (r.dims[r.rank - 2] != m || r.dims[r.rank - 1] != n)
    return c.fail(fmt::format("the result is [… {}, {}], expected [… {}, {}]", r.dims[r.rank - 2], r.dims[r.rank - 1], m, n));
  auto batch = r.shape().first(static_cast<size_t>(r.rank - 2));
  MAESTRO_TRY(c.broadcasts(a.shape().first(static_cast<size_t>(a.rank - 2)), batch, "a's leading dims"));
  MAESTRO_TRY(c.broadcasts(b.shape().first(static_cast<size_t>(b.rank - 2)), batch, "b's leading dims"));
  for (int d = 0; d < r.rank - 2; ++d) {
    int da = d - (r.rank - a.rank), db = d - (r.rank - b.rank);
    if ((da < 0 || a.dims[da] == 1) && (db < 0 || b.dims[db] == 1) && batch[d] != 1)
      return c.fail(fmt::format("dim {} of the result is {}, its operands give 1", d, batch[d]));
  }
  int64_t bias[] = {n};
  return c.has(2) ? c.shapeIs(c.in(2), bias, "the bias") : Status();
}

Status checkWindow(const Checker &c, size_t dims) {
  MAESTRO_TRY(c.optionalList("strides", dims, 1));
  MAESTRO_TRY(c.optionalList("dilations", dims, 1));
  return c.optionalList("pads", 2 * dims, 0);
}

Status checkConvolution(const Checker &c, const TensorType &x, const TensorType &w, const TensorType &y) {
  int64_t group = c.attributes.getInt("group", 1);
  if (x.rank < 3 || x.rank > 5 || w.rank != x.rank || y.rank != x.rank)
    return c.fail("x, w and y have 1 to 3 spatial dims, the same number each");
  MAESTRO_TRY(checkWindow(c, static_cast<size_t>(x.rank - 2)));
  bool divides = group >= 1 && w.dims[0] % group == 0 && x.dims[1] % group == 0;
  if (!divides || w.dims[1] != x.dims[1] / group)
    return c.fail(fmt::format("weights [{}] do not suit {} channels in {} groups", fmt::join(w.shape(), ", "), x.dims[1], group));
  auto strides = c.attributes.getInts("strides"), dilations = c.attributes.getInts("dilations"), pads = c.attributes.getInts("pads");
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
  return checkWindow(c, static_cast<size_t>(x.rank - 2));
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

/// Shared by the norms: rows before the axis, width from it on.
struct NormRows {
  int64_t count, width;
  NormRows(const Checker &c, const TensorType &x)
      : count(product(x.shape().first(static_cast<size_t>(c.axis())))),
        width(product(x.shape().subspan(static_cast<size_t>(c.axis())))) {}
};
Status checkNorm(const Checker &c) {
  bool centred = c.spec.kernel == "layer_norm";
  MAESTRO_TRY(centred ? c.counts(1, 3, 3, 3) : c.counts(1, 2, 2, 2));
  MAESTRO_TRY(c.axisBelow(c.in(0).rank));
  NormRows rows(c, c.in(0));
  for (size_t i = 1; i < 3; ++i)
    if (c.has(i))
      MAESTRO_TRY(c.elementsAre(c.in(i), rows.width, i == 1 ? "scale" : "bias"));
  for (size_t i = 1; i < c.spec.outputs.size(); ++i)
    MAESTRO_TRY(c.elementsAre(c.out(i), rows.count, "a row statistic"));
  return c.sameShape(c.out(0), c.in(0), "y");
}
Status checkNormGrad(const Checker &c) {
  bool centred = c.spec.kernel == "layer_norm_grad";
  size_t scale = centred ? 4 : 3;
  MAESTRO_TRY(c.counts(scale, scale + 1, 1, centred ? 3 : 2));
  MAESTRO_TRY(c.axisBelow(c.in(1).rank));
  MAESTRO_TRY(c.sameShape(c.in(0), c.in(1), "dy"));
  MAESTRO_TRY(c.sameShape(c.out(0), c.in(1), "dx"));
  NormRows rows(c, c.in(1));
  for (size_t i = 2; i < scale; ++i)
    MAESTRO_TRY(c.elementsAre(c.in(i), rows.count, "a row statistic"));
  if (c.has(scale))
    MAESTRO_TRY(c.elementsAre(c.in(scale), rows.width, "scale"));
  for (size_t i = 1; i < c.spec.outputs.size(); ++i)
    if (c.hasOut(i))
      MAESTRO_TRY(c.elementsAre(c.out(i), rows.width, "a gradient of scale or bias"));
  return Status();
}

Status checkRope(const Checker &c) {
  MAESTRO_TRY(c.counts(3, 3, 1, 1));
  if (c.in(0).rank < 1 || c.in(0).shape().back() % 2)
    return c.fail("the last dim must be even");
  MAESTRO_TRY(c.broadcasts(c.in(1).shape(), c.in(0).shape(), "cos"));
  MAESTRO_TRY(c.broadcasts(c.in(2).shape(), c.in(0).shape(), "sin"));
  return c.sameShape(c.out(0), c.in(0), "y");
}

/// q, k, v from operand `q` on, the mask at `mask`.
Status checkAttended(const Checker &c, size_t q, size_t mask, const TensorType &o, const TensorType &lse) {
  const TensorType &query = c.in(q), &key = c.in(q + 1), &value = c.in(q + 2);
  if (query.rank != 4 || key.rank != 4 || value.rank != 4)
    return c.fail("q, k and v have four dims");
  bool sequenceMajor = c.attributes.getFlag("sequence_major");
  int head = sequenceMajor ? 2 : 1, sequence = sequenceMajor ? 1 : 2;
  int64_t heads = query.dims[head], keyHeads = key.dims[head];
  if (keyHeads < 1 || heads % keyHeads)
    return c.fail(fmt::format("{} query heads are no multiple of {} key heads", heads, keyHeads));
  TensorType expected = key;
  expected.dims[3] = value.dims[3];
  MAESTRO_TRY(c.sameShape(value, expected, "v"));
  if (key.dims[0] != query.dims[0] || key.dims[3] != query.dims[3])
    return c.fail("q and k differ in batch or depth");
  expected = query;
  expected.dims[3] = value.dims[3];
  MAESTRO_TRY(c.sameShape(o, expected, "o"));
  int64_t statistics[] = {query.dims[0], heads, query.dims[sequence]};
  MAESTRO_TRY(c.shapeIs(lse, statistics, "lse"));
  int64_t scores[] = {query.dims[0], heads, query.dims[sequence], key.dims[sequence]};
  return c.has(mask) ? c.broadcasts(c.in(mask).shape(), scores, "the mask") : Status();
}
Status checkAttention(const Checker &c) {
  MAESTRO_TRY(c.counts(3, 4, 2, 2));
  return checkAttended(c, 0, 3, c.out(0), c.out(1));
}
Status checkAttentionGrad(const Checker &c) {
  MAESTRO_TRY(c.counts(6, 7, 3, 3));
  MAESTRO_TRY(checkAttended(c, 1, 6, c.in(4), c.in(5)));
  MAESTRO_TRY(c.sameShape(c.in(0), c.in(4), "o's gradient"));
  for (size_t i = 0; i < 3; ++i)
    MAESTRO_TRY(c.sameShape(c.out(i), c.in(1 + i), "a gradient"));
  return Status();
}

Status checkDropout(const Checker &c) {
  MAESTRO_TRY(c.counts(3, 3, 1, 1));
  if (c.in(0).rank < 1)
    return c.fail("x has no rows");
  MAESTRO_TRY(c.sameShape(c.out(0), c.in(0), "y"));
  MAESTRO_TRY(c.elementsAre(c.in(1), 2, "state"));
  MAESTRO_TRY(c.listHas("strides", static_cast<size_t>(c.in(0).rank - 1)));
  int64_t samples = c.in(2).elements(), rows = c.in(0).dims[0];
  if (rows > 0 && (samples < 1 || rows % samples))
    return c.fail(fmt::format("{} rows are no multiple of {} samples", rows, samples));
  return Status();
}

Status checkCrossEntropy(const Checker &c) {
  bool grad = c.spec.kernel == "cross_entropy_grad";
  MAESTRO_TRY(grad ? c.counts(4, 4, 1, 1) : c.counts(2, 2, 2, 2));
  if (c.in(0).rank < 1)
    return c.fail("logits have no classes");
  MAESTRO_TRY(c.shapeIs(c.in(1), c.in(0).shape().first(static_cast<size_t>(c.in(0).rank - 1)), "labels"));
  if (!grad) {
    MAESTRO_TRY(c.sameShape(c.out(0), c.in(1), "loss"));
    return c.sameShape(c.out(1), c.in(1), "lse");
  }
  MAESTRO_TRY(c.sameShape(c.in(2), c.in(1), "lse"));
  MAESTRO_TRY(c.broadcasts(c.in(3).shape(), c.in(1).shape(), "dloss"));
  return c.sameShape(c.out(0), c.in(0), "dlogits");
}

Status checkKlDivergence(const Checker &c) {
  bool grad = c.spec.kernel == "kl_divergence_grad";
  MAESTRO_TRY(grad ? c.counts(5, 5, 1, 1) : c.counts(2, 2, 3, 3));
  if (c.in(0).rank < 1)
    return c.fail("logits have no classes");
  MAESTRO_TRY(c.sameShape(c.in(1), c.in(0), "teacher"));
  auto positions = c.in(0).shape().first(static_cast<size_t>(c.in(0).rank - 1));
  for (size_t i = 0; i < (grad ? 2u : 3u); ++i)
    MAESTRO_TRY(c.shapeIs(grad ? c.in(2 + i) : c.out(i), positions, "a value per position"));
  if (!grad)
    return Status();
  MAESTRO_TRY(c.broadcasts(c.in(4).shape(), positions, "dloss"));
  return c.sameShape(c.out(0), c.in(0), "dstudent");
}

/// Parameter, gradient and states alike in f32; results over them; an optional copy.
Status checkOptimizer(const Checker &c, size_t states) {
  MAESTRO_TRY(c.counts(2, 3 + states, 1, 3 + states));
  if (c.spec.inputs.size() != 3 + states || !c.has(2 + states))
    return c.fail(fmt::format("{} operands, expected {}", c.spec.inputs.size(), 3 + states));
  int64_t count = c.in(0).elements();
  for (size_t i = 0; i < 2 + states; ++i) {
    if (!c.has(i) && c.spec.kernel != "sgd")
      return c.fail(fmt::format("operand {} is missing", i));
    if (!c.has(i))
      continue;
    MAESTRO_TRY(c.dtypeIs(c.in(i), DType::F32, "an operand"));
    MAESTRO_TRY(c.elementsAre(c.in(i), count, "an operand"));
  }
  for (size_t i = 0; i < c.spec.outputs.size(); ++i)
    if (c.hasOut(i)) {
      MAESTRO_TRY(c.elementsAre(c.out(i), count, "a result"));
      if (i < 2 + states)
        MAESTRO_TRY(c.dtypeIs(c.out(i), DType::F32, "a result"));
    }
  for (size_t i = 1; i <= states; ++i)
    if (c.has(1 + i) != c.hasOut(i))
      return c.fail("a state is read but not written, or written but not read");
  MAESTRO_TRY(c.dtypeIs(c.in(2 + states), DType::F32, "the scalars"));
  return c.elementsAre(c.in(2 + states), kOptimizerScalars, "the scalars");
}
Status checkAdam(const Checker &c) { return checkOptimizer(c, 2); }
Status checkSgd(const Checker &c) { return checkOptimizer(c, 1); }

Status checkSumSquares(const Checker &c) {
  MAESTRO_TRY(c.counts(1, 1, 1, 1));
  return c.elementsAre(c.out(0), 1, "the result");
}

struct Rule {
  std::string_view name;
  Status (*check)(const Checker &);
};

constexpr Rule kRules[] = {
    {"neg", checkUnary},
    {"abs", checkUnary},
    {"exp", checkUnary},
    {"log", checkUnary},
    {"sqrt", checkUnary},
    {"rsqrt", checkUnary},
    {"reciprocal", checkUnary},
    {"sin", checkUnary},
    {"cos", checkUnary},
    {"tanh", checkUnary},
    {"sigmoid", checkUnary},
    {"erf", checkUnary},
    {"relu", checkUnary},
    {"silu", checkUnary},
    {"softplus", checkUnary},
    {"floor", checkUnary},
    {"ceil", checkUnary},
    {"round", checkUnary},
    {"sign", checkUnary},
    {"not", checkUnary},
    {"isnan", checkUnary},
    {"isinf", checkUnary},
    {"gelu", checkUnary},
    {"cast", checkUnary},
    {"copy", checkUnary},
    {"add_into", checkUnary},
    {"tanh_grad", checkBinary},
    {"sigmoid_grad", checkBinary},
    {"relu_grad", checkBinary},
    {"silu_grad", checkBinary},
    {"gelu_grad", checkBinary},
    {"add", checkBinary},
    {"sub", checkBinary},
    {"mul", checkBinary},
    {"div", checkBinary},
    {"pow", checkBinary},
    {"maximum", checkBinary},
    {"minimum", checkBinary},
    {"mod", checkBinary},
    {"and", checkBinary},
    {"or", checkBinary},
    {"xor", checkBinary},
    {"equal", checkBinary},
    {"less", checkBinary},
    {"less_equal", checkBinary},
    {"greater", checkBinary},
    {"greater_equal", checkBinary},
    {"where", checkWhere},
    {"fill", checkGenerator},
    {"iota", checkGenerator},
    {"dim_values", checkGenerator},
    {"transpose", checkTranspose},
    {"broadcast_to", checkBroadcastTo},
    {"concat", checkConcat},
    {"slice", checkSlice},
    {"slice_grad", checkSliceGrad},
    {"pad", checkPad},
    {"cumsum", checkAlongAxis},
    {"softmax", checkAlongAxis},
    {"log_softmax", checkAlongAxis},
    {"softmax_grad", checkAlongAxisGrad},
    {"log_softmax_grad", checkAlongAxisGrad},
    {"gather", checkGather},
    {"gather_grad", checkGatherGrad},
    {"gather_elements", checkGatherElements},
    {"scatter_elements", checkScatterElements},
    {"gather_nd", checkGatherNd},
    {"gather_nd_grad", checkGatherNdGrad},
    {"scatter_nd", checkScatterNd},
    {"masked_scatter", checkMaskedScatter},
    {"masked_scatter_grad", checkMaskedScatterGrad},
    {"top_k", checkTopK},
    {"arg_max", checkArgExtreme},
    {"arg_min", checkArgExtreme},
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
    {"layer_norm", checkNorm},
    {"rms_norm", checkNorm},
    {"layer_norm_grad", checkNormGrad},
    {"rms_norm_grad", checkNormGrad},
    {"rope", checkRope},
    {"attention", checkAttention},
    {"attention_grad", checkAttentionGrad},
    {"dropout", checkDropout},
    {"cross_entropy", checkCrossEntropy},
    {"cross_entropy_grad", checkCrossEntropy},
    {"kl_divergence", checkKlDivergence},
    {"kl_divergence_grad", checkKlDivergence},
    {"adam", checkAdam},
    {"adamw", checkAdam},
    {"sgd", checkSgd},
    {"sum_squares", checkSumSquares},
};

} // namespace

Status checkSignature(const CallSpec &spec) {
  Checker checker(spec);
  for (const TensorType &type : spec.inputs)
    MAESTRO_TRY(checker.sane(type));
  for (const TensorType &type : spec.outputs)
    MAESTRO_TRY(checker.sane(type));
  auto rule = std::ranges::find(kRules, spec.kernel, &Rule::name);
  return rule == std::end(kRules) ? Status() : rule->check(checker);
}

} // namespace maestro::kernels
