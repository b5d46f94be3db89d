// GridSample: a sum over the neighbours of each point, their weights by their distance. Neighbours are gathered from
// the flattened image; gradients for the grid come by way of the weights.
#include "planner/import/node_context.h"
#include "planner/import/op_table.h"

#include <fmt/format.h>

namespace maestro::planner {
namespace {

enum class Interpolation { Nearest, Linear, Cubic };
enum class Outside { Zeros, Border, Reflection };

constexpr double kCubicA = -0.75;

class GridSampler {
public:
  explicit GridSampler(NodeContext &n) : n(n) {}

  Status import() {
    MAESTRO_TRY(readAttributes());
    MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
    MAESTRO_ASSIGN(mlir::Value grid, n.tensor(1));
    MAESTRO_TRY(readShapes(x, grid));
    Points points;
    for (size_t d = 0; d < sizes.size(); ++d) {
      MAESTRO_ASSIGN(std::vector<Tap> taps, tapsAlong(grid, d));
      MAESTRO_ASSIGN(points, combined(points, taps, d));
    }
    MAESTRO_ASSIGN(mlir::Value sum, sumOf(x, points));
    return n.set(0, n.e.reshape(sum, result));
  }

private:
  /// A neighbour along one dim, for every point [N, P]: its place, in floating point, and its weight.
  struct Tap {
    mlir::Value place, weight;
  };
  /// Neighbours by all dims so far: places in the flattened image.
  using Points = std::vector<Tap>;

  Status readAttributes() {
    std::string mode = n.textAttribute("mode", n.version < 20 ? "bilinear" : "linear");
    std::string padding = n.textAttribute("padding_mode", "zeros");
    alignsCorners = n.intAttribute("align_corners", 0) != 0;
    if (mode == "nearest")
      interpolation = Interpolation::Nearest;
    else if (mode == "linear" || mode == "bilinear")
      interpolation = Interpolation::Linear;
    else if (mode == "cubic" || mode == "bicubic")
      interpolation = Interpolation::Cubic;
    else
      return Status::invalidInput(fmt::format("mode '{}' is none of linear, nearest, cubic", mode));
    if (padding != "zeros" && padding != "border" && padding != "reflection")
      return Status::invalidInput(fmt::format("padding_mode '{}' is none of zeros, border, reflection", padding));
    outside = padding == "zeros" ? Outside::Zeros : padding == "border" ? Outside::Border : Outside::Reflection;
    return {};
  }

  Status readShapes(mlir::Value x, mlir::Value grid) {
    auto from = Emitter::shapeOf(x), at = Emitter::shapeOf(grid);
    int64_t spatial = static_cast<int64_t>(from.size()) - 2;
    if (spatial < 1 || spatial > 3 || at.size() != from.size() || !at.back().isConstant(spatial))
      return Status::invalidInput(
          fmt::format("an image of {} with a grid of {}; 1 to 3 spatial dims are supported, and "
                      "as many coordinates a point",
                      nn::shapeText(from), nn::shapeText(at)));
    MAESTRO_TRY(n.e.requireEqual(from[0], at[0], "images and grids"));
    for (const DimExpr &dim : from.drop_front(2)) {
      auto size = dim.asConstant();
      if (!size || *size < 1)
        return Status::invalidInput(fmt::format("an image's dim of {}; only fixed sizes are supported", dim.str()));
      sizes.push_back(*size);
    }
    dtype = Emitter::dtypeOf(x);
    rows = from[0];
    count = nn::productOf(at.drop_front(1).drop_back(1));
    result = {from[0], from[1]};
    result.append(at.begin() + 1, at.end() - 1);
    return {};
  }

  mlir::Value number(double value) { return n.e.scalar(value, dtype); }
  template <typename OpTy> Result<mlir::Value> with(mlir::Value x, double value) {
    return n.e.emit<OpTy>(x, number(value));
  }

  /// Where points lie along dim d, in elements of the image; the grid's coordinates come last dim first.
  Result<mlir::Value> coordinates(mlir::Value grid, size_t d) {
    int64_t last = static_cast<int64_t>(sizes.size() - 1 - d);
    mlir::Value own = n.e.sliceAxis(grid, Emitter::rankOf(grid) - 1, DimExpr(last), DimExpr(1));
    own = n.e.reshape(own, {rows, count});
    auto size = static_cast<double>(sizes[d]);
    MAESTRO_ASSIGN(mlir::Value scaled, with<nn::MulOp>(own, (alignsCorners ? size - 1 : size) / 2));
    return with<nn::AddOp>(scaled, (size - 1) / 2);
  }

