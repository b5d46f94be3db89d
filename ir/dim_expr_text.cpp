// Symbolic integers as text.
#include "ir/dim_expr_grammar.h"

#include <cctype>
#include <charconv>
#include <ostream>

namespace maestro {

using Atom = DimExpr::Atom;
using Term = DimExpr::Term;
using AtomKind = DimExpr::AtomKind;

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

/// An operand of floordiv or mod: in parentheses unless it is a name or a number.
static std::string operandText(const DimExpr &expr) {
  std::optional<int64_t> constant = expr.asConstant();
  bool simple = constant ? *constant >= 0 : expr.asSymbol().has_value();
  return simple ? expr.str() : std::string("(").append(expr.str()).append(")");
}

static std::string atomText(const Atom &atom, bool alone) {
  switch (atom.kind) {
  case AtomKind::Symbol:
    return atom.name;
  case AtomKind::Min:
  case AtomKind::Max:
    return std::string(atom.kind == AtomKind::Min ? "min(" : "max(")
        .append(atom.lhs->str())
        .append(", ")
        .append(atom.rhs->str())
        .append(")");
  default:
    std::string text =
        operandText(*atom.lhs) + (atom.kind == AtomKind::Mod ? " mod " : " floordiv ") + operandText(*atom.rhs);
    return alone ? text : std::string("(").append(text).append(")");
  }
}

/// |coefficient| · atoms; −2⁶³ keeps its sign, for it has no positive counterpart.
static std::string magnitudeText(const Term &term) {
  int64_t magnitude = term.coefficient < 0 && term.coefficient != INT64_MIN ? -term.coefficient : term.coefficient;
  if (term.atoms.empty())
    return std::to_string(magnitude);
  std::string text = magnitude == 1 ? "" : std::to_string(magnitude);
  bool alone = term.coefficient == 1 && term.atoms.size() == 1;
  for (const Atom &atom : term.atoms)
    text += (text.empty() ? "" : "*") + atomText(atom, alone);
  return text;
}

std::string DimExpr::str() const {
  if (terms().empty())
    return "0";
  std::string text;
  for (const Term &term : terms()) {
    bool minus = term.coefficient < 0 && term.coefficient != INT64_MIN;
    if (text.empty())
      text = minus ? "-" : "";
    else
      text += minus ? " - " : " + ";
    text += magnitudeText(term);
  }
  return text;
}

std::ostream &operator<<(std::ostream &stream, const DimExpr &expr) { return stream << expr.str(); }

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

namespace {
class TextLexer {
public:
  explicit TextLexer(std::string_view rest) : rest(rest) {}

  bool consume(char c) {
    skipSpace();
    // Division is written `//`, power `**`; a single slash is no operator.
    std::string_view spelling = c == '/' ? "//" : c == '^' ? "**" : std::string_view(&c, 1);
    if (!rest.starts_with(spelling) || (c == '*' && rest.starts_with("**")))
      return false;
    rest.remove_prefix(spelling.size());
    return true;
  }

  bool consumeWord(std::string_view word) {
    if (peekName() != word)
      return false;
    rest.remove_prefix(word.size());
    return true;
  }

  std::optional<uint64_t> integer() {
    skipSpace();
    uint64_t value = 0;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc())
      return std::nullopt;
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    return value;
  }

  std::optional<std::string> name() {
    std::string_view found = peekName();
    rest.remove_prefix(found.size());
    return found.empty() ? std::nullopt : std::optional<std::string>(found);
  }

  bool atEnd() {
    skipSpace();
    return rest.empty();
  }

private:
  void skipSpace() {
    while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.front())))
      rest.remove_prefix(1);
  }

  std::string_view peekName() {
    skipSpace();
    auto isNameChar = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; };
    if (rest.empty() || std::isdigit(static_cast<unsigned char>(rest[0])) || rest[0] == '.')
      return {};
    size_t length = 0;
    while (length < rest.size() && isNameChar(static_cast<unsigned char>(rest[length])))
      ++length;
    return rest.substr(0, length);
  }

  std::string_view rest;
};
} // namespace

std::optional<DimExpr> DimExpr::parse(std::string_view text) {
  TextLexer lexer(text);
  std::optional<DimExpr> expr = DimExprGrammar(lexer).parseSum();
  return expr && lexer.atEnd() ? expr : std::nullopt;
}

} // namespace maestro
