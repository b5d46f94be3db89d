// Values of symbolic integers: evaluation, substitution, bounds by interval arithmetic.
#include "ir/dim_expr_polynomial.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace maestro {

using Atom = DimExpr::Atom;
using Term = DimExpr::Term;
using AtomKind = DimExpr::AtomKind;

static void collectSymbols(const DimExpr &expr, std::set<std::string> &names) {
  for (const Term &term : expr.terms()) {
    for (const Atom &atom : term.atoms) {
      if (atom.kind == AtomKind::Symbol) {
        names.insert(atom.name);
      } else {
        collectSymbols(*atom.lhs, names);
        collectSymbols(*atom.rhs, names);
      }
    }
  }
}

std::vector<std::string> DimExpr::symbols() const {
  std::set<std::string> names;
  collectSymbols(*this, names);
  return {names.begin(), names.end()};
}

//===----------------------------------------------------------------------===//
// Evaluation and substitution
//===----------------------------------------------------------------------===//

static std::optional<int64_t> combine(AtomKind kind, int64_t lhs, int64_t rhs) {
  if (kind == AtomKind::Min)
    return std::min(lhs, rhs);
  if (kind == AtomKind::Max)
    return std::max(lhs, rhs);
  if (rhs <= 0)
    return std::nullopt;
  int64_t remainder = lhs % rhs < 0 ? lhs % rhs + rhs : lhs % rhs;
  return kind == AtomKind::Mod ? remainder : lhs / rhs - (lhs % rhs < 0 ? 1 : 0);
}

using ValueOf = std::function<std::optional<int64_t>(std::string_view)>;

static std::optional<int64_t> evaluateAtom(const Atom &atom, const ValueOf &valueOf) {
  if (atom.kind == AtomKind::Symbol)
    return valueOf(atom.name);
  std::optional<int64_t> lhs = atom.lhs->evaluate(valueOf), rhs = atom.rhs->evaluate(valueOf);
  return lhs && rhs ? combine(atom.kind, *lhs, *rhs) : std::nullopt;
}

std::optional<int64_t> DimExpr::evaluate(const ValueOf &valueOf) const {
  if (isOverflow())
    return std::nullopt;
  int64_t sum = 0;
  for (const Term &term : terms()) {
    int64_t product = term.coefficient;
    for (const Atom &atom : term.atoms) {
      std::optional<int64_t> factor = evaluateAtom(atom, valueOf);
      if (!factor || __builtin_mul_overflow(product, *factor, &product))
        return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum))
      return std::nullopt;
  }
  return sum;
}

using Replacement = std::function<std::optional<DimExpr>(std::string_view)>;

static DimExpr substituteAtom(const Atom &atom, const Replacement &replacement) {
  if (atom.kind == AtomKind::Symbol)
    return replacement(atom.name).value_or(DimExpr::symbol(atom.name));
  DimExpr lhs = atom.lhs->substitute(replacement), rhs = atom.rhs->substitute(replacement);
  switch (atom.kind) {
  case AtomKind::FloorDiv:
    return DimExpr::floorDiv(lhs, rhs);
  case AtomKind::Mod:
    return DimExpr::mod(lhs, rhs);
  case AtomKind::Min:
    return DimExpr::min(lhs, rhs);
  default:
    return DimExpr::max(lhs, rhs);
  }
}

DimExpr DimExpr::substitute(const Replacement &replacement) const {
  DimExpr sum;
  for (const Term &term : terms()) {
    DimExpr product = term.coefficient;
    for (const Atom &atom : term.atoms)
      product = product * substituteAtom(atom, replacement);
    sum = sum + product;
  }
  return sum;
}

//===----------------------------------------------------------------------===//
// Intervals
//===----------------------------------------------------------------------===//

static constexpr __int128 kInfinite = Interval::kInfinite;
static bool isInfinite(__int128 bound) { return bound >= kInfinite || bound <= -kInfinite; }

static __int128 addBounds(__int128 a, __int128 b) {
  if (isInfinite(a) || isInfinite(b))
    return isInfinite(a) ? a : b;
  return std::clamp(a + b, -kInfinite, kInfinite);
}

static __int128 multiplyBounds(__int128 a, __int128 b) {
  __int128 product;
  if (__builtin_mul_overflow(a, b, &product))
    return (a < 0) == (b < 0) ? kInfinite : -kInfinite;
  return std::clamp(product, -kInfinite, kInfinite);
}

static Interval multiply(Interval a, Interval b) {
  __int128 corners[] = {multiplyBounds(a.lo, b.lo), multiplyBounds(a.lo, b.hi), multiplyBounds(a.hi, b.lo),
                        multiplyBounds(a.hi, b.hi)};
  return {*std::ranges::min_element(corners), *std::ranges::max_element(corners)};
}

/// floor(a ÷ b) for b ≥ 1; an infinite divisor leaves 0 or −1.
static __int128 divideBound(__int128 a, __int128 b) {
  if (isInfinite(b))
    return a < 0 ? -1 : 0;
  if (isInfinite(a))
    return a;
  return a / b - (a % b < 0 ? 1 : 0);
}

static Interval floorDivide(Interval a, Interval b) {
  b = {std::max<__int128>(b.lo, 1), std::max<__int128>(b.hi, 1)};
  return {divideBound(a.lo, a.lo < 0 ? b.lo : b.hi), divideBound(a.hi, a.hi < 0 ? b.hi : b.lo)};
}

using SymbolInterval = std::function<Interval(std::string_view)>;

