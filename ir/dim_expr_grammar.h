// The grammar of symbolic integers, over any source of tokens: text (DimExpr::parse) or the MLIR lexer
// (types and attributes of `nn`). Precedence as in C; `floordiv`, `ceildiv` and `mod` bind like `*`.
//
// A Lexer has
//   bool consume(char c)                    takes the punctuation `c` when it is next; '/' stands for `//`,
//                                           '^' for `**`
//   bool consumeWord(std::string_view)      takes exactly this word when it is next
//   std::optional<uint64_t> integer()       takes an unsigned literal when one is next
//   std::optional<std::string> name()       takes a name when one is next
#pragma once

#include "ir/dim_expr.h"

namespace maestro {

template <typename Lexer> class DimExprGrammar {
public:
  explicit DimExprGrammar(Lexer &lexer) : lexer(lexer) {}

  /// Takes one expression, as long as it goes; nothing for malformed or too deeply nested text.
  std::optional<DimExpr> parseSum() {
    if (++depth > kMaxDepth)
      return std::nullopt;
    std::optional<DimExpr> sum = parseProduct();
    while (sum) {
      bool plus = lexer.consume('+');
      if (!plus && !lexer.consume('-'))
        break;
      std::optional<DimExpr> next = parseProduct();
      sum = !next ? next : plus ? *sum + *next : *sum - *next;
    }
    --depth;
    return sum;
  }

private:
  static constexpr int kMaxDepth = 200;
  static constexpr uint64_t kMaxPower = 64;
  using Combine = DimExpr (*)(const DimExpr &, const DimExpr &);

  Combine takeOperator() {
    if (lexer.consume('*'))
      return [](const DimExpr &a, const DimExpr &b) { return a * b; };
    if (lexer.consumeWord("floordiv") || lexer.consume('/'))
      return &DimExpr::floorDiv;
    if (lexer.consumeWord("ceildiv"))
      return &DimExpr::ceilDiv;
    if (lexer.consumeWord("mod") || lexer.consume('%'))
      return &DimExpr::mod;
    return nullptr;
  }

  std::optional<DimExpr> parseProduct() {
    std::optional<DimExpr> product = parseUnary();
    while (product) {
      Combine combine = takeOperator();
      if (!combine)
        break;
      std::optional<DimExpr> next = parseUnary();
      product = next ? combine(*product, *next) : next;
    }
    return product;
  }

  std::optional<DimExpr> parseUnary() {
    bool negative = false;
    while (lexer.consume('-'))
      negative = !negative;
    if (std::optional<uint64_t> literal = lexer.integer())
      return signedLiteral(*literal, negative);
    std::optional<DimExpr> power = parsePower();
    return power && negative ? -*power : power;
  }

  std::optional<DimExpr> parsePower() {
    std::optional<DimExpr> base = parsePrimary();
    if (!base || !lexer.consume('^'))
      return base;
    std::optional<uint64_t> exponent = lexer.integer();
    if (!exponent || *exponent > kMaxPower)
      return std::nullopt;
    DimExpr power = 1;
    for (uint64_t i = 0; i < *exponent; ++i)
      power = power * *base;
    return power;
  }

  static std::optional<DimExpr> signedLiteral(uint64_t literal, bool negative) {
    if (literal > uint64_t(INT64_MAX) + (negative ? 1 : 0))
      return std::nullopt;
    return DimExpr(int64_t(negative ? 0 - literal : literal));
  }

  std::optional<DimExpr> parsePrimary() {
    if (lexer.consume('('))
      return parseRest(')');
    std::optional<std::string> name = lexer.name();
    if (!name)
      return std::nullopt;
    Combine function = functionNamed(*name);
    if (!function || !lexer.consume('('))
      return DimExpr::symbol(*name);
    std::optional<DimExpr> lhs = parseRest(',');
    std::optional<DimExpr> rhs = lhs ? parseRest(')') : lhs;
    return rhs ? function(*lhs, *rhs) : rhs;
  }

  /// min and max, and what sympy calls its functions in files that PyTorch exports.
  static Combine functionNamed(std::string_view name) {
    if (name == "min" || name == "Min")
      return &DimExpr::min;
    if (name == "max" || name == "Max")
      return &DimExpr::max;
    if (name == "Mod" || name == "PythonMod")
      return &DimExpr::mod;
    return name == "FloorDiv" ? &DimExpr::floorDiv : nullptr;
  }

  std::optional<DimExpr> parseRest(char closing) {
    std::optional<DimExpr> inner = parseSum();
    return inner && lexer.consume(closing) ? inner : std::nullopt;
  }

  Lexer &lexer;
  int depth = 0;
};

} // namespace maestro
