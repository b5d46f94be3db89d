#include "plan/print/mlir_text.h"

#include "base/dtype.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <map>

namespace maestro::plan {
namespace {

// ir/plan/expr.cpp reads and writes the same text; both follow this table.
constexpr int kSum = 1, kProduct = 2, kWord = 3;
/// Longer expressions are referred to by number.
constexpr size_t kLongestReference = 80;

bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }

/// A letter, then letters, digits and what else `isMore` allows.
template <typename IsMore> bool isIdentifier(std::string_view name, IsMore isMore) {
  return !name.empty() && isLetter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return isLetter(c) || isDigit(c) || isMore(c); });
}

const char *infix(fb::DimOp op) {
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

} // namespace

std::string mlirString(std::string_view text) {
  std::string result = "\"";
  for (char character : text) {
    auto byte = static_cast<uint8_t>(character);
    if (byte == '\\')
      result += "\\\\";
    else if (byte == '"' || byte < 0x20 || byte >= 0x7f)
      result += fmt::format("\\{:02X}", byte);
    else
      result += character;
  }
  return result + "\"";
}

std::string mlirKeyword(std::string_view name) {
  return isIdentifier(name, [](char c) { return c == '$' || c == '.'; }) ? std::string(name) : mlirString(name);
}

std::string mlirSymbol(std::string_view name) {
  constexpr std::array<std::string_view, 6> kReserved = {"floordiv", "ceildiv", "mod", "min", "max", "node"};
  bool isReserved = std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
  return isReserved || !isIdentifier(name, [](char) { return false; }) ? mlirString(name) : std::string(name);
}

std::string mlirNumber(double value) {
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

const char *mlirElementType(uint8_t dtype) {
  constexpr const char *kNames[] = {"f32", "f64", "bf16", "f16", "i64", "i32", "i16", "i8", "ui8", "i1"};
  static_assert(std::size(kNames) == kDTypeCount);
  return kNames[dtype];
}

std::string hexDigits(const flatbuffers::Vector<uint8_t> &bytes) {
  std::string digits;
  for (uint8_t byte : bytes)
    digits += fmt::format("{:02x}", byte);
  return digits;
}

MlirExprs::MlirExprs(const fb::Plan &plan) : plan(plan) {
  std::map<std::array<int64_t, 3>, uint32_t> first;
  for (uint32_t i = 0; i < plan.exprs()->size(); ++i) {
    const fb::DimExpr &node = *plan.exprs()->Get(i);
    bool isLeaf = node.op() == fb::DimOp::Constant || node.op() == fb::DimOp::Symbol;
    bool isFirst = first.try_emplace({static_cast<int64_t>(node.op()), node.a(), isLeaf ? 0 : node.b()}, i).second;
    Text text = write(node);
    if (!isFirst || !text.isInline || text.text.size() > kLongestReference)
      text = {fmt::format("node({})", i), kWord, false};
    references.push_back(std::move(text));
  }
}

std::string MlirExprs::operand(int64_t expr, int least) const {
  const Text &text = references[static_cast<size_t>(expr)];
  return text.precedence < least ? "(" + text.text + ")" : text.text;
}

/// References to earlier nodes must be there.
MlirExprs::Text MlirExprs::write(const fb::DimExpr &node) const {
  if (node.op() == fb::DimOp::Constant)
    return {std::to_string(node.a()), kWord, true};
  if (node.op() == fb::DimOp::Symbol)
    return {mlirSymbol(plan.symbols()->Get(static_cast<uint32_t>(node.a()))->name()->string_view()), kWord, true};
  bool isInline =
      references[static_cast<size_t>(node.a())].isInline && references[static_cast<size_t>(node.b())].isInline;
  if (node.op() == fb::DimOp::Min || node.op() == fb::DimOp::Max)
    return {fmt::format("{}({}, {})", node.op() == fb::DimOp::Min ? "min" : "max", operand(node.a(), 0),
                        operand(node.b(), 0)),
            kWord, isInline};
  int own = node.op() == fb::DimOp::Add ? kSum : kProduct;
  return {operand(node.a(), own) + infix(node.op()) + operand(node.b(), own + 1), own, isInline};
}

std::string MlirExprs::definition(uint32_t expr) const { return write(*plan.exprs()->Get(expr)).text; }

std::string MlirExprs::list(const flatbuffers::Vector<uint32_t> &exprs) const {
  std::string text = "[";
  for (uint32_t expr : exprs)
    text += (text.size() > 1 ? ", " : "") + reference(expr);
  return text + "]";
}

} // namespace maestro::plan
