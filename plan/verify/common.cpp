// What the rest of a plan refers to: symbols, expressions, kernels, attribute lists; and what people read.
#include "plan/verify/checks.h"
#include "plan/verify/parts.h"

namespace maestro::plan {
namespace {

constexpr int64_t kMostOfSymbol = (int64_t{1} << 31) - 1;

Status verifySymbols(const fb::Plan &plan, const Place &root) {
  UniqueNames names;
  for (uint32_t i = 0; i < plan.symbols()->size(); ++i) {
    const fb::Symbol &symbol = *plan.symbols()->Get(i);
    Place place = root.item("symbols", i);
    MAESTRO_TRY(checkName(place / "name", symbol.name()));
    MAESTRO_TRY(names.add(place / "name", symbol.name()));
    MAESTRO_TRY(checkEnum(place / "combine", symbol.combine()));
    MAESTRO_TRY(checkRange(place / "sample_max", symbol.sample_max(), 1, kMostOfSymbol));
    MAESTRO_TRY(checkRange(place / "multiple_of", symbol.multiple_of(), 1, kMostOfSymbol));
  }
  return {};
}

Status verifyExprs(const fb::Plan &plan, const Place &root) {
  MAESTRO_TRY(checkAligned(root / "exprs", plan.exprs(), alignof(fb::DimExpr)));
  for (uint32_t i = 0; i < plan.exprs()->size(); ++i) {
    const fb::DimExpr &expr = *plan.exprs()->Get(i);
    Place place = root.item("exprs", i);
    MAESTRO_TRY(checkEnum(place / "op", expr.op()));
    if (expr.op() == fb::DimOp::Constant)
      continue;
    if (expr.op() == fb::DimOp::Symbol) {
      MAESTRO_TRY(checkIndex(place / "a", static_cast<uint64_t>(expr.a()), "symbols", plan.symbols()->size()));
      continue;
    }
    MAESTRO_TRY(checkIndex(place / "a", static_cast<uint64_t>(expr.a()), "earlier expressions", i));
    MAESTRO_TRY(checkIndex(place / "b", static_cast<uint64_t>(expr.b()), "earlier expressions", i));
  }
  return {};
}

Status verifyNames(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> &names,
                   const Place &root, const char *field) {
  for (uint32_t i = 0; i < names.size(); ++i)
    MAESTRO_TRY(checkName(root.item(field, i), names.Get(i)));
  return {};
}

Status verifyAttribute(const fb::Attribute &attribute, const fb::Plan &plan, const Place &place, Work &work) {
  MAESTRO_TRY(checkName(place / "name", attribute.name()));
  int values = !!attribute.ints() + !!attribute.floats() + !!attribute.text() + !!attribute.exprs();
  if (values > 1)
    return wrong(place, "{} of ints, floats, text and exprs are present; at most one may be", values);
  MAESTRO_TRY(checkAligned(place / "ints", attribute.ints(), sizeof(int64_t)));
  MAESTRO_TRY(checkAligned(place / "floats", attribute.floats(), sizeof(double)));
  MAESTRO_TRY(checkText(place / "text", attribute.text()));
  if (!attribute.exprs())
    return {};
  MAESTRO_TRY(work.spend(place / "exprs", attribute.exprs()->size()));
  for (uint32_t i = 0; i < attribute.exprs()->size(); ++i)
    MAESTRO_TRY(checkIndex(place.item("exprs", i), attribute.exprs()->Get(i), "expressions", plan.exprs()->size()));
  return {};
}

Status verifyAttributeLists(const fb::Plan &plan, const Place &root, Work &work) {
  for (uint32_t i = 0; i < plan.attribute_lists()->size(); ++i) {
    const auto &items = *plan.attribute_lists()->Get(i)->items();
    Place list = root.item("attribute_lists", i);
    UniqueNames names;
    for (uint32_t item = 0; item < items.size(); ++item) {
      Place place = list.item("items", item);
      MAESTRO_TRY(verifyAttribute(*items.Get(item), plan, place, work));
      MAESTRO_TRY(names.add(place / "name", items.Get(item)->name()));
    }
  }
  return {};
}

Status verifyMachine(const fb::Machine &machine, const Place &place) {
  MAESTRO_TRY(checkName(place / "name", machine.name()));
  MAESTRO_TRY(checkName(place / "device_kind", machine.device_kind()));
  return checkRange(place / "devices", machine.devices(), 1, 1 << 24);
}

Status verifyProse(const fb::Plan &plan, const Place &root) {
  MAESTRO_TRY(checkName(root / "producer", plan.producer()));
  MAESTRO_TRY(checkName(root / "name", plan.name()));
  for (uint32_t i = 0; i < plan.decisions()->size(); ++i) {
    const fb::Decision &decision = *plan.decisions()->Get(i);
    Place place = root.item("decisions", i);
    MAESTRO_TRY(checkName(place / "subject", decision.subject()));
    MAESTRO_TRY(checkText(place / "choice", decision.choice()));
    MAESTRO_TRY(checkText(place / "reason", decision.reason()));
  }
  MAESTRO_TRY(checkText(root / "no_synthetic", plan.no_synthetic()));
  if (const fb::Prediction *prediction = plan.prediction()) {
    Place place = root / "prediction";
    MAESTRO_TRY(checkNumber(place / "step_seconds", prediction->step_seconds(), 0));
    MAESTRO_TRY(checkNumber(place / "step_flops", prediction->step_flops(), 0));
    MAESTRO_TRY(checkNumber(place / "tokens_per_second", prediction->tokens_per_second(), 0));
  }
  return {};
}

} // namespace

Status verifyCommon(const fb::Plan &plan, Work &work) {
  Place root = Place::root();
  MAESTRO_TRY(verifyProse(plan, root));
  MAESTRO_TRY(verifySymbols(plan, root));
  MAESTRO_TRY(verifyExprs(plan, root));
  MAESTRO_TRY(verifyNames(*plan.kernels(), root, "kernels"));
  MAESTRO_TRY(verifyNames(*plan.scopes(), root, "scopes"));
  MAESTRO_TRY(verifyAttributeLists(plan, root, work));
  return verifyMachine(*plan.machine(), root / "machine");
}

} // namespace maestro::plan