static Interval atomInterval(const Atom &atom, const SymbolInterval &symbolInterval) {
  if (atom.kind == AtomKind::Symbol)
    return symbolInterval(atom.name);
  Interval a = intervalOf(*atom.lhs, symbolInterval), b = intervalOf(*atom.rhs, symbolInterval);
  switch (atom.kind) {
  case AtomKind::FloorDiv:
    return floorDivide(a, b);
  case AtomKind::Mod:
    return {0, std::min(addBounds(std::max<__int128>(b.hi, 1), -1), a.lo >= 0 ? a.hi : kInfinite)};
  case AtomKind::Min:
    return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
  default:
    return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
  }
}

/// `expr` with each c·(n floordiv r), c a multiple of r, at one end of what it may be: n − r < r·(n floordiv r) ≤ n.
/// Nothing where there is none.
static std::optional<DimExpr> withoutFloorDivs(const DimExpr &expr, bool lowest) {
  bool any = false;
  DimExpr sum;
  for (const Term &term : expr.terms()) {
    const Atom *atom = term.atoms.size() == 1 && term.atoms[0].kind == AtomKind::FloorDiv ? &term.atoms[0] : nullptr;
    std::optional<int64_t> divisor = atom ? atom->rhs->asConstant() : std::nullopt;
    if (!divisor || *divisor < 2 || term.coefficient % *divisor != 0) {
      sum = sum + DimExpr::Builder::intern({term});
      continue;
    }
    any = true;
    int64_t factor = term.coefficient / *divisor;
    bool roundsMost = (factor > 0) == lowest;
    sum = sum + DimExpr(factor) * (roundsMost ? *atom->lhs - *divisor + 1 : *atom->lhs);
  }
  return any && !sum.isOverflow() ? std::optional(sum) : std::nullopt;
}

static Interval intervalOfTerms(const DimExpr &expr, const SymbolInterval &symbolInterval) {
  Interval sum{0, 0};
  for (const Term &term : expr.terms()) {
    Interval product{term.coefficient, term.coefficient};
    for (const Atom &atom : term.atoms)
      product = multiply(product, atomInterval(atom, symbolInterval));
    sum = {addBounds(sum.lo, product.lo), addBounds(sum.hi, product.hi)};
  }
  return sum;
}

/// Term by term; and as x and what x was rounded to are close to one another.
Interval intervalOf(const DimExpr &expr, const SymbolInterval &symbolInterval) {
  Interval interval = intervalOfTerms(expr, symbolInterval);
  if (expr.terms().size() < 2)
    return interval;
  if (std::optional<DimExpr> least = withoutFloorDivs(expr, true))
    interval.lo = std::max(interval.lo, intervalOf(*least, symbolInterval).lo);
  if (std::optional<DimExpr> most = withoutFloorDivs(expr, false))
    interval.hi = std::min(interval.hi, intervalOf(*most, symbolInterval).hi);
  return interval;
}

Interval sizeInterval(const DimExpr &expr) {
  return intervalOf(expr, [](std::string_view) { return Interval{0, DimExpr::kMaxSymbol}; });
}

static std::optional<int64_t> asInt64(__int128 bound) {
  if (bound > INT64_MAX || bound < INT64_MIN)
    return std::nullopt;
  return static_cast<int64_t>(bound);
}

std::optional<int64_t> DimExpr::lowerBound(bool symbolsMayBeZero) const {
  if (isOverflow())
    return std::nullopt;
  Interval symbol{symbolsMayBeZero ? 0 : 1, kInfinite};
  return asInt64(intervalOf(*this, [&](std::string_view) { return symbol; }).lo);
}

/// Where quotients by constants are added and subtracted, parts of a whole mostly: numerator and denominator of what
/// the expression is at most, a quotient's remainder taken to be what makes it most.
static std::pair<DimExpr, int64_t> relaxed(const DimExpr &expr) {
  auto quotientOf = [](const Term &term) -> const Atom * {
    bool isQuotient = term.atoms.size() == 1 && term.atoms[0].kind == AtomKind::FloorDiv;
    return isQuotient && term.atoms[0].rhs->asConstant().value_or(0) > 0 ? &term.atoms[0] : nullptr;
  };
  int64_t denominator = 1;
  for (const Term &term : expr.terms())
    if (const Atom *quotient = quotientOf(term))
      denominator = std::lcm(denominator, *quotient->rhs->asConstant());
  DimExpr numerator;
  for (const Term &term : expr.terms()) {
    const Atom *quotient = quotientOf(term);
    if (!quotient) {
      numerator = numerator + denominator * DimExpr::Builder::fromTerms({term});
      continue;
    }
    int64_t divisor = *quotient->rhs->asConstant();
    DimExpr least = term.coefficient < 0 ? *quotient->lhs - (divisor - 1) : *quotient->lhs;
    numerator = numerator + DimExpr(term.coefficient) * DimExpr(denominator / divisor) * least;
  }
  return {numerator, denominator};
}

std::optional<int64_t>
DimExpr::upperBound(const std::function<std::optional<int64_t>(std::string_view)> &boundOf) const {
  if (isOverflow())
    return std::nullopt;
  auto symbolInterval = [&](std::string_view name) {
    std::optional<int64_t> bound = boundOf(name);
    return Interval{0, bound ? *bound : kInfinite};
  };
  Interval bounds = intervalOf(*this, symbolInterval);
  if (auto [numerator, denominator] = relaxed(*this); denominator > 1 && !numerator.isOverflow())
    bounds.hi = std::min(bounds.hi, divideBound(intervalOf(numerator, symbolInterval).hi, denominator));
  return asInt64(bounds.hi);
}

} // namespace maestro
