// Words of the `plan` dialect's text (ir/plan/syntax.h), written without MLIR. Internal to plan/print.
#pragma once

#include "plan/plan.h"
#include "plan/plan_generated.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::plan {

/// A string literal, as MLIR escapes it.
std::string mlirString(std::string_view text);
/// A name of a kernel's attribute: quoted where it is no identifier.
std::string mlirKeyword(std::string_view name);
/// `1.0e-03`: the fewest digits that give the number back.
std::string mlirNumber(double value);
const char *mlirElementType(uint8_t dtype);
/// A symbol in an expression: quoted where it is no word, or another word of the grammar.
std::string mlirSymbol(std::string_view name);
/// Two digits a byte.
std::string hexDigits(const flatbuffers::Vector<uint8_t> &bytes);

/// How references to Plan.exprs are written: as what the node computes, `4*(batch*seq)`, or as `node(12)` where that
/// is long or would mean an earlier node.
class MlirExprs {
public:
  explicit MlirExprs(const fb::Plan &plan);

  const std::string &reference(uint32_t expr) const { return references[expr].text; }
  /// What the node computes from references to others.
  std::string definition(uint32_t expr) const;
  std::string list(const flatbuffers::Vector<uint32_t> &exprs) const;

private:
  struct Text {
    std::string text;
    int precedence = 0;   ///< Of its outermost operator.
    bool isInline = true; ///< No node(…).
  };
  Text write(const fb::DimExpr &node) const;
  std::string operand(int64_t expr, int least) const;

  const fb::Plan &plan;
  std::vector<Text> references;
};

} // namespace maestro::plan
