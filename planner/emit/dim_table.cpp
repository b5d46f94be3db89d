#include "planner/emit/dim_table.h"

#include <cassert>

namespace maestro::planner {
namespace {

namespace fb = plan::fb;

fb::DimOp opOf(DimExpr::AtomKind kind) {
  switch (kind) {
  case DimExpr::AtomKind::FloorDiv:
    return fb::DimOp::FloorDiv;
  case DimExpr::AtomKind::Mod:
    return fb::DimOp::Mod;
  case DimExpr::AtomKind::Min:
    return fb::DimOp::Min;
  default:
    return fb::DimOp::Max;
  }
}

uint32_t toPlan(plan::PlanBuilder &builder, const DimExpr::Atom &atom) {
  if (atom.kind == DimExpr::AtomKind::Symbol) {
    uint32_t symbol = builder.symbolNamed(atom.name);
    assert(symbol != plan::kNone && "symbols are declared before expressions use them");
    return symbol;
  }
  return builder.dim(opOf(atom.kind), planner::toPlan(builder, *atom.lhs), planner::toPlan(builder, *atom.rhs));
}

} // namespace

uint32_t toPlan(plan::PlanBuilder &builder, const DimExpr &expr) {
  uint32_t sum = plan::kNone;
  for (const DimExpr::Term &term : expr.terms()) {
    uint32_t product = plan::kNone;
    for (const DimExpr::Atom &atom : term.atoms) {
      uint32_t factor = toPlan(builder, atom);
      product = product == plan::kNone ? factor : builder.dim(fb::DimOp::Mul, product, factor);
    }
    uint32_t coefficient = builder.constant(term.coefficient);
    if (product == plan::kNone)
      product = coefficient;
    else if (term.coefficient != 1)
      product = builder.dim(fb::DimOp::Mul, coefficient, product);
    sum = sum == plan::kNone ? product : builder.dim(fb::DimOp::Add, sum, product);
  }
  return sum == plan::kNone ? builder.constant(0) : sum;
}

} // namespace maestro::planner
