// Symbolic integers: the dims of tensors before a micro-batch is known, such as `4*images + 1`.
//
// A DimExpr is immutable and canonical: a polynomial with integer coefficients over atoms, sorted.
// An atom is a symbol, or floordiv, mod, min or max of two expressions (ceildiv becomes floordiv). Equal
// expressions have equal representations, so that == decides equality up to the ring axioms.
//
// Expressions are interned in one table of the process that is never emptied: a DimExpr is one pointer, ==
// compares pointers, and types of the IR may hold them. Safe to use from several threads. No MLIR here.
//
// Symbols are sizes: simplifications assume 0 ≤ symbol ≤ kMaxSymbol. Coefficients are 64-bit integers; where
// they overflow, or an expression grows past kMaxTerms terms, the result is overflow(), which every operation
// passes on and evaluate() answers with nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maestro {

class DimExpr {
public:
  enum class AtomKind : uint8_t { Symbol, FloorDiv, Mod, Min, Max };
  static constexpr int64_t kMaxSymbol = 2147483647;
  static constexpr size_t kMaxTerms = 4096;

  DimExpr();                 ///< 0
  DimExpr(int64_t constant); // NOLINT: implicit on purpose, dims mix with integers.
  static DimExpr symbol(std::string_view name);
  /// What arithmetic beyond 64 bits yields; prints as `overflow!`, which does not parse.
  static DimExpr overflow();
  bool isOverflow() const;

  /// Text as printed by str(): + - * with parentheses, `floordiv`, `ceildiv`, `mod` (infix words),
  /// min(a, b), max(a, b), names [A-Za-z_][A-Za-z0-9_.]*. Also accepts what exporters write: `//`,
  /// `%`, `**` with a constant exponent, Min, Max, Mod, FloorDiv. Nothing for malformed text.
  static std::optional<DimExpr> parse(std::string_view text);
  std::string str() const;

  std::optional<int64_t> asConstant() const;
  bool isConstant() const { return asConstant().has_value(); }
  bool isConstant(int64_t value) const { return asConstant() == value; }
  /// The name when the whole expression is one symbol.
  std::optional<std::string> asSymbol() const;

  /// Names of all symbols, sorted, each once.
  std::vector<std::string> symbols() const;

  /// The value under `valueOf`; nothing when a symbol is unknown, a divisor is not positive, or the
  /// result overflows.
  std::optional<int64_t> evaluate(const std::function<std::optional<int64_t>(std::string_view)> &valueOf) const;

  /// Replaces symbols by expressions; symbols for which `replacement` answers nothing stay.
  DimExpr substitute(const std::function<std::optional<DimExpr>(std::string_view)> &replacement) const;

  /// The quotient when `divisor` divides this exactly as polynomials (batch*seq*64 ÷ 64*seq); used to
  /// infer the −1 of a reshape.
  std::optional<DimExpr> exactQuotient(const DimExpr &divisor) const;

  /// Bounds given that every symbol is at least 1 (or 0 with `symbolsMayBeZero`); used to decide
  /// comparisons such as min(seq, 2^63 − 1) = seq. Nothing when unknown.
  std::optional<int64_t> lowerBound(bool symbolsMayBeZero = false) const;
  /// An upper bound of the value given an upper bound per symbol (monotone parts are evaluated, the
  /// rest is bounded term by term); nothing when a symbol has no bound.
  std::optional<int64_t> upperBound(const std::function<std::optional<int64_t>(std::string_view)> &boundOf) const;

  friend DimExpr operator+(const DimExpr &a, const DimExpr &b);
  friend DimExpr operator-(const DimExpr &a, const DimExpr &b);
  friend DimExpr operator*(const DimExpr &a, const DimExpr &b);
  friend DimExpr operator-(const DimExpr &a) { return DimExpr(0) - a; }
  /// Simplify where exact: (4*n) floordiv 2 = 2*n, n mod 1 = 0, max(n, 0) = n …
  static DimExpr floorDiv(const DimExpr &a, const DimExpr &b);
  static DimExpr ceilDiv(const DimExpr &a, const DimExpr &b);
  static DimExpr mod(const DimExpr &a, const DimExpr &b);
  static DimExpr min(const DimExpr &a, const DimExpr &b);
  static DimExpr max(const DimExpr &a, const DimExpr &b);

  bool operator==(const DimExpr &other) const { return value == other.value; }
  /// The same in every process.
  size_t hash() const;
  /// A total order by structure (degree, then names), the same in every process: < 0, 0 or > 0.
  static int compare(const DimExpr &a, const DimExpr &b);

  /// One multiplication of atoms with a coefficient; the sum of all terms is the value. For
  /// conversion to the plan's expression table.
  struct Atom;
  struct Term;
  const std::vector<Term> &terms() const;

  struct Builder; ///< How ir/dim_expr*.cpp make expressions.

private:
  struct Polynomial;
  const Polynomial *value;
  explicit DimExpr(const Polynomial &value) : value(&value) {}
};

/// A symbol (`name`), or `kind` of `lhs` and `rhs`.
struct DimExpr::Atom {
  AtomKind kind = AtomKind::Symbol;
  std::string name;
  std::shared_ptr<const DimExpr> lhs, rhs;
};

/// coefficient · Π atoms; atoms sorted, repeated for powers.
struct DimExpr::Term {
  int64_t coefficient = 0;
  std::vector<Atom> atoms;
};

std::ostream &operator<<(std::ostream &stream, const DimExpr &expr);

} // namespace maestro
