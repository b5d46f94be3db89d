// Evaluation of a plan's symbolic integers (Plan.exprs).
//
// Evaluating is one pass over the table and allocates nothing unless it fails.
#pragma once

#include "base/status.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace maestro::plan {

namespace fb {
struct DimExpr;
struct Plan;
} // namespace fb

class DimTable {
public:
  /// "No value": given for a symbol that has none, yielded for nodes that depend on one.
  static constexpr int64_t kUndefined = std::numeric_limits<int64_t>::min();

  /// `plan` must outlive the table and have passed the verifier (operands are earlier nodes).
  explicit DimTable(const fb::Plan &plan) : plan(plan) {}

  size_t nodes() const;   ///< Size of Plan.exprs.
  size_t symbols() const; ///< Size of Plan.symbols.

  /// Evaluates every node. `symbolValues` has symbols() elements, `values` nodes(). Fails at the first
  /// node that overflows, has a divisor that is not positive, or reads a symbol without value, and names it.
  Status evaluate(std::span<const int64_t> symbolValues, std::span<int64_t> values) const;

  /// Likewise, but nodes that cannot be evaluated become kUndefined: of use where only some of a
  /// plan's symbols have values.
  void evaluateDefined(std::span<const int64_t> symbolValues, std::span<int64_t> values) const;

  /// Why `node` is undefined: "divisor 0 of exprs[7] (seq floordiv heads)". Requires that
  /// evaluateDefined() yielded `values` and values[node] == kUndefined.
  std::string explain(uint32_t node, std::span<const int64_t> values) const;

  /// The node as people write it, `4*batch*seq`; cut off with … where it is very long.
  std::string text(uint32_t node) const;

private:
  const fb::Plan &plan;
};

/// DimTable::evaluateDefined() for tables that are still being made (fb::PlanT).
void evaluateDefined(std::span<const fb::DimExpr> exprs, std::span<const int64_t> symbolValues,
                     std::span<int64_t> values);

/// A few nodes and what they are made of: for what is evaluated per sample, where the whole table would cost too much.
class DimSubset {
public:
  /// As DimTable; `exprs` are nodes. The plan is not read after construction.
  DimSubset(const fb::Plan &plan, std::span<const uint32_t> exprs);
  /// Of tables that are still being made (fb::PlanT.exprs).
  DimSubset(std::span<const fb::DimExpr> table, std::span<const uint32_t> exprs);

  /// The nodes' values in the order in which they were given, DimTable::kUndefined where one has none; valid until the
  /// next call. `symbolValues` has DimTable::symbols() elements. Allocates nothing.
  std::span<const int64_t> evaluate(std::span<const int64_t> symbolValues);

private:
  struct Node {
    uint8_t op;   ///< fb::DimOp
    int64_t a, b; ///< Operands as places in `nodes`.
  };
  std::vector<Node> nodes; ///< Operands first.
  std::vector<uint32_t> wanted;
  std::vector<int64_t> values, results;
};

} // namespace maestro::plan
