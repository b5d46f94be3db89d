// Resize: along each axis a choice of elements (nearest), or a product with a small constant matrix (linear, cubic).
#include "planner/import/op_table.h"

#include "base/saturate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace maestro::planner {
namespace {

/// Images have thousands of pixels a side; files may claim more.
constexpr int64_t kLargestSize = 1 << 16;
constexpr int64_t kLargestWeights = 1 << 22;

bool isSize(std::optional<int64_t> size) { return size && *size >= 1 && *size <= kLargestSize; }

/// One axis that changes its size.
struct ResizedAxis {
  int64_t axis = 0, from = 0, to = 0;
  double scale = 1;
};

struct Sampling {
  std::string mode, coordinates, nearest;
  double cubicA = -0.75;
  bool excludeOutside = false;
  bool antialias = false; ///< The kernel is as wide as the input elements that make an output element.
};

/// Where output element `index` lies among the input's elements.
double unboundedSource(const Sampling &sampling, const ResizedAxis &a, int64_t index) {
  auto i = static_cast<double>(index), from = static_cast<double>(a.from), to = static_cast<double>(a.to);
  double unrounded = a.scale * from; // What ONNX aligns corners by.
  if (sampling.coordinates == "align_corners")
    return unrounded > 1 ? i * (from - 1) / (unrounded - 1) : 0;
  if (sampling.coordinates == "asymmetric")
    return i / a.scale;
  if (sampling.coordinates == "pytorch_half_pixel" && a.to == 1)
    return 0;
  double half = (i + 0.5) / a.scale - 0.5;
  if (sampling.coordinates != "half_pixel_symmetric")
    return half;
  return from / 2 * (1 - to / unrounded) + half;
}

double sourceOf(const Sampling &sampling, const ResizedAxis &a, int64_t index) {
  return std::clamp<double>(unboundedSource(sampling, a, index), -2 * kLargestSize, 2 * kLargestSize);
}

int64_t nearestTo(const Sampling &sampling, double at) {
  if (sampling.nearest == "floor")
    return saturatedInt64(std::floor(at));
  if (sampling.nearest == "ceil")
    return saturatedInt64(std::ceil(at));
  bool prefersCeil = sampling.nearest == "round_prefer_ceil";
  return saturatedInt64(prefersCeil ? std::floor(at + 0.5) : std::ceil(at - 0.5));
}

/// How far elements of the input reach, in distances between two of them.
double reachOf(const Sampling &sampling) { return sampling.mode == "linear" ? 1 : 2; }

/// The weight of an element at a distance, for linear and cubic.
double weightAt(const Sampling &sampling, double distance) {
  double x = std::abs(distance), a = sampling.cubicA;
  if (x >= reachOf(sampling))
    return 0;
  if (sampling.mode == "linear")
    return 1 - x;
  return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

/// [to, from]: each output element as a sum of input elements.
FoldedTensor interpolation(const Sampling &sampling, const ResizedAxis &a, DType dtype) {
  FoldedTensor matrix{dtype, {a.to, a.from}, {}};
  double width = sampling.antialias ? std::clamp<double>(1 / a.scale, 1, kLargestSize) : 1;
  double reach = reachOf(sampling) * width;
  bool normalises = sampling.excludeOutside || sampling.antialias;
  for (int64_t i = 0; i < a.to; ++i) {
    std::vector<double> row(static_cast<size_t>(a.from), 0.0);
    double at = sourceOf(sampling, a, i), total = 0;
    for (auto place = saturatedInt64(std::ceil(at - reach)); static_cast<double>(place) <= at + reach; ++place) {
      if (sampling.excludeOutside && (place < 0 || place >= a.from))
        continue;
      double weight = weightAt(sampling, (static_cast<double>(place) - at) / width);
      row[static_cast<size_t>(std::clamp<int64_t>(place, 0, a.from - 1))] += weight;
      total += weight;
    }
    for (double weight : row)
      matrix.elements.push_back(normalises && total != 0 ? weight / total : weight);
  }
  return matrix;
}

Result<mlir::Value> resizeNearest(NodeContext &n, mlir::Value x, const Sampling &sampling, const ResizedAxis &a) {
  std::vector<DimExpr> places;
  for (int64_t i = 0; i < a.to; ++i)
    places.emplace_back(std::clamp<int64_t>(nearestTo(sampling, sourceOf(sampling, a, i)), 0, a.from - 1));
  return n.e.emit<nn::GatherOp>(x, n.e.materialize(FoldedTensor::vector(std::move(places))), a.axis);
}

Result<mlir::Value> interpolate(NodeContext &n, mlir::Value x, const Sampling &sampling, const ResizedAxis &a) {
  int64_t rank = Emitter::rankOf(x);
  Ints order;
  for (int64_t d = 0; d < rank; ++d)
    order.push_back(d == a.axis ? rank - 1 : d == rank - 1 ? a.axis : d);
  mlir::Value weights = n.e.materialize(interpolation(sampling, a, Emitter::dtypeOf(x)));
  MAESTRO_ASSIGN(mlir::Value last, n.e.transpose(x, order));
  Shape flat{nn::productOf(Emitter::shapeOf(last).drop_back(1)), Emitter::shapeOf(last).back()};
  Shape wide(Emitter::shapeOf(last));
  wide.back() = DimExpr(a.to);
  MAESTRO_ASSIGN(mlir::Value y,
                 n.e.emit<nn::MatmulOp>(n.e.reshape(last, flat), weights, mlir::Value(), false, true, false));
  return n.e.transpose(n.e.reshape(y, wide), order);
}

/// The axes that `sizes` or `scales` speak of, in their order.
Result<Ints> spokenAxes(NodeContext &n, int64_t rank) {
  Ints axes;
  std::optional<Ints> given = n.intsAttribute("axes");
  for (int64_t axis = 0; axis < rank && !given; ++axis)
    axes.push_back(axis);
  for (int64_t axis : given.value_or(Ints())) {
    MAESTRO_ASSIGN(int64_t positive, n.normalizeAxis(axis, rank));
    axes.push_back(positive);
  }
  return axes;
}

/// By `sizes`, perhaps bent to keep the proportions.
Result<std::vector<ResizedAxis>> bySizes(NodeContext &n, const Shape &shape, const Ints &axes) {
  MAESTRO_ASSIGN(Shape sizes, n.dimList(3, "sizes"));
  std::vector<ResizedAxis> all;
  if (sizes.size() != axes.size())
    return Status::invalidInput(fmt::format("{} sizes for {} axes", sizes.size(), axes.size()));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (sizes[i] == shape[axes[i]])
      continue;
    auto from = shape[axes[i]].asConstant(), to = sizes[i].asConstant();
    if (!isSize(from) || !isSize(to))
      return Status::invalidInput(fmt::format("resizes a dim of {} to {}; only fixed sizes from 1 to {} are supported",
                                              shape[axes[i]].str(), sizes[i].str(), kLargestSize));
    all.push_back({axes[i], *from, *to, static_cast<double>(*to) / static_cast<double>(*from)});
  }
  std::string policy = n.textAttribute("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch" || all.empty())
    return all;
  auto byScale = [](const ResizedAxis &a, const ResizedAxis &b) { return a.scale < b.scale; };
  double scale = policy == "not_larger" ? std::min_element(all.begin(), all.end(), byScale)->scale
                                        : std::max_element(all.begin(), all.end(), byScale)->scale;
  for (ResizedAxis &each : all) {
    each.scale = scale;
    each.to = saturatedInt64(std::floor(scale * static_cast<double>(each.from) + 0.5));
  }
  return all;
}

Result<std::vector<ResizedAxis>> byScales(NodeContext &n, const Shape &shape, const Ints &axes, int input) {
  const FoldedTensor *scales = n.folded(input);
  if (!scales || !scales->isConstant() || scales->size() != static_cast<int64_t>(axes.size()))
    return Status::invalidInput("scales must be known numbers, one for each axis");
  std::vector<ResizedAxis> all;
  for (size_t i = 0; i < axes.size(); ++i) {
    double scale = scales->asDouble(static_cast<int64_t>(i)).value_or(0);
    if (scale == 1)
      continue;
    auto from = shape[axes[i]].asConstant();
    bool isScale = scale > 0 && scale <= kLargestSize && isSize(from);
    int64_t to = isScale ? saturatedInt64(std::floor(static_cast<double>(*from) * scale)) : 0;
    if (!isSize(to))
      return Status::invalidInput(fmt::format("scales a dim of {} by {}; only fixed sizes from 1 to {} are supported",
                                              shape[axes[i]].str(), scale, kLargestSize));
    all.push_back({axes[i], *from, to, scale});
  }
  return all;
}

Status importResize(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  Shape shape(Emitter::shapeOf(x));
  Sampling sampling{n.textAttribute("mode", "nearest"),
                    n.textAttribute("coordinate_transformation_mode", "half_pixel"),
                    n.textAttribute("nearest_mode", "round_prefer_floor"),
                    n.floatAttribute("cubic_coeff_a", -0.75),
                    n.intAttribute("exclude_outside", 0) != 0,
                    n.intAttribute("antialias", 0) != 0};
  if (sampling.coordinates == "tf_crop_and_resize")
    return Status::invalidInput("coordinate_transformation_mode 'tf_crop_and_resize' is not supported");
  bool isNearest = sampling.mode == "nearest";
  if (!isNearest && (!isFloat(Emitter::dtypeOf(x)) || (sampling.mode != "linear" && sampling.mode != "cubic")))
    return Status::invalidInput(
        fmt::format("mode '{}' over {} is not supported", sampling.mode, name(Emitter::dtypeOf(x))));
  MAESTRO_ASSIGN(Ints axes, spokenAxes(n, static_cast<int64_t>(shape.size())));
  bool old = n.version < 11; // Then scales were the second input.
  MAESTRO_ASSIGN(std::vector<ResizedAxis> resized,
                 n.has(3) ? bySizes(n, shape, axes) : byScales(n, shape, axes, old ? 1 : 2));
  if (old)
    sampling.coordinates = "asymmetric", sampling.nearest = "floor";
  for (const ResizedAxis &each : resized) {
    if (!isSize(each.to) || (!isNearest && each.from * each.to > kLargestWeights))
      return Status::invalidInput(
          fmt::format("a dim of {} becomes {}; the product of both may be {}", each.from, each.to, kLargestWeights));
    MAESTRO_ASSIGN(x, isNearest ? resizeNearest(n, x, sampling, each) : interpolate(n, x, sampling, each));
  }
  return n.set(0, x);
}

} // namespace

std::span<const OpEntry> resamplingOps() {
  static constexpr OpEntry kOps[] = {{"Resize", 10, importResize}};
  return kOps;
}

} // namespace maestro::planner
