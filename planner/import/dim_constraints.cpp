// Equalities between dims, as operators reveal them.
#include "planner/import/symbolic_value.h"

#include <algorithm>

namespace maestro::planner {
namespace {

using Kind = DimExpr::AtomKind;
using Limits = std::map<std::string, int64_t, std::less<>>;

/// `expr` with each min and max, innermost first, replaced by what `decide` answers for it.
DimExpr decideAtoms(const DimExpr &expr, const std::function<DimExpr(Kind, const DimExpr &, const DimExpr &)> &decide) {
  DimExpr sum;
  for (const DimExpr::Term &term : expr.terms()) {
    DimExpr product(term.coefficient);
    for (const DimExpr::Atom &atom : term.atoms) {
      if (atom.kind == Kind::Symbol) {
        product = product * DimExpr::symbol(atom.name);
        continue;
      }
      DimExpr a = decideAtoms(*atom.lhs, decide), b = decideAtoms(*atom.rhs, decide);
      product = product * (atom.kind == Kind::FloorDiv ? DimExpr::floorDiv(a, b)
                           : atom.kind == Kind::Mod    ? DimExpr::mod(a, b)
                                                       : decide(atom.kind, a, b));
    }
    sum = sum + product;
  }
  return sum;
}

DimExpr extremum(Kind kind, const DimExpr &a, const DimExpr &b) {
  return kind == Kind::Min ? DimExpr::min(a, b) : DimExpr::max(a, b);
}

/// What a single symbol is at most where `expr` is at most 0: 128 for seq - 128.
std::optional<std::pair<std::string, int64_t>> limitOf(const DimExpr &expr) {
  auto symbols = expr.symbols();
  if (symbols.size() != 1)
    return std::nullopt;
  auto constant = (expr - DimExpr::symbol(symbols[0])).asConstant();
  if (!constant || *constant >= 0)
    return std::nullopt;
  return std::pair(symbols[0], -*constant);
}

} // namespace

DimExpr DimConstraints::apply(const DimExpr &expr) const {
  if (replacement.empty() && atMost.empty())
    return expr;
  DimExpr replaced = expr.substitute([&](std::string_view name) -> std::optional<DimExpr> {
    auto found = replacement.find(name);
    return found == replacement.end() ? std::nullopt : std::optional(found->second);
  });
  return atMost.empty() || replaced.isOverflow() ? replaced : decideBy(replaced, atMost);
}

std::optional<int64_t> DimConstraints::least(const DimExpr &expr) const {
  if (auto low = expr.lowerBound())
    return low;
  auto most = (-expr).upperBound([&](std::string_view name) -> std::optional<int64_t> {
    auto found = atMost.find(name);
    return found == atMost.end() ? std::nullopt : std::optional(found->second);
  });
  return most ? std::optional(-*most) : std::nullopt;
}

/// Chooses between the sides of each min and max where the limits say which it is.
DimExpr DimConstraints::decideBy(const DimExpr &expr, const Limits &limits) const {
  auto limit = [&](std::string_view name) -> std::optional<int64_t> {
    auto found = limits.find(name);
    return found == limits.end() ? std::nullopt : std::optional(found->second);
  };
  return decideAtoms(expr, [&](Kind kind, const DimExpr &a, const DimExpr &b) {
    auto isAtMost = [&](const DimExpr &x, const DimExpr &y) {
      auto most = (x - y).upperBound(limit);
      return most && *most <= 0;
    };
    if (isAtMost(a, b))
      return kind == Kind::Min ? a : b;
    if (isAtMost(b, a))
      return kind == Kind::Min ? b : a;
    return extremum(kind, a, b);
  });
}

bool DimConstraints::unify(const DimExpr &a, const DimExpr &b) {
  DimExpr x = apply(a), y = apply(b);
  return x == y || solve(x, y) || solve(y, x) || bound(x, y);
}

/// A table of constant length meets a dim: where the two are equal as long as the dim is at most some number that a min
/// or max compares it with, that number bounds the dim.
bool DimConstraints::bound(const DimExpr &a, const DimExpr &b) {
  Limits limits = atMost;
  for (const DimExpr *side : {&a, &b})
    (void)decideAtoms(*side, [&](Kind kind, const DimExpr &x, const DimExpr &y) {
      for (const DimExpr &gap : {x - y, y - x})
        if (auto limit = limitOf(gap)) {
          auto [known, fresh] = limits.emplace(*limit);
          known->second = std::min(known->second, limit->second);
        }
      return extremum(kind, x, y);
    });
  if (a.isOverflow() || b.isOverflow() || limits == atMost || decideBy(a, limits) != decideBy(b, limits))
    return false;
  atMost = std::move(limits);
  return true;
}

/// a = coefficient·symbol + constant solved for the symbol; of two bare symbols the less preferred goes.
bool DimConstraints::solve(const DimExpr &a, const DimExpr &b) {
  auto name = a.asSymbol(), other = b.asSymbol();
  if (name && other && prefer && prefer(*name) && !prefer(*other))
    return assign(*other, a);
  if (name && other)
    return assign(*name, b);
  auto symbols = a.symbols();
  if (symbols.size() != 1)
    return false;
  DimExpr symbol = DimExpr::symbol(symbols[0]);
  DimExpr constant = a.substitute([](std::string_view) { return std::optional(DimExpr(0)); });
  auto coefficient = (a - constant).exactQuotient(symbol);
  auto factor = coefficient ? coefficient->asConstant() : std::nullopt;
  if (!factor || *factor == 0)
    return false;
  auto value = (b - constant).exactQuotient(DimExpr(*factor));
  return value && assign(symbols[0], *value);
}

bool DimConstraints::assign(const std::string &symbol, const DimExpr &value) {
  auto inside = value.symbols();
  if (std::find(inside.begin(), inside.end(), symbol) != inside.end())
    return false;
  // A dim that a graph's input names is never narrowed to one number: another value would be refused at run time.
  auto constant = value.asConstant();
  if (constant && (*constant < 0 || (prefer && prefer(symbol))))
    return false;
  for (auto &[name, expr] : replacement)
    expr = expr.substitute([&](std::string_view n) -> std::optional<DimExpr> {
      return n == symbol ? std::optional(value) : std::nullopt;
    });
  replacement.emplace(symbol, value);
  return true;
}

} // namespace maestro::planner
