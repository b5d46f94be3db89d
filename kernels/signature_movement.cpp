// Moving, cutting, gathering and scattering.
#include "kernels/shape.h"
#include "kernels/signature_checker.h"

namespace maestro::kernels {
namespace {

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
  return total == c.out(0).dims[c.axis()] ? Status()
                                          : c.fail("the operands do not add up to the result along the axis");
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
    bool overflow =
        __builtin_mul_overflow(part.dims[d] - 1, step, &last) || __builtin_add_overflow(last, offsets[d], &last);
    if (overflow || std::min(offsets[d], last) < 0 || std::max(offsets[d], last) >= whole.dims[d])
      return c.fail(fmt::format("dim {}: {} elements from {} by {} leave [0, {})", d, part.dims[d], offsets[d], step,
                                whole.dims[d]));
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

} // namespace

std::span<const SignatureRule> movementRules() {
  static constexpr SignatureRule kRules[] = {
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
  };
  return kRules;
}

} // namespace maestro::kernels
