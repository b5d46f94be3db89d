// Equalities between dims, as operators reveal them.
#include "planner/import/symbolic_value.h"

namespace maestro::planner {

DimExpr DimConstraints::apply(const DimExpr &expr) const {
  if (replacement.empty())
    return expr;
  return expr.substitute([&](std::string_view name) -> std::optional<DimExpr> {
    auto found = replacement.find(name);
    return found == replacement.end() ? std::nullopt : std::optional(found->second);
  });
}

bool DimConstraints::unify(const DimExpr &a, const DimExpr &b) {
  DimExpr x = apply(a), y = apply(b);
  return x == y || solve(x, y) || solve(y, x);
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
