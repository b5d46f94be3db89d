// The dialect, its tensor type and its dims attribute.
#include "ir/dim_expr_grammar.h"
#include "ir/nn/nn.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "ir/nn/nn_dialect.cpp.inc"
#include "ir/nn/nn_interfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/nn/nn_attrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/nn/nn_types.cpp.inc"

namespace maestro {

llvm::raw_ostream &operator<<(llvm::raw_ostream &stream, const DimExpr &expr) { return stream << expr.str(); }

namespace nn {

void NNDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/nn/nn_types.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/nn/nn_attrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/nn/nn_ops.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Symbolic integers in IR text
//===----------------------------------------------------------------------===//

namespace {
/// Feeds DimExprGrammar from MLIR's lexer. `//` and `%` mean other things there.
class AsmLexer {
public:
  explicit AsmLexer(mlir::AsmParser &parser) : parser(parser) {}

  bool consume(char c) {
    switch (c) {
    case '+':
      return succeeded(parser.parseOptionalPlus());
    case '-':
      return succeeded(parser.parseOptionalMinus());
    case '*':
      return succeeded(parser.parseOptionalStar());
    case '(':
      return succeeded(parser.parseOptionalLParen());
    case ')':
      return succeeded(parser.parseOptionalRParen());
    case ',':
      return succeeded(parser.parseOptionalComma());
    default:
      return false;
    }
  }

  bool consumeWord(llvm::StringRef word) { return succeeded(parser.parseOptionalKeyword(word)); }

  std::optional<uint64_t> integer() {
    llvm::APInt value;
    mlir::OptionalParseResult result = parser.parseOptionalInteger(value);
    if (!result.has_value() || failed(*result) || value.getActiveBits() > 64)
      return std::nullopt;
    return value.getZExtValue();
  }

  std::optional<std::string> name() {
    llvm::StringRef keyword;
    if (failed(parser.parseOptionalKeyword(&keyword)))
      return std::nullopt;
    return keyword.str();
  }

private:
  mlir::AsmParser &parser;
};
} // namespace

static mlir::ParseResult parseDims(mlir::AsmParser &parser, llvm::SmallVectorImpl<DimExpr> &dims) {
  return parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::Square, [&]() {
    llvm::SMLoc location = parser.getCurrentLocation();
    AsmLexer lexer(parser);
    std::optional<DimExpr> dim = DimExprGrammar(lexer).parseSum();
    if (!dim)
      return mlir::ParseResult(parser.emitError(location, "expected a symbolic integer such as "
                                                          "4*images + 1"));
    dims.push_back(*dim);
    return mlir::ParseResult(mlir::success());
  });
}

std::string shapeText(llvm::ArrayRef<DimExpr> shape) {
  std::string text = "[";
  for (const DimExpr &dim : shape)
    text += (text.size() > 1 ? ", " : "") + dim.str();
  return text + "]";
}

//===----------------------------------------------------------------------===//
// The tensor type
//===----------------------------------------------------------------------===//

mlir::Type TensorType::parse(mlir::AsmParser &parser) {
  llvm::SmallVector<DimExpr> shape;
  mlir::Type elementType;
  llvm::SMLoc location = parser.getCurrentLocation();
  if (parser.parseLess() || parseDims(parser, shape) || parser.parseComma() || parser.parseType(elementType) ||
      parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(location); }, parser.getContext(), shape, elementType);
}

void TensorType::print(mlir::AsmPrinter &printer) const {
  printer << '<' << shapeText(getShape()) << ", " << getElementType() << '>';
}

