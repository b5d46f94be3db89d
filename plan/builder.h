// Making plans: a plain-data mirror of the tables (fb::PlanT and its kin, owned by the caller until
// finish()), helpers that intern what the format shares, serialisation, and writing files.
//
// The same inputs in the same order give the same bytes, on every machine.
//
//   PlanBuilder builder;
//   uint32_t batch = builder.symbol("batch", fb::Combine::Sum, 16);
//   uint32_t rows = builder.dim(fb::DimOp::Mul, builder.constant(4), batch);
//   builder.plan().name = "gpt";                        // … and the rest of the tables
//   MAESTRO_ASSIGN(auto bytes, builder.finish());
//   MAESTRO_TRY(writePlan(bytes, "plan.mpl"));
#pragma once

#include "base/status.h"
#include "plan/plan.h"
#include "plan/plan_generated.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace maestro::plan {

class PlanBuilder {
public:
  /// Starts with this code's version, and with training and machine present.
  PlanBuilder();

  /// Everything but the interned tables (symbols, exprs, kernels, scopes, attribute_lists) is filled in here.
  fb::PlanT &plan() { return tables; }

  /// A new symbol; names must be unique. Returns the *expression* that reads it.
  uint32_t symbol(std::string_view name, fb::Combine combine, int64_t sampleMax, int64_t multipleOf = 1,
                  std::optional<std::string> unpadded = {});
  /// The expression that reads a symbol made before; kNone when there is none of this name.
  uint32_t symbolNamed(std::string_view name) const;
  /// Index into Plan.symbols; kNone when there is none of this name.
  uint32_t symbolIndex(std::string_view name) const;

  uint32_t constant(int64_t value);
  /// The expression `a op b`; equal ones share a node, and constants are folded where that is exact.
  uint32_t dim(fb::DimOp op, uint32_t a, uint32_t b);
  /// A shape of constants.
  std::vector<uint32_t> constants(std::span<const int64_t> dims);

  uint32_t kernel(std::string_view name);
  /// kNone for an empty scope.
  uint32_t scope(std::string_view name);
  /// kNone for an empty list. Attributes are kept in the given order, which is part of the identity.
  uint32_t attributes(std::vector<fb::AttributeT> items);

  /// The tables, for finish() later; ends the builder's use.
  fb::PlanT take() { return std::move(tables); }
  /// Serialises and verifies. The builder stays usable.
  Result<std::vector<uint8_t>> finish() const;

private:
  using NodeKey = std::array<int64_t, 3>;
  uint32_t node(fb::DimOp op, int64_t a, int64_t b);

  fb::PlanT tables;
  std::map<NodeKey, uint32_t> nodes;
  std::unordered_map<std::string, uint32_t> symbolIndices, kernelIndices, scopeIndices, listIndices;
};

/// An attribute with one kind of value.
fb::AttributeT intsAttribute(std::string_view name, std::vector<int64_t> values);
fb::AttributeT floatsAttribute(std::string_view name, std::vector<double> values);
fb::AttributeT textAttribute(std::string_view name, std::string_view text);
fb::AttributeT exprsAttribute(std::string_view name, std::vector<uint32_t> exprs);

/// Serialises tables and verifies the bytes. A failure of the verifier is Internal: whoever made the
/// tables is at fault, not the user.
Result<std::vector<uint8_t>> finish(const fb::PlanT &plan);

/// Writes beside `path`, then renames: an existing file is replaced as a whole or not at all. Unavailable when
/// the disk or the folder does not allow it; nothing is left behind then.
Status writePlan(std::span<const uint8_t> bytes, const std::string &path);

} // namespace maestro::plan