  /// Within [0, size − 1], with no gradient from its ends on.
  Result<mlir::Value> clipped(mlir::Value at, double most) {
    MAESTRO_ASSIGN(mlir::Value below, with<nn::LessEqualOp>(at, 0));
    MAESTRO_ASSIGN(mlir::Value above, with<nn::GreaterEqualOp>(at, most));
    MAESTRO_ASSIGN(mlir::Value inside, n.e.emit<nn::WhereOp>(above, number(most), at));
    return n.e.emit<nn::WhereOp>(below, number(0), inside);
  }

  /// Back and forth between the first and the last element, or their outer edges.
  Result<mlir::Value> reflected(mlir::Value at, size_t d) {
    double low = alignsCorners ? 0 : -0.5, span = static_cast<double>(sizes[d]) - (alignsCorners ? 1 : 0);
    if (span == 0)
      return n.e.emit<nn::MulOp>(at, number(0));
    MAESTRO_ASSIGN(mlir::Value from, with<nn::SubOp>(at, low));
    MAESTRO_ASSIGN(from, n.e.emit<nn::AbsOp>(from));
    MAESTRO_ASSIGN(mlir::Value extra, n.e.emit<nn::ModOp>(from, number(span), true));
    MAESTRO_ASSIGN(mlir::Value turns, with<nn::DivOp>(from, span));
    MAESTRO_ASSIGN(turns, n.e.emit<nn::FloorOp>(turns));
    MAESTRO_ASSIGN(turns, n.e.emit<nn::ModOp>(turns, number(2), true));
    MAESTRO_ASSIGN(mlir::Value isBack, with<nn::EqualOp>(turns, 1));
    MAESTRO_ASSIGN(mlir::Value back, n.e.emit<nn::SubOp>(number(span), extra));
    MAESTRO_ASSIGN(mlir::Value folded, n.e.emit<nn::WhereOp>(isBack, back, extra));
    return with<nn::AddOp>(folded, low);
  }

  Result<mlir::Value> broughtInside(mlir::Value at, size_t d) {
    if (outside == Outside::Zeros)
      return at;
    if (outside == Outside::Reflection) {
      MAESTRO_ASSIGN(at, reflected(at, d));
    }
    return clipped(at, static_cast<double>(sizes[d] - 1));
  }

  /// The weight of a neighbour at a distance below 1 (`isNear`), or from 1 to 2.
  Result<mlir::Value> cubicWeight(mlir::Value distance, bool isNear) {
    double a = kCubicA;
    double factors[] = {isNear ? a + 2 : a, isNear ? -(a + 3) : -5 * a, isNear ? 0 : 8 * a, isNear ? 1 : -4 * a};
    MAESTRO_ASSIGN(mlir::Value sum, with<nn::MulOp>(distance, factors[0]));
    MAESTRO_ASSIGN(sum, with<nn::AddOp>(sum, factors[1]));
    for (double factor : {factors[2], factors[3]}) {
      MAESTRO_ASSIGN(sum, n.e.emit<nn::MulOp>(sum, distance));
      MAESTRO_ASSIGN(sum, with<nn::AddOp>(sum, factor));
    }
    return sum;
  }

  /// The weight of the neighbour `offset` elements behind the one before the point, which lies `fraction` behind that.
  Result<mlir::Value> weightOf(mlir::Value fraction, int offset) {
    mlir::Value distance = fraction;
    if (offset > 0) {
      MAESTRO_ASSIGN(distance, n.e.emit<nn::SubOp>(number(offset), fraction));
    } else if (offset < 0) {
      MAESTRO_ASSIGN(distance, with<nn::AddOp>(fraction, -offset));
    }
    if (interpolation == Interpolation::Cubic)
      return cubicWeight(distance, offset == 0 || offset == 1);
    return n.e.emit<nn::SubOp>(number(1), distance);
  }