llvm::LogicalResult TensorType::verify(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                                       llvm::ArrayRef<DimExpr> shape, mlir::Type elementType) {
  if (!dtypeOf(elementType))
    return emitError() << "element type " << elementType
                       << " is none of f32, f64, bf16, f16, i64, i32, i16, i8, ui8, i1";
  if (static_cast<int64_t>(shape.size()) > kMaxRank)
    return emitError() << "rank " << shape.size() << " of " << shapeText(shape) << " is above the limit of "
                       << kMaxRank;
  for (auto [index, dim] : llvm::enumerate(shape)) {
    if (dim.isOverflow())
      return emitError() << "dim " << index << " exceeds 64 bits";
    if (dim.asConstant().value_or(0) < 0)
      return emitError() << "dim " << index << " of " << shapeText(shape) << " is negative";
  }
  return mlir::success();
}

mlir::Type TensorType::getAccumulatorType() const {
  mlir::Type element = getElementType();
  return element.isF64() || !isFloat() ? element : mlir::Float32Type::get(getContext());
}

DimExpr TensorType::getNumElements() const { return productOf(getShape()); }

DimExpr TensorType::getByteSize() const {
  return getNumElements() * static_cast<int64_t>(byteSize(*dtypeOf(getElementType())));
}

TensorType TensorType::withShape(llvm::ArrayRef<DimExpr> shape) const { return get(shape, getElementType()); }

TensorType TensorType::withElementType(mlir::Type elementType) const { return get(getShape(), elementType); }

//===----------------------------------------------------------------------===//
// The dims attribute
//===----------------------------------------------------------------------===//

mlir::Attribute DimsAttr::parse(mlir::AsmParser &parser, mlir::Type) {
  llvm::SmallVector<DimExpr> values;
  if (parser.parseLess() || parseDims(parser, values) || parser.parseGreater())
    return {};
  return get(parser.getContext(), values);
}

void DimsAttr::print(mlir::AsmPrinter &printer) const { printer << '<' << shapeText(getValues()) << '>'; }

//===----------------------------------------------------------------------===//
// Element types and shapes
//===----------------------------------------------------------------------===//

std::optional<DType> dtypeOf(mlir::Type type) {
  if (type.isF32())
    return DType::F32;
  if (type.isF64())
    return DType::F64;
  if (type.isBF16())
    return DType::BF16;
  if (type.isF16())
    return DType::F16;
  if (type.isUnsignedInteger(8))
    return DType::U8;
  if (!type.isSignlessInteger())
    return std::nullopt;
  switch (type.getIntOrFloatBitWidth()) {
  case 64:
    return DType::I64;
  case 32:
    return DType::I32;
  case 16:
    return DType::I16;
  case 8:
    return DType::I8;
  case 1:
    return DType::Bool;
  default:
    return std::nullopt;
  }
}

mlir::Type elementTypeOf(mlir::MLIRContext *context, DType dtype) {
  mlir::Builder builder(context);
  switch (dtype) {
  case DType::F32:
    return builder.getF32Type();
  case DType::F64:
    return builder.getF64Type();
  case DType::BF16:
    return builder.getBF16Type();
  case DType::F16:
    return builder.getF16Type();
  case DType::U8:
    return builder.getIntegerType(8, /*isSigned=*/false);
  case DType::Bool:
    return builder.getI1Type();
  default:
    return builder.getIntegerType(static_cast<unsigned>(byteSize(dtype)) * 8);
  }
}

DimExpr productOf(llvm::ArrayRef<DimExpr> dims) {
  DimExpr product = 1;
  for (const DimExpr &dim : dims)
    product = product * dim;
  return product;
}

std::optional<llvm::SmallVector<DimExpr>> broadcastShapes(llvm::ArrayRef<DimExpr> a, llvm::ArrayRef<DimExpr> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  llvm::SmallVector<DimExpr> shape(a);
  for (size_t i = 0, offset = a.size() - b.size(); i < b.size(); ++i) {
    DimExpr &dim = shape[offset + i];
    if (dim.isConstant(1))
      dim = b[i];
    else if (!b[i].isConstant(1) && dim != b[i])
      return std::nullopt;
  }
  return shape;
}

} // namespace nn
} // namespace maestro
