#include "planner/emit/plan_tables.h"

#include <algorithm>
#include <cassert>

namespace maestro::planner {

namespace fb = plan::fb;

uint32_t PlanTables::node(fb::DimOp op, int64_t a, int64_t b) {
  auto key = std::make_tuple(static_cast<uint8_t>(op), a, b);
  auto [position, isNew] = nodes.try_emplace(key, static_cast<uint32_t>(plan.exprs.size()));
  if (isNew)
    plan.exprs.emplace_back(op, a, b);
  return position->second;
}

uint32_t PlanTables::atom(const DimExpr::Atom &atom) {
  if (atom.kind == DimExpr::AtomKind::Symbol) {
    auto found = std::find_if(plan.symbols.begin(), plan.symbols.end(),
                              [&](const auto &symbol) { return symbol->name == atom.name; });
    assert(found != plan.symbols.end() && "symbols are declared before expressions use them");
    return node(fb::DimOp::Symbol, found - plan.symbols.begin());
  }
  uint32_t lhs = expr(*atom.lhs), rhs = expr(*atom.rhs);
  switch (atom.kind) {
  case DimExpr::AtomKind::FloorDiv:
    return node(fb::DimOp::FloorDiv, lhs, rhs);
  case DimExpr::AtomKind::CeilDiv:
    return node(fb::DimOp::CeilDiv, lhs, rhs);
  case DimExpr::AtomKind::Mod:
    return node(fb::DimOp::Mod, lhs, rhs);
  case DimExpr::AtomKind::Min:
    return node(fb::DimOp::Min, lhs, rhs);
  default:
    return node(fb::DimOp::Max, lhs, rhs);
  }
}

uint32_t PlanTables::term(const DimExpr::Term &term) {
  if (term.atoms.empty())
    return node(fb::DimOp::Constant, term.coefficient);
  uint32_t product = atom(term.atoms.front());
  for (size_t i = 1; i < term.atoms.size(); ++i)
    product = node(fb::DimOp::Mul, product, atom(term.atoms[i]));
  if (term.coefficient == 1)
    return product;
  return node(fb::DimOp::Mul, node(fb::DimOp::Constant, term.coefficient), product);
}

uint32_t PlanTables::expr(const DimExpr &expr) {
  const auto &terms = expr.terms();
  if (terms.empty())
    return node(fb::DimOp::Constant, 0);
  uint32_t sum = term(terms.front());
  for (size_t i = 1; i < terms.size(); ++i)
    sum = node(fb::DimOp::Add, sum, term(terms[i]));
  return sum;
}

uint32_t PlanTables::kernel(std::string_view name) {
  auto found = kernels.find(name);
  if (found != kernels.end())
    return found->second;
  plan.kernels.emplace_back(name);
  return kernels.emplace(name, static_cast<uint32_t>(plan.kernels.size() - 1)).first->second;
}

uint32_t PlanTables::scope(std::string_view name) {
  if (name.empty())
    return kNone;
  auto found = scopes.find(name);
  if (found != scopes.end())
    return found->second;
  plan.scopes.emplace_back(name);
  return scopes.emplace(name, static_cast<uint32_t>(plan.scopes.size() - 1)).first->second;
}

uint32_t PlanTables::attributes(std::vector<AttributeValue> list) {
  if (list.empty())
    return kNone;
  std::sort(list.begin(), list.end());
  auto [position, isNew] =
      attributeLists.try_emplace(list, static_cast<uint32_t>(plan.attribute_lists.size()));
  if (isNew) {
    auto table = std::make_unique<fb::AttributeListT>();
    for (const AttributeValue &value : list) {
      auto item = std::make_unique<fb::AttributeT>();
      item->name = value.name;
      item->ints = value.ints;
      item->floats = value.floats;
      item->text = value.text;
      item->exprs = value.exprs;
      table->items.push_back(std::move(item));
    }
    plan.attribute_lists.push_back(std::move(table));
  }
  return position->second;
}

} // namespace maestro::planner
