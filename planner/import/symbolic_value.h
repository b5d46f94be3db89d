// Small tensors whose values are known while a graph is imported: exact integers in terms of named dims
// (`[batch, 4*images, 64]`), or real numbers. Two thirds of an exported graph is arithmetic on such
// tensors; it is done here, and only what really is data becomes operators.
//
// Also DimConstraints: which dims must be equal, as operators reveal it.
#pragma once

#include "base/dtype.h"
#include "base/status.h"
#include "ir/dim_expr.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace maestro::planner {

/// Tensors with more elements are not folded.
inline constexpr int64_t kMaxFoldedElements = 1024;

/// An exact integer (also in floating point tensors, where it is exact), or a real number.
using FoldedElement = std::variant<DimExpr, double>;

struct FoldedTensor {
  DType dtype = DType::I64;
  std::vector<int64_t> shape;
  std::vector<FoldedElement> elements; ///< Row-major.

  static FoldedTensor scalar(DType dtype, FoldedElement value);
  /// An i64 vector.
  static FoldedTensor vector(std::vector<DimExpr> values);

  int64_t size() const { return static_cast<int64_t>(elements.size()); }
  int rank() const { return static_cast<int>(shape.size()); }

  /// The value when it does not depend on dims.
  std::optional<double> asDouble(int64_t index) const;
  std::optional<int64_t> asInteger(int64_t index) const;
  std::optional<DimExpr> asDim(int64_t index) const;
  bool isConstant() const; ///< No element depends on a dim.
  /// All elements are this number.
  bool isUniform(double value) const;
};

enum class FoldedBinary {
  Add,
  Sub,
  Mul,
  Div,
  Mod,
  FMod,
  Pow,
  Min,
  Max,
  Equal,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  And,
  Or,
  Xor
};
enum class FoldedUnary { Neg, Abs, Floor, Ceil, Round, Sign, Sqrt, Reciprocal, Exp, Log, Not };

/// Each fold answers nothing where the result is not known exactly or would be too large; the caller
/// then emits an operator.
std::optional<FoldedTensor> fold(FoldedBinary op, const FoldedTensor &a, const FoldedTensor &b);
std::optional<FoldedTensor> fold(FoldedUnary op, const FoldedTensor &x);
std::optional<FoldedTensor> foldWhere(const FoldedTensor &condition, const FoldedTensor &onTrue,
                                      const FoldedTensor &onFalse);
std::optional<FoldedTensor> foldCast(const FoldedTensor &x, DType dtype);
std::optional<FoldedTensor> foldReshape(const FoldedTensor &x, std::vector<int64_t> shape);
std::optional<FoldedTensor> foldTranspose(const FoldedTensor &x, std::span<const int64_t> permutation);
std::optional<FoldedTensor> foldExpand(const FoldedTensor &x, std::span<const int64_t> shape);
std::optional<FoldedTensor> foldConcat(std::span<const FoldedTensor *const> inputs, int64_t axis);
/// offsets and steps for every dim, as nn.slice has them.
std::optional<FoldedTensor> foldSlice(const FoldedTensor &x, std::span<const int64_t> offsets,
                                      std::span<const int64_t> steps, std::span<const int64_t> shape);
/// Indices may be negative; nothing when one is out of range.
std::optional<FoldedTensor> foldGather(const FoldedTensor &data, const FoldedTensor &indices, int64_t axis);
/// Over all elements.
std::optional<FoldedTensor> foldReduce(FoldedBinary op, const FoldedTensor &x, bool keepdims);
std::optional<FoldedTensor> foldCumsum(const FoldedTensor &x, bool exclusive, bool reverse);

/// Rounds to what an element of that type can hold.
double roundTo(DType dtype, double value);

/// max(low, min(value, high)), simplified by what is known of the dims (every symbol is at least 1).
DimExpr clampDim(const DimExpr &value, const DimExpr &low, const DimExpr &high);
/// The smaller or larger of two expressions where that is known, else min() or max().
DimExpr smaller(const DimExpr &a, const DimExpr &b);
DimExpr larger(const DimExpr &a, const DimExpr &b);

/// Equalities between dims found so far: symbol -> what replaces it; and the bounds that follow from them.
class DimConstraints {
public:
  /// Symbols that `prefer` answers true for are replaced only when there is no other way (a graph's
  /// own input dims are better names than invented ones).
  explicit DimConstraints(std::function<bool(std::string_view)> prefer = {}) : prefer(std::move(prefer)) {}

  DimExpr apply(const DimExpr &expr) const;
  /// Whether a = b can hold; remembers what follows. False when it cannot, or is not understood. seq = min(seq, 128)
  /// bounds seq.
  bool unify(const DimExpr &a, const DimExpr &b);
  const std::map<std::string, DimExpr, std::less<>> &substitutions() const { return replacement; }
  /// No value of the expression is below; nothing where none is known.
  std::optional<int64_t> least(const DimExpr &expr) const;
  /// Largest values that equalities allow.
  const std::map<std::string, int64_t, std::less<>> &bounds() const { return atMost; }

private:
  bool assign(const std::string &symbol, const DimExpr &value);
  bool solve(const DimExpr &a, const DimExpr &b);
  bool bound(const DimExpr &a, const DimExpr &b);
  DimExpr decideBy(const DimExpr &expr, const std::map<std::string, int64_t, std::less<>> &limits) const;
  std::function<bool(std::string_view)> prefer;
  std::map<std::string, DimExpr, std::less<>> replacement;
  std::map<std::string, int64_t, std::less<>> atMost;
};

} // namespace maestro::planner
