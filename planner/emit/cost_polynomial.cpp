#include "planner/emit/cost_polynomial.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>

namespace maestro::planner {
namespace {

namespace fb = plan::fb;

struct BoundsOf {
  const std::map<std::string, int64_t> &bounds;
  std::optional<int64_t> operator()(std::string_view name) const {
    auto found = bounds.find(std::string(name));
    return found == bounds.end() ? std::nullopt : std::optional(found->second);
  }
};

/// The value of floordiv, mod, min or max at the bounds.
int64_t atomAtBounds(const DimExpr::Atom &atom,
                     const std::function<std::optional<int64_t>(std::string_view)> &boundOf) {
  int64_t left = atom.lhs->evaluate(boundOf).value_or(1), right = atom.rhs->evaluate(boundOf).value_or(1);
  switch (atom.kind) {
  case DimExpr::AtomKind::FloorDiv:
    return left / std::max<int64_t>(right, 1);
  case DimExpr::AtomKind::Mod:
    return left % std::max<int64_t>(right, 1);
  case DimExpr::AtomKind::Min:
    return std::min(left, right);
  case DimExpr::AtomKind::Max:
    return std::max(left, right);
  case DimExpr::AtomKind::Symbol:
    break;
  }
  return boundOf(atom.name).value_or(1);
}

using Atoms = std::vector<DimExpr::Atom>;

/// Adds coefficient · Π symbols · Π atoms. A quotient by a constant grows as what is divided, and is exact at the
/// bounds.
void addProduct(CostPolynomial &sum, double coefficient, std::vector<uint32_t> symbols, Atoms atoms,
                const BoundsOf &bounds, plan::PlanBuilder &tables) {
  while (!atoms.empty()) {
    DimExpr::Atom atom = std::move(atoms.back());
    atoms.pop_back();
    if (atom.kind == DimExpr::AtomKind::Symbol) {
      symbols.push_back(tables.symbolIndex(atom.name));
      continue;
    }
    coefficient *= static_cast<double>(atomAtBounds(atom, bounds));
    auto dividend = static_cast<double>(atom.lhs->evaluate(bounds).value_or(0));
    if (atom.kind != DimExpr::AtomKind::FloorDiv || !atom.rhs->isConstant() || dividend <= 0)
      continue;
    for (const DimExpr::Term &term : atom.lhs->terms()) {
      Atoms rest = atoms;
      rest.insert(rest.end(), term.atoms.begin(), term.atoms.end());
      addProduct(sum, coefficient * static_cast<double>(term.coefficient) / dividend, symbols, std::move(rest), bounds,
                 tables);
    }
    return;
  }
  std::sort(symbols.begin(), symbols.end());
  sum[symbols] += coefficient;
}

} // namespace

void addTerms(CostPolynomial &sum, const DimExpr &work, double factor, const std::map<std::string, int64_t> &bounds,
              plan::PlanBuilder &tables) {
  for (const DimExpr::Term &term : work.terms())
    addProduct(sum, static_cast<double>(term.coefficient) * factor, {}, term.atoms, BoundsOf{bounds}, tables);
}

double valueAtBounds(const DimExpr &work, const std::map<std::string, int64_t> &bounds) {
  return static_cast<double>(work.evaluate(BoundsOf{bounds}).value_or(0));
}

std::vector<std::unique_ptr<fb::CostTermT>> toTerms(const CostPolynomial &cost) {
  constexpr double kMostPicoseconds = 1e17;
  std::vector<std::unique_ptr<fb::CostTermT>> terms;
  for (const auto &[symbols, value] : cost) {
    if (value < 1)
      continue;
    auto term = std::make_unique<fb::CostTermT>();
    term->picoseconds = static_cast<int64_t>(std::min(value, kMostPicoseconds));
    term->symbols = symbols;
    terms.push_back(std::move(term));
  }
  return terms;
}

} // namespace maestro::planner
