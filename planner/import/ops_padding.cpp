// Padding: with a value, or with the tensor's own elements.
#include "base/saturate.h"
#include "planner/import/import_state.h"
#include "planner/import/known_shapes.h"
#include "planner/import/op_table.h"

#include <fmt/format.h>

#include <numeric>

namespace maestro::planner {
namespace {

struct Padding {
  Shape low, high;
};

Result<Padding> readPadding(NodeContext &n, size_t rank) {
  Shape pads;
  if (auto attribute = n.intsAttribute("pads")) {
    pads.assign(attribute->begin(), attribute->end());
  } else {
    MAESTRO_ASSIGN(pads, n.dimList(1, "pads"));
  }
  Ints axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (n.has(3)) {
    MAESTRO_ASSIGN(axes, n.intList(3, "axes"));
  }
  if (pads.size() != 2 * axes.size())
    return Status::invalidInput(fmt::format("{} pads for {} axes", pads.size(), axes.size()));
  Padding result{Shape(rank, DimExpr(0)), Shape(rank, DimExpr(0))};
  for (size_t i = 0; i < axes.size(); ++i) {
    MAESTRO_ASSIGN(int64_t axis, n.normalizeAxis(axes[i], static_cast<int64_t>(rank)));
    result.low[axis] = pads[i];
    result.high[axis] = pads[axes.size() + i];
  }
  return result;
}

/// Negative pads cut: what is left after cutting, with pads ≥ 0.
Result<mlir::Value> cut(NodeContext &n, mlir::Value x, Padding &padding) {
  for (size_t axis = 0; axis < padding.low.size(); ++axis) {
    MAESTRO_ASSIGN(bool lowCuts, n.e.isNegative(padding.low[axis]));
    MAESTRO_ASSIGN(bool highCuts, n.e.isNegative(padding.high[axis]));
    DimExpr low = lowCuts ? DimExpr(0) - padding.low[axis] : DimExpr(0);
    DimExpr high = highCuts ? DimExpr(0) - padding.high[axis] : DimExpr(0);
    DimExpr rest = Emitter::shapeOf(x)[axis] - low - high;
    if (auto left = rest.asConstant(); left && *left < 0)
      return Status::invalidInput(fmt::format("pads cut more than dim {} has", axis));
    if (lowCuts || highCuts)
      x = n.e.sliceAxis(x, static_cast<int64_t>(axis), low, rest);
    padding.low[axis] = lowCuts ? DimExpr(0) : padding.low[axis];
    padding.high[axis] = highCuts ? DimExpr(0) : padding.high[axis];
  }
  return x;
}

/// Which element of a dim of `size` lies at `place` before its beginning or after its end.
int64_t mirrored(int64_t place, int64_t size, const std::string &mode) {
  if (mode == "edge" || size == 1)
    return std::clamp<int64_t>(place, 0, size - 1);
  int64_t period = mode == "wrap" ? size : 2 * (size - 1);
  int64_t phase = (place % period + period) % period;
  return phase < size ? phase : period - phase;
}

/// Padding with the tensor's own elements along an axis of known size is a choice of elements, which has a gradient.
Result<mlir::Value> padByChoice(NodeContext &n, mlir::Value x, int64_t axis, int64_t low, int64_t high,
                                const std::string &mode) {
  int64_t size = *Emitter::shapeOf(x)[axis].asConstant();
  std::vector<DimExpr> places;
  for (int64_t place = -low; place < size + high; ++place)
    places.emplace_back(mirrored(place, size, mode));
  return n.e.emit<nn::GatherOp>(x, n.e.materialize(FoldedTensor::vector(std::move(places))), axis);
}

/// A pad along axes whose sizes are all known, within reason.
bool isChoice(mlir::Value x, const Padding &padding) {
  for (size_t i = 0; i < padding.low.size(); ++i) {
    auto size = Emitter::shapeOf(x)[i].asConstant(), low = padding.low[i].asConstant(),
         high = padding.high[i].asConstant();
    bool changes = !padding.low[i].isConstant(0) || !padding.high[i].isConstant(0);
    if (changes && (!size || !low || !high || *size < 1 || *low > 1 << 16 || *high > 1 << 16 || *size > 1 << 16))
      return false;
  }
  return true;
}

Status importPad(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(Padding padding, readPadding(n, Emitter::rankOf(x)));
  double value = n.floatAttribute("value", 0);
  if (n.has(2)) {
    MAESTRO_ASSIGN(value, n.number(2, "the padding value"));
  }
  std::string mode = n.textAttribute("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return Status::invalidInput(fmt::format("mode '{}' is none of constant, reflect, edge, wrap", mode));
  MAESTRO_ASSIGN(x, cut(n, x, padding));
  Shape shape(Emitter::shapeOf(x));
  for (size_t i = 0; i < shape.size(); ++i)
    shape[i] = shape[i] + padding.low[i] + padding.high[i];
  if (llvm::ArrayRef<DimExpr>(shape) == Emitter::shapeOf(x))
    return n.set(0, x);
  if (mode != "constant" && isChoice(x, padding)) {
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] != Emitter::shapeOf(x)[i]) {
        MAESTRO_ASSIGN(x, padByChoice(n, x, static_cast<int64_t>(i), *padding.low[i].asConstant(),
                                      *padding.high[i].asConstant(), mode));
      }
    return n.set(0, x);
  }
  return n.set(0, n.e.typed<nn::PadOp>(n.e.like(x, shape), x, n.e.dims(padding.low), n.e.dims(padding.high),
                                       n.e.builder.getF64FloatAttr(value), n.e.builder.getStringAttr(mode)));
}

} // namespace

std::span<const OpEntry> paddingOps() {
  static constexpr OpEntry kOps[] = {
      {"Pad", 2, importPad},
  };
  return kOps;
}

} // namespace maestro::planner