  Result<std::vector<Tap>> tapsAlong(mlir::Value grid, size_t d) {
    MAESTRO_ASSIGN(mlir::Value at, coordinates(grid, d));
    bool bringsNeighbours = interpolation == Interpolation::Cubic; // Else the point itself.
    if (!bringsNeighbours) {
      MAESTRO_ASSIGN(at, broughtInside(at, d));
    }
    std::vector<Tap> taps;
    if (interpolation == Interpolation::Nearest) {
      MAESTRO_ASSIGN(mlir::Value place, n.e.emit<nn::RoundOp>(at));
      MAESTRO_ASSIGN(Tap tap, inImage({place, n.e.fill(1, {rows, count}, dtype)}, d));
      return std::vector{tap};
    }
    MAESTRO_ASSIGN(mlir::Value before, n.e.emit<nn::FloorOp>(at));
    MAESTRO_ASSIGN(mlir::Value fraction, n.e.emit<nn::SubOp>(at, before));
    int first = bringsNeighbours ? -1 : 0, last = bringsNeighbours ? 2 : 1;
    for (int offset = first; offset <= last; ++offset) {
      MAESTRO_ASSIGN(mlir::Value place, with<nn::AddOp>(before, offset));
      MAESTRO_ASSIGN(mlir::Value weight, weightOf(fraction, offset));
      if (bringsNeighbours) {
        MAESTRO_ASSIGN(place, broughtInside(place, d));
        MAESTRO_ASSIGN(place, n.e.emit<nn::RoundOp>(place));
      }
      MAESTRO_ASSIGN(Tap tap, inImage({place, weight}, d));
      taps.push_back(tap);
    }
    return taps;
  }

  /// A neighbour outside of the image weighs nothing, wherever it is read.
  Result<Tap> inImage(Tap tap, size_t d) {
    auto most = static_cast<double>(sizes[d] - 1);
    if (outside == Outside::Zeros) {
      MAESTRO_ASSIGN(mlir::Value from, with<nn::GreaterEqualOp>(tap.place, 0));
      MAESTRO_ASSIGN(mlir::Value to, with<nn::LessEqualOp>(tap.place, most));
      MAESTRO_ASSIGN(mlir::Value isInside, n.e.emit<nn::AndOp>(from, to));
      MAESTRO_ASSIGN(tap.weight, n.e.emit<nn::WhereOp>(isInside, tap.weight, number(0)));
    }
    MAESTRO_ASSIGN(tap.place, clipped(tap.place, most));
    tap.place = n.e.cast(tap.place, DType::I64);
    return tap;
  }

  Result<Points> combined(const Points &points, const std::vector<Tap> &taps, size_t d) {
    if (points.empty())
      return taps;
    Points all;
    for (const Tap &point : points)
      for (const Tap &tap : taps) {
        Tap both;
        mlir::Value size = n.e.scalar(static_cast<double>(sizes[d]), DType::I64);
        MAESTRO_ASSIGN(both.place, n.e.emit<nn::MulOp>(point.place, size));
        MAESTRO_ASSIGN(both.place, n.e.emit<nn::AddOp>(both.place, tap.place));
        MAESTRO_ASSIGN(both.weight, n.e.emit<nn::MulOp>(point.weight, tap.weight));
        all.push_back(both);
      }
    return all;
  }

  /// [N, C, P]
  Result<mlir::Value> sumOf(mlir::Value x, const Points &points) {
    Shape from(Emitter::shapeOf(x)), at{rows, from[1], count};
    mlir::Value image = n.e.reshape(x, {from[0], from[1], nn::productOf(llvm::ArrayRef<DimExpr>(from).drop_front(2))});
    mlir::Value sum;
    for (const Tap &point : points) {
      mlir::Value places = n.e.broadcastTo(n.e.reshape(point.place, {rows, 1, count}), at);
      MAESTRO_ASSIGN(mlir::Value read, n.e.emit<nn::GatherElementsOp>(image, places, 2));
      MAESTRO_ASSIGN(read, n.e.emit<nn::MulOp>(read, n.e.reshape(point.weight, {rows, 1, count})));
      if (sum) {
        MAESTRO_ASSIGN(read, n.e.emit<nn::AddOp>(sum, read));
      }
      sum = read;
    }
    return sum;
  }

  NodeContext &n;
  Interpolation interpolation = Interpolation::Linear;
  Outside outside = Outside::Zeros;
  bool alignsCorners = false;
  std::vector<int64_t> sizes; ///< Of the image.
  DType dtype = DType::F32;
  DimExpr rows, count; ///< Images; points of each.
  Shape result;
};

Status importGridSample(NodeContext &n) { return GridSampler(n).import(); }

} // namespace

std::span<const OpEntry> gridSampleOps() {
  static constexpr OpEntry kOps[] = {{"GridSample", 16, importGridSample}};
  return kOps;
}

} // namespace maestro::planner
