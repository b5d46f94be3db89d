// Numbers, references to buffers and regions, kernels' attributes.
#include "ir/plan/syntax.h"

#include "mlir/IR/Builders.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <string>

using namespace mlir;

namespace maestro::plan_ir {
namespace {

// plan/print/mlir_text.cpp writes the same text.

std::string numberText(double value) {
  if (std::isnan(value))
    return fmt::format("nan(0x{:016X})", std::bit_cast<uint64_t>(value));
  if (std::isinf(value))
    return value < 0 ? "-inf" : "inf";
  std::array<char, 32> digits;
  std::string text(digits.data(),
                   std::to_chars(digits.begin(), digits.end(), value, std::chars_format::scientific).ptr);
  if (text.find('.') == text.npos)
    text.insert(text.find('e'), ".0");
  return text;
}

ParseResult parseNotANumber(AsmParser &parser, double &value) {
  APInt bits;
  if (parser.parseLParen() || parser.parseInteger(bits) || parser.parseRParen())
    return failure();
  value = std::bit_cast<double>(bits.zextOrTrunc(64).getZExtValue());
  return success();
}

ParseResult parseDouble(AsmParser &parser, double &value) {
  if (succeeded(parser.parseOptionalKeyword("nan")))
    return parseNotANumber(parser, value);
  bool negative = succeeded(parser.parseOptionalMinus());
  if (succeeded(parser.parseOptionalKeyword("inf")))
    value = HUGE_VAL;
  else if (parser.parseFloat(value))
    return failure();
  value = negative ? -value : value;
  return success();
}

/// `b12` without the letter.
ParseResult parseNumbered(AsmParser &parser, char letter, int64_t &number) {
  SMLoc location = parser.getCurrentLocation();
  StringRef word;
  if (failed(parser.parseOptionalKeyword(&word)) || word.front() != letter ||
      word.drop_front().getAsInteger(10, number))
    return parser.emitError(location) << "expected '" << letter << "' and a number";
  return success();
}

ParseResult parseValue(AsmParser &parser, Attribute &value) {
  std::string text;
  Builder &builder = parser.getBuilder();
  if (succeeded(parser.parseOptionalString(&text))) {
    value = builder.getStringAttr(text);
    return success();
  }
  if (succeeded(parser.parseOptionalKeyword("dims"))) {
    ArrayAttr exprs;
    if (parseExprs(parser, exprs))
      return failure();
    value = exprs;
    return success();
  }
  auto list = [&](auto parseOne) { return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne); };
  if (succeeded(parser.parseOptionalKeyword("f64"))) {
    SmallVector<double> numbers;
    if (list([&] { return parseDouble(parser, numbers.emplace_back()); }))
      return failure();
    value = builder.getDenseF64ArrayAttr(numbers);
    return success();
  }
  SmallVector<int64_t> integers;
  if (list([&] { return parser.parseInteger(integers.emplace_back()); }))
    return failure();
  value = builder.getDenseI64ArrayAttr(integers);
  return success();
}

void printValue(AsmPrinter &printer, Attribute value) {
  raw_ostream &stream = printer.getStream();
  if (auto text = dyn_cast<StringAttr>(value)) {
    printer.printString(text.getValue());
  } else if (auto integers = dyn_cast<DenseI64ArrayAttr>(value)) {
    stream << '[';
    llvm::interleaveComma(integers.asArrayRef(), stream);
    stream << ']';
  } else if (auto numbers = dyn_cast<DenseF64ArrayAttr>(value)) {
    stream << "f64[";
    llvm::interleaveComma(numbers.asArrayRef(), stream, [&](double number) { stream << numberText(number); });
    stream << ']';
  } else {
    stream << "dims";
    printExprs(printer, nullptr, cast<ArrayAttr>(value));
  }
}

} // namespace

ParseResult parseNumber(AsmParser &parser, FloatAttr &number) {
  double value = 0;
  if (parseDouble(parser, value))
    return failure();
  number = parser.getBuilder().getF64FloatAttr(value);
  return success();
}

void printNumber(AsmPrinter &printer, Operation *, FloatAttr number) {
  printer.getStream() << numberText(number.getValueAsDouble());
}

static ParseResult parseRef(AsmParser &parser, char letter, IntegerAttr &number) {
  int64_t value = 0;
  if (parseNumbered(parser, letter, value))
    return failure();
  number = parser.getBuilder().getI64IntegerAttr(value);
  return success();
}

ParseResult parseRegionRef(AsmParser &parser, IntegerAttr &number) { return parseRef(parser, 'r', number); }
ParseResult parseBufferRef(AsmParser &parser, IntegerAttr &number) { return parseRef(parser, 'b', number); }
void printRegionRef(AsmPrinter &printer, Operation *, IntegerAttr number) {
  printer.getStream() << 'r' << number.getInt();
}
void printBufferRef(AsmPrinter &printer, Operation *, IntegerAttr number) {
  printer.getStream() << 'b' << number.getInt();
}

ParseResult parseBufferRefs(AsmParser &parser, DenseI64ArrayAttr &buffers) {
  SmallVector<int64_t> numbers;
  auto parseOne = [&]() -> ParseResult {
    numbers.push_back(kNoBuffer);
    return succeeded(parser.parseOptionalKeyword("none")) ? success() : parseNumbered(parser, 'b', numbers.back());
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne))
    return failure();
  buffers = parser.getBuilder().getDenseI64ArrayAttr(numbers);
  return success();
}

void printBufferRefs(AsmPrinter &printer, Operation *, DenseI64ArrayAttr buffers) {
  raw_ostream &stream = printer.getStream();
  stream << '(';
  llvm::interleaveComma(buffers.asArrayRef(), stream,
                        [&](int64_t buffer) { buffer == kNoBuffer ? stream << "none" : stream << 'b' << buffer; });
  stream << ')';
}

ParseResult parseCallAttributes(AsmParser &parser, ArrayAttr &names, ArrayAttr &values) {
  SmallVector<Attribute> nameList, valueList;
  auto parseOne = [&]() -> ParseResult {
    std::string name;
    nameList.emplace_back();
    if (parser.parseKeywordOrString(&name) || parser.parseEqual() || parseValue(parser, valueList.emplace_back()))
      return failure();
    nameList.back() = parser.getBuilder().getStringAttr(name);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parseOne))
    return failure();
  names = parser.getBuilder().getArrayAttr(nameList);
  values = parser.getBuilder().getArrayAttr(valueList);
  return success();
}

void printCallAttributes(AsmPrinter &printer, Operation *, ArrayAttr names, ArrayAttr values) {
  printer << '{';
  llvm::interleaveComma(llvm::zip(names, values), printer.getStream(), [&](auto pair) {
    auto [name, value] = pair;
    printer.printKeywordOrString(cast<StringAttr>(name).getValue());
    printer << " = ";
    printValue(printer, value);
  });
  printer << '}';
}

} // namespace maestro::plan_ir
