// Whether padding shows: whether a loss depends on how long the samples are that share its micro-batch.
//
// A symbol that combines by maximum (`seq`) pads every sample of a micro-batch to the longest. A dim that runs
// along it is *right* in so many first positions: they hold what they would hold if the sample were alone. What
// lies behind them, the tail, may be anything in a range: a field's padding value, −∞ behind a mask, or unknown.
//
//   mask   [batch, seq]       right: seq   tail: 0          a field, padded with 0
//   scores [batch, seq, seq]  right: seq   tail: unknown    along either dim
//   masked = where(mask, scores, −∞)       tail: −∞         along the last
//   p = softmax(masked)                    tail: 0          exact, whatever seq is
//   o = p · v                 right: seq                    sums over zeros behind the end
//
// Where a reduction, an end, a position counted from the right or a count meets a tail that is not known to be neutral,
// padding shows. Assumed: values are finite and of ordinary size (kMasked), as without padding.
#pragma once

#include "passes/graph_functions.h"

#include <limits>

namespace maestro::padding {

/// Scores at or below this are masked: softmax gives them exactly 0 in f32 beside any score of ordinary size. BERT's
/// mask, the smallest that models use.
inline constexpr double kMasked = -1e4;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What a value may be, ends included.
struct Range {
  double low = -kInfinity, high = kInfinity;

  static Range point(double value) { return {value, value}; }
  bool isPoint() const { return low == high; }
  bool is(double value) const { return low == value && high == value; }
  /// The least range that holds both.
  Range with(Range other) const { return {std::min(low, other.low), std::max(high, other.high)}; }
};

/// The elements of an elementwise operator's result, of its operands'. Booleans are 0 and 1.
Range evaluate(mlir::Operation *op, llvm::ArrayRef<Range> operands);
/// All that an element type holds: [0, 1] for i1.
Range allOf(mlir::Type elementType);

/// A dim, or a factor of one, that runs along the padded symbol: position (index ÷ stride) mod extent.
struct Axis {
  unsigned dim = 0;
  DimExpr stride = 1;
  DimExpr extent;          ///< Positions, such as `seq + 1`.
  DimExpr right;           ///< So many of the first do not depend on how far is padded; at most `extent`.
  Range tail;              ///< What lies behind them, where all other axes are right.
  int64_t coefficient = 0; ///< Of the position, where Tensor::offset is known.
  mlir::Operation *narrowedBy =
      nullptr; ///< Why not all positions are right: what reads past the end, or puts something behind it.

  bool isWholeDim(llvm::ArrayRef<DimExpr> shape) const { return stride.isConstant(1) && extent == shape[dim]; }
};

/// Padding shows in what `op` computes, because it … `what`: "is a mean over 'seq'".
struct Visible {
  mlir::Operation *op = nullptr;
  std::string what;
};

/// What is known of a tensor.
struct Tensor {
  llvm::SmallVector<Axis, 2> axes;
  Range range;                   ///< Where all axes are right.
  std::optional<int64_t> offset; ///< Every element is offset + Σ coefficient · position, when known.
  std::optional<Visible> visible;

  const Axis *find(unsigned dim, const DimExpr &stride) const;
  /// The axes of a dim.
  bool runsAlong(unsigned dim) const;
};

/// What a tensor of positions (`offset` is known) is where all axes are right, and in the tail of one.
Range positions(const Tensor &tensor);
Range positionsBehind(const Tensor &tensor, const Axis &axis);

/// What an operator's results are, from its operands; `symbol` is the padded one.
llvm::SmallVector<Tensor> transfer(mlir::Operation *op, llvm::ArrayRef<const Tensor *> operands,
                                   llvm::StringRef symbol);

/// What crosses edges, by their names.
using Crossing = std::map<std::string, Tensor, std::less<>>;

/// Where padding along `symbol` first shows in what a loss of the graph, or an edge out of it, reads; nothing where it
/// never does. What arrives over an edge is as in `arriving`, or 0 behind the end where that does not name it. Adds
/// what leaves to `leaving`.
std::optional<Visible> find(mlir::func::FuncOp graph, llvm::StringRef symbol, const Crossing &arriving = {},
                            Crossing *leaving = nullptr);

} // namespace maestro::padding
