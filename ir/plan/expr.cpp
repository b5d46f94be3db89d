// Symbolic integers as trees, and their text.
#include "ir/plan/syntax.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#include "llvm/ADT/StringExtras.h"

#include <optional>

using namespace mlir;

namespace maestro::plan_ir {

ExprAttr ExprAttr::constant(MLIRContext *context, int64_t value) {
  return get(context, ExprOp::Constant, value, nullptr, nullptr, nullptr);
}

ExprAttr ExprAttr::node(MLIRContext *context, int64_t number) {
  return get(context, ExprOp::Node, number, nullptr, nullptr, nullptr);
}

ExprAttr ExprAttr::symbol(MLIRContext *context, StringRef name) {
  return get(context, ExprOp::Symbol, 0, StringAttr::get(context, name), nullptr, nullptr);
}

ExprAttr ExprAttr::binary(ExprOp op, ExprAttr lhs, ExprAttr rhs) {
  return get(lhs.getContext(), op, 0, nullptr, lhs, rhs);
}

namespace {

// plan/print/mlir_text.cpp writes the same text; both follow this table.
constexpr int kSumPrecedence = 1, kProductPrecedence = 2;

bool isWord(StringRef name) {
  auto isLetter = [](char c) { return llvm::isAlpha(c) || c == '_'; };
  return !name.empty() && isLetter(name.front()) &&
         llvm::all_of(name, [&](char c) { return isLetter(c) || llvm::isDigit(c); });
}

/// A symbol of this name is written in quotes.
bool isReserved(StringRef name) {
  return !isWord(name) || llvm::is_contained({"floordiv", "ceildiv", "mod", "min", "max", "node"}, name);
}

/// The words between operands; none for what is written otherwise.
StringRef infixOf(ExprOp op) {
  switch (op) {
  case ExprOp::Add:
    return " + ";
  case ExprOp::Mul:
    return "*";
  case ExprOp::FloorDiv:
    return " floordiv ";
  case ExprOp::CeilDiv:
    return " ceildiv ";
  case ExprOp::Mod:
    return " mod ";
  default:
    return "";
  }
}

void print(raw_ostream &stream, ExprAttr expr, int least) {
  auto call = [&](StringRef function) {
    print(stream << function << '(', expr.left(), 0);
    print(stream << ", ", expr.right(), 0);
    stream << ')';
  };
  switch (expr.getOp()) {
  case ExprOp::Constant:
    stream << expr.getValue();
    return;
  case ExprOp::Node:
    stream << "node(" << expr.getValue() << ')';
    return;
  case ExprOp::Symbol:
    if (!isReserved(expr.getSymbol()))
      stream << expr.getSymbol().getValue();
    else
      expr.getSymbol().print(stream);
    return;
  case ExprOp::Min:
    return call("min");
  case ExprOp::Max:
    return call("max");
  default:
    break;
  }
  int own = expr.getOp() == ExprOp::Add ? kSumPrecedence : kProductPrecedence;
  stream << (own < least ? "(" : "");
  print(stream, expr.left(), own);
  print(stream << infixOf(expr.getOp()), expr.right(), own + 1);
  stream << (own < least ? ")" : "");
}

/// sum = product {"+" product}; product = factor {("*" | floordiv | ceildiv | mod) factor}; all from left to right.
class ExprParser {
public:
  explicit ExprParser(AsmParser &parser) : parser(parser) {}

  FailureOr<ExprAttr> sum() {
    FailureOr<ExprAttr> result = product();
    while (succeeded(result) && succeeded(parser.parseOptionalPlus()))
      result = join(ExprOp::Add, *result, product());
    return result;
  }

private:
  FailureOr<ExprAttr> product() {
    FailureOr<ExprAttr> result = factor();
    while (succeeded(result)) {
      std::optional<ExprOp> op = productOp();
      if (!op)
        break;
      result = join(*op, *result, factor());
    }
    return result;
  }

