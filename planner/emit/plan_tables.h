// The plan's shared tables while a plan is built: expressions, kernels, attribute lists, scopes, each
// entry once.
#pragma once

#include "ir/dim_expr.h"
#include "plan/plan_generated.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace maestro::planner {

/// An attribute before interning; exactly one of the payloads is used.
struct AttributeValue {
  std::string name;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::string text;
  std::vector<uint32_t> exprs;
  enum class Kind { Ints, Floats, Text, Exprs } kind = Kind::Ints;
  auto operator<=>(const AttributeValue &) const = default;
};

class PlanTables {
public:
  explicit PlanTables(plan::fb::PlanT &plan) : plan(plan) {}

  /// Index into Plan.exprs; the expression's symbols enter Plan.symbols' index by name, which must
  /// have been filled before.
  uint32_t expr(const DimExpr &expr);
  uint32_t kernel(std::string_view name);
  uint32_t scope(std::string_view name);
  /// kNone for an empty list. Attributes are sorted by name.
  uint32_t attributes(std::vector<AttributeValue> list);

private:
  uint32_t node(plan::fb::DimOp op, int64_t a, int64_t b = 0);
  uint32_t atom(const DimExpr::Atom &atom);
  uint32_t term(const DimExpr::Term &term);

  plan::fb::PlanT &plan;
  std::map<std::tuple<uint8_t, int64_t, int64_t>, uint32_t> nodes;
  std::map<std::string, uint32_t, std::less<>> kernels, scopes;
  std::map<std::vector<AttributeValue>, uint32_t> attributeLists;
};

inline constexpr uint32_t kNone = 0xffffffffu;

} // namespace maestro::planner
