// DFT and STFT: products with matrices of sines, whose sizes are known.
#include "planner/import/node_context.h"
#include "planner/import/op_table.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

namespace maestro::planner {
namespace {

/// Elements of a matrix, which the plan holds.
constexpr int64_t kLargestMatrix = 1 << 22;

/// A transform of `length` points, complex numbers as pairs of a real and an imaginary part.
struct Transform {
  int64_t length = 0, frequencies = 0;
  bool inverse = false;

  /// e^(∓2πi·n·k ÷ length), divided by the length where it is the inverse.
  std::pair<double, double> factor(int64_t n, int64_t k) const {
    // The product modulo the length, so that large angles lose nothing.
    double angle = 2 * std::numbers::pi * static_cast<double>(n * k % length) / static_cast<double>(length);
    double scale = inverse ? 1 / static_cast<double>(length) : 1;
    return {scale * std::cos(angle), (inverse ? 1 : -1) * scale * std::sin(angle)};
  }
};

Result<Transform> transformOf(int64_t length, bool onesided, bool inverse) {
  if (length < 1 || length > 1 << 20)
    return Status::invalidInput(fmt::format("a transform of {} points", length));
  if (onesided && inverse)
    return Status::invalidInput("an inverse transform of one side is not supported; give it both");
  return Transform{length, onesided ? length / 2 + 1 : length, inverse};
}

/// [length · parts, frequencies · 2]: what a row of the signal is multiplied by. `parts` is 1 for real numbers.
Result<mlir::Value> matrixOf(NodeContext &n, const Transform &t, int64_t parts, DType dtype) {
  int64_t columns = 2 * t.frequencies;
  if (t.length * parts > kLargestMatrix / columns)
    return Status::invalidInput(fmt::format("a transform of {} points to {}: its matrix has more than {} elements",
                                            t.length, t.frequencies, kLargestMatrix));
  FoldedTensor matrix{dtype, {t.length * parts, columns}, {}};
  for (int64_t i = 0; i < t.length; ++i)
    for (int64_t part = 0; part < parts; ++part)
      for (int64_t k = 0; k < t.frequencies; ++k) {
        auto [real, imaginary] = t.factor(i, k);
        matrix.elements.emplace_back(part == 0 ? real : -imaginary);
        matrix.elements.emplace_back(part == 0 ? imaginary : real);
      }
  return n.e.materialize(matrix);
}

/// `axis` of x, padded with zeros or cut to `length`.
mlir::Value resized(NodeContext &n, mlir::Value x, int64_t axis, int64_t length) {
  Shape shape(Emitter::shapeOf(x));
  int64_t size = *shape[axis].asConstant();
  if (size >= length)
    return size == length ? x : n.e.sliceAxis(x, axis, DimExpr(0), DimExpr(length));
  Shape low(shape.size(), DimExpr(0)), high(low);
  high[axis] = DimExpr(length - size);
  shape[axis] = DimExpr(length);
  return n.e.typed<nn::PadOp>(n.e.like(x, shape), x, n.e.dims(low), n.e.dims(high), n.e.builder.getF64FloatAttr(0.0),
                              n.e.builder.getStringAttr("constant"));
}

/// x[…, N, …, 1 or 2] along one axis. It is an attribute before version 20, an input since.
Status importDft(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  int64_t rank = Emitter::rankOf(x), axis = n.version < 20 ? n.intAttribute("axis", 1) : -2;
  if (n.version >= 20 && n.has(2)) {
    MAESTRO_ASSIGN(double given, n.number(2, "axis"));
    axis = static_cast<int64_t>(std::clamp(given, -64.0, 64.0));
  }
  MAESTRO_ASSIGN(axis, n.normalizeAxis(axis, rank));
  auto parts = rank >= 2 ? Emitter::shapeOf(x).back().asConstant() : std::nullopt;
  auto size = Emitter::shapeOf(x)[axis].asConstant();
  if (!parts || (*parts != 1 && *parts != 2) || axis == rank - 1 || !size)
    return Status::invalidInput(fmt::format("an input of {}; the last dim holds 1 or 2 parts, and axis {} a fixed size",
                                            nn::shapeText(Emitter::shapeOf(x)), axis));
  int64_t length = *size;
  if (n.has(1)) {
    MAESTRO_ASSIGN(double given, n.number(1, "dft_length"));
    length = static_cast<int64_t>(std::clamp(given, 0.0, 1e9));
  }
  MAESTRO_ASSIGN(Transform t,
                 transformOf(length, n.intAttribute("onesided", 0) != 0, n.intAttribute("inverse", 0) != 0));
  x = resized(n, x, axis, length);
  Ints order;
  for (int64_t d = 0; d < rank - 1; ++d)
    if (d != axis)
      order.push_back(d);
  order.push_back(axis);
  order.push_back(rank - 1);
  MAESTRO_ASSIGN(x, n.e.transpose(x, order));
  Shape rows(Emitter::shapeOf(x).drop_back(2)), flat(rows), result(rows);
  flat.push_back(DimExpr(length * *parts));
  result.push_back(DimExpr(t.frequencies));
  result.push_back(DimExpr(2));
  if (rows.empty())
    flat.insert(flat.begin(), DimExpr(1));
  MAESTRO_ASSIGN(mlir::Value matrix, matrixOf(n, t, *parts, Emitter::dtypeOf(x)));
  MAESTRO_ASSIGN(mlir::Value y, n.e.emit<nn::MatmulOp>(n.e.reshape(x, flat), matrix, mlir::Value(), false, false));
  Ints back(order.size());
  for (size_t d = 0; d < order.size(); ++d)
    back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  return n.set(0, n.e.transpose(n.e.reshape(y, result), back));
}

/// signal[B, L] or [B, L, 1] in frames: a convolution whose filters are the window times a sine each.
Status importStft(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value signal, n.tensor(0));
  MAESTRO_ASSIGN(double step, n.number(1, "frame_step"));
  Shape shape(Emitter::shapeOf(signal));
  bool isReal = shape.size() == 2 || (shape.size() == 3 && shape[2].isConstant(1));
  if (!isReal || !(step >= 1) || step > 1 << 30)
    return Status::invalidInput(
        fmt::format("a signal of {} in steps of {}; real signals [batch, length, 1] and steps of "
                    "at least 1 are supported",
                    nn::shapeText(shape), step));
  mlir::Value window;
  double length = 0;
  if (n.has(2)) {
    MAESTRO_ASSIGN(window, n.tensor(2));
    auto size = nn::productOf(Emitter::shapeOf(window)).asConstant();
    length = static_cast<double>(size.value_or(0));
  }
  if (n.has(3)) {
    MAESTRO_ASSIGN(length, n.number(3, "frame_length"));
  }
  MAESTRO_ASSIGN(Transform t, transformOf(static_cast<int64_t>(std::clamp(length, 0.0, 1e9)),
                                          n.intAttribute("onesided", 1) != 0, false));
  MAESTRO_ASSIGN(mlir::Value filters, matrixOf(n, t, 1, Emitter::dtypeOf(signal)));
  MAESTRO_ASSIGN(filters, n.e.transpose(filters, {1, 0}));
  if (window) {
    MAESTRO_TRY(n.e.requireEqual(nn::productOf(Emitter::shapeOf(window)), DimExpr(t.length), "window and frame"));
    MAESTRO_ASSIGN(filters, n.e.emit<nn::MulOp>(filters, n.e.reshape(window, {1, DimExpr(t.length)})));
  }
  DimExpr channels(2 * t.frequencies);
  filters = n.e.reshape(filters, {channels, 1, DimExpr(t.length)});
  const int64_t strides[] = {static_cast<int64_t>(step)}, pads[] = {0, 0}, dilations[] = {1};
  MAESTRO_ASSIGN(mlir::Value y,
                 n.e.emit<nn::ConvOp>(n.e.reshape(signal, {shape[0], 1, shape[1]}), filters, mlir::Value(),
                                      llvm::ArrayRef<int64_t>(strides), llvm::ArrayRef<int64_t>(pads),
                                      llvm::ArrayRef<int64_t>(dilations), 1));
  MAESTRO_ASSIGN(y, n.e.transpose(y, {0, 2, 1}));
  return n.set(0, n.e.reshape(y, {shape[0], Emitter::shapeOf(y)[1], DimExpr(t.frequencies), DimExpr(2)}));
}

} // namespace

std::span<const OpEntry> fourierOps() {
  static constexpr OpEntry kOps[] = {
      {"DFT", 17, importDft},
      {"STFT", 17, importStft},
  };
  return kOps;
}

} // namespace maestro::planner