  std::optional<ExprOp> productOp() {
    if (succeeded(parser.parseOptionalStar()))
      return ExprOp::Mul;
    for (auto [word, op] : {std::pair("floordiv", ExprOp::FloorDiv), std::pair("ceildiv", ExprOp::CeilDiv),
                            std::pair("mod", ExprOp::Mod)})
      if (succeeded(parser.parseOptionalKeyword(word)))
        return op;
    return std::nullopt;
  }

  FailureOr<ExprAttr> factor() {
    int64_t value = 0;
    OptionalParseResult integer = parser.parseOptionalInteger(value);
    if (integer.has_value())
      return failed(*integer) ? FailureOr<ExprAttr>(failure()) : ExprAttr::constant(parser.getContext(), value);
    if (succeeded(parser.parseOptionalLParen())) {
      FailureOr<ExprAttr> inner = sum();
      return failed(inner) || parser.parseRParen() ? FailureOr<ExprAttr>(failure()) : inner;
    }
    std::string text;
    if (succeeded(parser.parseOptionalString(&text)))
      return ExprAttr::symbol(parser.getContext(), text);
    StringRef word;
    if (failed(parser.parseOptionalKeyword(&word)))
      return parser.emitError(parser.getCurrentLocation(), "expected a symbolic integer such as 4*batch + 1");
    if (word == "node")
      return node();
    if (word == "min" || word == "max")
      return call(word == "min" ? ExprOp::Min : ExprOp::Max);
    return ExprAttr::symbol(parser.getContext(), word);
  }

  FailureOr<ExprAttr> node() {
    int64_t number = 0;
    if (parser.parseLParen() || parser.parseInteger(number) || parser.parseRParen())
      return failure();
    return ExprAttr::node(parser.getContext(), number);
  }

  FailureOr<ExprAttr> call(ExprOp op) {
    if (parser.parseLParen())
      return failure();
    FailureOr<ExprAttr> first = sum();
    if (failed(first) || parser.parseComma())
      return failure();
    FailureOr<ExprAttr> result = join(op, *first, sum());
    return failed(result) || parser.parseRParen() ? FailureOr<ExprAttr>(failure()) : result;
  }

  static FailureOr<ExprAttr> join(ExprOp op, ExprAttr lhs, FailureOr<ExprAttr> rhs) {
    if (failed(rhs))
      return failure();
    return ExprAttr::binary(op, lhs, *rhs);
  }

  AsmParser &parser;
};

} // namespace

Attribute ExprAttr::parse(AsmParser &parser, Type) {
  ExprAttr expr;
  return parser.parseLess() || parseExpr(parser, expr) || parser.parseGreater() ? ExprAttr() : expr;
}

void ExprAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printExpr(printer, nullptr, *this);
  printer << '>';
}

ParseResult parseExpr(AsmParser &parser, ExprAttr &expr) {
  FailureOr<ExprAttr> parsed = ExprParser(parser).sum();
  if (failed(parsed))
    return failure();
  expr = *parsed;
  return success();
}

void printExpr(AsmPrinter &printer, Operation *, ExprAttr expr) { print(printer.getStream(), expr, 0); }

ParseResult parseExprs(AsmParser &parser, ArrayAttr &exprs) {
  SmallVector<Attribute> list;
  auto parseOne = [&]() -> ParseResult {
    ExprAttr expr;
    if (parseExpr(parser, expr))
      return failure();
    list.push_back(expr);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  exprs = parser.getBuilder().getArrayAttr(list);
  return success();
}

void printExprs(AsmPrinter &printer, Operation *, ArrayAttr exprs) {
  printer << '[';
  llvm::interleaveComma(exprs, printer.getStream(),
                        [&](Attribute expr) { print(printer.getStream(), cast<ExprAttr>(expr), 0); });
  printer << ']';
}

} // namespace maestro::plan_ir
