#include "planner/import/parameter_info.h"

#include "ir/nn/nn.h"
#include "passes/attributes.h"

#include "mlir/IR/Builders.h"

namespace maestro::planner {
namespace {

constexpr llvm::StringLiteral kKind = "nn.kind";
constexpr llvm::StringLiteral kAliases = "nn.aliases";
constexpr llvm::StringLiteral kNotPersistent = "nn.not_persistent";
constexpr llvm::StringLiteral kFixed = "nn.fixed";
constexpr llvm::StringLiteral kSource = "nn.source";
constexpr llvm::StringLiteral kTransposed = "nn.transposed";
constexpr llvm::StringLiteral kZeros = "nn.zeros";
constexpr llvm::StringLiteral kElements = "nn.elements";

llvm::StringRef kindName(ParameterKind kind) {
  return kind == ParameterKind::Parameter ? "parameter" : kind == ParameterKind::Buffer ? "buffer" : "constant";
}

mlir::DictionaryAttr sourceAttribute(mlir::Builder &builder, const TensorSource &source) {
  return builder.getDictionaryAttr({builder.getNamedAttr("file", builder.getStringAttr(source.file)),
                                    builder.getNamedAttr("offset", builder.getI64IntegerAttr(source.offset)),
                                    builder.getNamedAttr("length", builder.getI64IntegerAttr(source.length))});
}

} // namespace

void setParameterInfo(mlir::func::FuncOp function, unsigned argument, const std::string &component,
                      const ParameterInfo &info) {
  mlir::Builder builder(function.getContext());
  auto set = [&](llvm::StringRef name, mlir::Attribute value) { function.setArgAttr(argument, name, value); };
  set(attributes::kParameter, builder.getStringAttr(component + "/" + info.name));
  set(kKind, builder.getStringAttr(kindName(info.kind)));
  // What is computed with may be wider than what the file holds (half_precision.h).
  mlir::Type element = nn::typeOf(function.getArgument(argument)).getElementType();
  if (element.isBF16() || element.isF16())
    set(kElements, mlir::TypeAttr::get(element));
  if (!info.persistent)
    set(kNotPersistent, builder.getUnitAttr());
  if (!info.requiresGrad)
    set(kFixed, builder.getUnitAttr());
  if (!info.aliases.empty()) {
    llvm::SmallVector<llvm::StringRef> aliases(info.aliases.begin(), info.aliases.end());
    set(kAliases, builder.getStrArrayAttr(aliases));
  }
  if (info.source)
    set(kSource, sourceAttribute(builder, *info.source));
  if (info.transposed)
    set(kTransposed, builder.getUnitAttr());
  if (info.zeros)
    set(kZeros, builder.getUnitAttr());
}

std::optional<ParameterInfo> parameterInfo(mlir::func::FuncOp function, unsigned argument) {
  auto name = function.getArgAttrOfType<mlir::StringAttr>(argument, attributes::kParameter);
  if (!name)
    return std::nullopt;
  ParameterInfo info;
  info.name = name.getValue().split('/').second.str();
  if (auto kind = function.getArgAttrOfType<mlir::StringAttr>(argument, kKind))
    info.kind = kind == "buffer"     ? ParameterKind::Buffer
                : kind == "constant" ? ParameterKind::Constant
                                     : ParameterKind::Parameter;
  info.persistent = !function.getArgAttr(argument, kNotPersistent);
  info.requiresGrad = !function.getArgAttr(argument, kFixed);
  info.transposed = static_cast<bool>(function.getArgAttr(argument, kTransposed));
  info.zeros = static_cast<bool>(function.getArgAttr(argument, kZeros));
  if (auto aliases = function.getArgAttrOfType<mlir::ArrayAttr>(argument, kAliases))
    for (auto alias : aliases.getAsRange<mlir::StringAttr>())
      info.aliases.push_back(alias.str());
  if (auto source = function.getArgAttrOfType<mlir::DictionaryAttr>(argument, kSource))
    info.source = TensorSource{source.getAs<mlir::StringAttr>("file").str(),
                               static_cast<uint64_t>(source.getAs<mlir::IntegerAttr>("offset").getInt()),
                               static_cast<uint64_t>(source.getAs<mlir::IntegerAttr>("length").getInt())};
  auto type = mlir::cast<nn::TensorType>(function.getArgumentTypes()[argument]);
  auto stored = function.getArgAttrOfType<mlir::TypeAttr>(argument, kElements);
  info.dtype = nn::dtypeOf(stored ? stored.getValue() : type.getElementType()).value_or(DType::F32);
  return info;
}

} // namespace maestro::planner
