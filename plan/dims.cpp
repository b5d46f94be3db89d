// Evaluation and printing of symbolic integers.
#include "plan/dims.h"

#include "plan/plan_generated.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::plan {
namespace {

constexpr int64_t kUndefined = DimTable::kUndefined;

int64_t floorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

int64_t floorMod(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

/// Both operands defined. kUndefined on overflow and on divisors that are not positive.
int64_t apply(fb::DimOp op, int64_t a, int64_t b) {
  int64_t result;
  switch (op) {
  case fb::DimOp::Add:
    return __builtin_add_overflow(a, b, &result) ? kUndefined : result;
  case fb::DimOp::Mul:
    return __builtin_mul_overflow(a, b, &result) ? kUndefined : result;
  case fb::DimOp::FloorDiv:
    return b > 0 ? floorDiv(a, b) : kUndefined;
  case fb::DimOp::CeilDiv:
    return b > 0 ? floorDiv(a, b) + (a % b != 0 ? 1 : 0) : kUndefined;
  case fb::DimOp::Mod:
    return b > 0 ? floorMod(a, b) : kUndefined;
  case fb::DimOp::Min:
    return std::min(a, b);
  case fb::DimOp::Max:
    return std::max(a, b);
  default:
    return kUndefined;
  }
}

bool isDivision(fb::DimOp op) { return op == fb::DimOp::FloorDiv || op == fb::DimOp::CeilDiv || op == fb::DimOp::Mod; }

bool isLeaf(fb::DimOp op) { return op == fb::DimOp::Constant || op == fb::DimOp::Symbol; }

/// `a` and `b` as in fb::DimExpr; operands are places in `values`.
int64_t evaluateNode(fb::DimOp op, int64_t a, int64_t b, std::span<const int64_t> symbolValues,
                     std::span<const int64_t> values) {
  if (op == fb::DimOp::Constant)
    return a;
  if (op == fb::DimOp::Symbol)
    return symbolValues[static_cast<size_t>(a)];
  int64_t lhs = values[static_cast<size_t>(a)], rhs = values[static_cast<size_t>(b)];
  return lhs == kUndefined || rhs == kUndefined ? kUndefined : apply(op, lhs, rhs);
}

int64_t evaluateNode(const fb::DimExpr &node, std::span<const int64_t> symbolValues, std::span<const int64_t> values) {
  return evaluateNode(node.op(), node.a(), node.b(), symbolValues, values);
}

/// Writes infix text up to a length and a depth: shared subexpressions cannot make it explode, nor long chains
/// overflow the stack.
class Writer {
public:
  explicit Writer(const fb::Plan &plan) : plan(plan) {}

  void write(uint32_t index, int outerPrecedence) {
    if (text.size() > kMaxLength || depth == kMaxDepth) {
      cut = true;
      return;
    }
    ++depth;
    writeNode(index, outerPrecedence);
    --depth;
  }

  std::string take() { return cut ? text + "…" : std::move(text); }

private:
  static constexpr size_t kMaxLength = 120;
  static constexpr int kMaxDepth = 64;

  void writeNode(uint32_t index, int outerPrecedence) {
    const fb::DimExpr &node = *plan.exprs()->Get(index);
    auto a = static_cast<uint32_t>(node.a()), b = static_cast<uint32_t>(node.b());
    switch (node.op()) {
    case fb::DimOp::Constant:
      text += std::to_string(node.a());
      return;
    case fb::DimOp::Symbol:
      text += plan.symbols()->Get(a)->name()->string_view();
      return;
    case fb::DimOp::Min:
    case fb::DimOp::Max:
      text += node.op() == fb::DimOp::Min ? "min(" : "max(";
      infix(a, ", ", b, 0);
      text += ')';
      return;
    default:
      writeInfix(node.op(), a, b, outerPrecedence);
    }
  }

  void writeInfix(fb::DimOp op, uint32_t a, uint32_t b, int outerPrecedence) {
    int precedence = op == fb::DimOp::Add ? 1 : 2;
    bool parentheses = precedence < outerPrecedence || (isDivision(op) && outerPrecedence > 1);
    if (parentheses)
      text += '(';
    infix(a, word(op), b, isDivision(op) ? 3 : precedence);
    if (parentheses)
      text += ')';
  }

  static const char *word(fb::DimOp op) {
    switch (op) {
    case fb::DimOp::Add:
      return " + ";
    case fb::DimOp::Mul:
      return "*";
    case fb::DimOp::FloorDiv:
      return " floordiv ";
    case fb::DimOp::CeilDiv:
      return " ceildiv ";
    default:
      return " mod ";
    }
  }

  void infix(uint32_t a, const char *middle, uint32_t b, int precedence) {
    write(a, precedence);
    text += middle;
    write(b, precedence);
  }

  const fb::Plan &plan;
  std::string text;
  int depth = 0;
  bool cut = false;
};

} // namespace

size_t DimTable::nodes() const { return plan.exprs()->size(); }
size_t DimTable::symbols() const { return plan.symbols()->size(); }

void DimTable::evaluateDefined(std::span<const int64_t> symbolValues, std::span<int64_t> values) const {
  for (uint32_t index = 0; index < plan.exprs()->size(); ++index)
    values[index] = evaluateNode(*plan.exprs()->Get(index), symbolValues, values);
}

void evaluateDefined(std::span<const fb::DimExpr> exprs, std::span<const int64_t> symbolValues,
                     std::span<int64_t> values) {
  for (size_t index = 0; index < exprs.size(); ++index)
    values[index] = evaluateNode(exprs[index], symbolValues, values);
}

Status DimTable::evaluate(std::span<const int64_t> symbolValues, std::span<int64_t> values) const {
  for (uint32_t index = 0; index < plan.exprs()->size(); ++index) {
    values[index] = evaluateNode(*plan.exprs()->Get(index), symbolValues, values);
    if (values[index] == kUndefined)
      return Status::invalidInput(explain(index, values));
  }
  return {};
}

std::string DimTable::explain(uint32_t node, std::span<const int64_t> values) const {
  for (;;) {
    const fb::DimExpr &expr = *plan.exprs()->Get(node);
    auto a = static_cast<uint32_t>(expr.a()), b = static_cast<uint32_t>(expr.b());
    if (expr.op() == fb::DimOp::Constant)
      return fmt::format("exprs[{}]: the constant is out of range", node);
    if (expr.op() == fb::DimOp::Symbol)
      return fmt::format("exprs[{}]: the symbol '{}' has no value here", node,
                         plan.symbols()->Get(a)->name()->string_view());
    if (values[a] != kUndefined && values[b] != kUndefined) {
      if (isDivision(expr.op()))
        return fmt::format("exprs[{}] ({}): the divisor is {}, and must be positive", node, text(node), values[b]);
      return fmt::format("exprs[{}] ({}): {} and {} overflow 64 bits", node, text(node), values[a], values[b]);
    }
    node = values[a] == kUndefined ? a : b;
  }
}

DimSubset::DimSubset(const fb::Plan &plan, std::span<const uint32_t> exprs)
    : DimSubset({reinterpret_cast<const fb::DimExpr *>(plan.exprs()->Data()), plan.exprs()->size()}, exprs) {}

DimSubset::DimSubset(std::span<const fb::DimExpr> table, std::span<const uint32_t> exprs) {
  std::vector<uint8_t> needed(table.size(), 0);
  for (uint32_t expr : exprs)
    needed[expr] = 1;
  for (size_t index = needed.size(); index-- > 0;) { // Operands are earlier nodes.
    const fb::DimExpr &node = table[index];
    if (needed[index] && !isLeaf(node.op()))
      needed[static_cast<size_t>(node.a())] = needed[static_cast<size_t>(node.b())] = 1;
  }
  std::vector<uint32_t> place(needed.size(), 0);
  for (uint32_t index = 0; index < needed.size(); ++index) {
    if (!needed[index])
      continue;
    const fb::DimExpr &node = table[index];
    auto operand = [&](int64_t from) -> int64_t { return isLeaf(node.op()) ? from : place[static_cast<size_t>(from)]; };
    place[index] = static_cast<uint32_t>(nodes.size());
    nodes.push_back({static_cast<uint8_t>(node.op()), operand(node.a()), operand(node.b())});
  }
  for (uint32_t expr : exprs)
    wanted.push_back(place[expr]);
  values.resize(nodes.size());
  results.resize(wanted.size());
}

std::span<const int64_t> DimSubset::evaluate(std::span<const int64_t> symbolValues) {
  for (size_t i = 0; i < nodes.size(); ++i)
    values[i] = evaluateNode(static_cast<fb::DimOp>(nodes[i].op), nodes[i].a, nodes[i].b, symbolValues, values);
  for (size_t i = 0; i < wanted.size(); ++i)
    results[i] = values[wanted[i]];
  return results;
}

std::string DimTable::text(uint32_t node) const {
  Writer writer(plan);
  writer.write(node, 0);
  return writer.take();
}

} // namespace maestro::plan
