// What the rest of a plan refers to: symbols, expressions, kernels, attribute lists; and what people read.
#include "plan/verify/checks.h"
#include "plan/verify/parts.h"

namespace maestro::plan {
namespace {

constexpr int64_t kMostOfSymbol = (int64_t{1} << 31) - 1;

Status verifySymbols(const fb::Plan &plan, const Place &root, Work &work) {
  UniqueNames names;
  for (uint32_t i = 0; i < plan.symbols()->size(); ++i) {
    const fb::Symbol &symbol = *plan.symbols()->Get(i);
    Place place = root.item("symbols", i);
    MAESTRO_TRY(checkName(place / "name", symbol.name(), work));
    MAESTRO_TRY(names.add(place / "name", symbol.name()));
    MAESTRO_TRY(checkEnum(place / "combine", symbol.combine()));
    MAESTRO_TRY(checkRange(place / "sample_max", symbol.sample_max(), 1, kMostOfSymbol));
    MAESTRO_TRY(checkRange(place / "multiple_of", symbol.multiple_of(), 1, kMostOfSymbol));
    MAESTRO_TRY(checkText(place / "unpadded", symbol.unpadded(), work));
    if (symbol.unpadded() && (symbol.combine() != fb::Combine::Max || symbol.multiple_of() != 1))
      return wrong(place / "unpadded", "a symbol that sums, or is rounded up to a multiple of {}, cannot be unpadded",
                   symbol.multiple_of());
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

Status verifyNames(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> &names, const Place &root,
                   const char *field, Work &work) {
  for (uint32_t i = 0; i < names.size(); ++i)
    MAESTRO_TRY(checkName(root.item(field, i), names.Get(i), work));
  return {};
}

Status verifyAttribute(const fb::Attribute &attribute, const fb::Plan &plan, const Place &place, Work &work) {
  MAESTRO_TRY(checkName(place / "name", attribute.name(), work));
  int values = !!attribute.ints() + !!attribute.floats() + !!attribute.text() + !!attribute.exprs();
  if (values > 1)
    return wrong(place, "{} of ints, floats, text and exprs are present; at most one may be", values);
  MAESTRO_TRY(checkAligned(place / "ints", attribute.ints(), sizeof(int64_t)));
  MAESTRO_TRY(checkAligned(place / "floats", attribute.floats(), sizeof(double)));
  MAESTRO_TRY(checkText(place / "text", attribute.text(), work));
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

/// What a field of a table for people must be.
struct Rule {
  enum Kind : uint8_t { Name, Text, NotNegative, Finite, Choice } kind;
  uint8_t last = 0; ///< Of a Choice: its largest value.
  flatbuffers::voffset_t field;
  const char *name;
};

Status checkField(const Place &table, const flatbuffers::Table &row, const Rule &rule, Work &work) {
  Place place = table / rule.name;
  if (rule.kind == Rule::Choice) {
    uint8_t value = row.GetField<uint8_t>(rule.field, 0);
    return value <= rule.last ? Status() : wrong(place, "{} is not a known value; the last is {}", value, rule.last);
  }
  if (rule.kind == Rule::NotNegative || rule.kind == Rule::Finite)
    return checkNumber(place, row.GetField<double>(rule.field, 0), rule.kind == Rule::Finite ? -HUGE_VAL : 0);
  const auto *text = row.GetPointer<const flatbuffers::String *>(rule.field);
  return rule.kind == Rule::Name ? checkName(place, text, work) : checkText(place, text, work);
}

/// The tables in a field of the owner, each by the same rules; optional, and bounded where `most` says so.
Status checkTables(const Place &place, const void *owner, flatbuffers::voffset_t field, const char *name,
                   std::span<const Rule> rules, Work &work, int64_t most) {
  using Tables = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::Table>>;
  const auto *list = static_cast<const flatbuffers::Table *>(owner)->GetPointer<const Tables *>(field);
  uint32_t count = list ? list->size() : 0;
  MAESTRO_TRY(checkRange(place / name, count, 0, most));
  for (uint32_t i = 0; i < count; ++i)
    for (const Rule &rule : rules)
      MAESTRO_TRY(checkField(place.item(name, i), *list->Get(i), rule, work));
  return {};
}

constexpr int64_t kMostRows = 4096;
constexpr Rule kDecision[] = {{Rule::Name, 0, fb::Decision::VT_SUBJECT, "subject"},
                              {Rule::Text, 0, fb::Decision::VT_CHOICE, "choice"},
                              {Rule::Text, 0, fb::Decision::VT_REASON, "reason"}};
constexpr Rule kCandidate[] = {
    {Rule::Choice, static_cast<uint8_t>(fb::CandidateKind::MAX), fb::Candidate::VT_KIND, "kind"},
    {Rule::Name, 0, fb::Candidate::VT_SUBJECT, "subject"},
    {Rule::Text, 0, fb::Candidate::VT_CHOICE, "choice"},
    {Rule::NotNegative, 0, fb::Candidate::VT_STEP_SECONDS, "step_seconds"},
    {Rule::Text, 0, fb::Candidate::VT_REASON, "reason"}};
constexpr Rule kLimit[] = {{Rule::Choice, static_cast<uint8_t>(fb::LimitKind::MAX), fb::Limit::VT_KIND, "kind"},
                           {Rule::Name, 0, fb::Limit::VT_PLACE, "place"},
                           {Rule::NotNegative, 0, fb::Limit::VT_USED, "used"},
                           {Rule::NotNegative, 0, fb::Limit::VT_LIMIT, "limit"},
                           {Rule::Text, 0, fb::Limit::VT_REASON, "reason"}};
constexpr Rule kQuantity[] = {{Rule::Name, 0, fb::Quantity::VT_NAME, "name"},
                              {Rule::Finite, 0, fb::Quantity::VT_VALUE, "value"},
                              {Rule::Text, 0, fb::Quantity::VT_UNIT, "unit"},
                              {Rule::Text, 0, fb::Quantity::VT_SOURCE, "source"}};
constexpr Rule kLink[] = {{Rule::Name, 0, fb::Link::VT_NAME, "name"},
                          {Rule::NotNegative, 0, fb::Link::VT_BANDWIDTH, "bandwidth"},
                          {Rule::NotNegative, 0, fb::Link::VT_LATENCY, "latency"}};
constexpr Rule kDeviceKind[] = {{Rule::Name, 0, fb::DeviceKind::VT_NAME, "name"}};
constexpr Rule kPrediction[] = {{Rule::NotNegative, 0, fb::Prediction::VT_STEP_SECONDS, "step_seconds"},
                                {Rule::NotNegative, 0, fb::Prediction::VT_STEP_FLOPS, "step_flops"},
                                {Rule::NotNegative, 0, fb::Prediction::VT_TOKENS_PER_SECOND, "tokens_per_second"}};

/// What people read.
Status verifyProse(const fb::Plan &plan, const Place &root, Work &work) {
  MAESTRO_TRY(checkName(root / "producer", plan.producer(), work));
  MAESTRO_TRY(checkName(root / "name", plan.name(), work));
  MAESTRO_TRY(checkText(root / "no_synthetic", plan.no_synthetic(), work));
  for (const Rule &rule : kPrediction)
    if (plan.prediction())
      MAESTRO_TRY(checkField(root / "prediction", reinterpret_cast<const flatbuffers::Table &>(*plan.prediction()),
                             rule, work));
  MAESTRO_TRY(checkTables(root, &plan, fb::Plan::VT_DECISIONS, "decisions", kDecision, work, INT64_MAX));
  MAESTRO_TRY(checkTables(root, &plan, fb::Plan::VT_CANDIDATES, "candidates", kCandidate, work, kMostRows));
  MAESTRO_TRY(checkTables(root, &plan, fb::Plan::VT_LIMITS, "limits", kLimit, work, kMostRows));
  MAESTRO_TRY(checkTables(root, &plan, fb::Plan::VT_QUANTITIES, "quantities", kQuantity, work, kMostRows));
  UniqueNames names;
  for (uint32_t i = 0; plan.quantities() && i < plan.quantities()->size(); ++i)
    MAESTRO_TRY(names.add(root.item("quantities", i) / "name", plan.quantities()->Get(i)->name()));
  return {};
}

Status verifyMachine(const fb::Machine &machine, const Place &place, Work &work) {
  MAESTRO_TRY(checkName(place / "name", machine.name(), work));
  MAESTRO_TRY(checkName(place / "device_kind", machine.device_kind(), work));
  MAESTRO_TRY(checkRange(place / "devices", machine.devices(), 1, 1 << 24));
  MAESTRO_TRY(checkRange(place / "nodes", machine.nodes(), 0, machine.devices()));
  if (machine.nodes() > 0 && machine.devices() % machine.nodes() != 0)
    return wrong(place / "nodes", "{} nodes do not have equally many of {} devices", machine.nodes(),
                 machine.devices());
  MAESTRO_TRY(checkTables(place, &machine, fb::Machine::VT_LINKS, "links", kLink, work, kMostRows));
  MAESTRO_TRY(
      checkTables(place, &machine, fb::Machine::VT_DEVICE_KINDS, "device_kinds", kDeviceKind, work, machine.devices()));
  uint32_t inner = 1, count = machine.links() ? machine.links()->size() : 0;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t spans = machine.links()->Get(i)->spans();
    Place link = place.item("links", i);
    MAESTRO_TRY(checkRange(link / "spans", spans, i + 1 == count ? machine.devices() : inner, machine.devices()));
    if (spans % inner != 0)
      return wrong(link / "spans", "{} is no multiple of {}", spans, inner);
    inner = spans;
  }
  uint32_t left = machine.devices();
  for (uint32_t i = 0; machine.device_kinds() && i < machine.device_kinds()->size(); ++i) {
    uint32_t devices = machine.device_kinds()->Get(i)->devices();
    bool isLast = i + 1 == machine.device_kinds()->size();
    MAESTRO_TRY(checkRange(place.item("device_kinds", i) / "devices", devices, isLast ? left : 1, left));
    left -= devices;
  }
  return {};
}

} // namespace

Status verifyCommon(const fb::Plan &plan, Work &work) {
  Place root = Place::root();
  MAESTRO_TRY(verifyProse(plan, root, work));
  MAESTRO_TRY(verifySymbols(plan, root, work));
  MAESTRO_TRY(verifyExprs(plan, root));
  MAESTRO_TRY(verifyNames(*plan.kernels(), root, "kernels", work));
  MAESTRO_TRY(verifyNames(*plan.scopes(), root, "scopes", work));
  MAESTRO_TRY(verifyAttributeLists(plan, root, work));
  return verifyMachine(*plan.machine(), root / "machine", work);
}

} // namespace maestro::plan
