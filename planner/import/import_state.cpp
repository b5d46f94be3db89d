#include "planner/import/import_state.h"

#include "passes/attributes.h"
#include "planner/import/tensor_values.h"

#include <fmt/format.h>

#include <fstream>

namespace maestro::planner {

mlir::Value ImportState::addParameter(nn::TensorType type, const ParameterInfo &info) {
  unsigned index = function.getNumArguments();
  (void)function.insertArgument(index, type, {}, function.getLoc());
  setParameterInfo(function, index, options.component, info);
  return function.getArgument(index);
}

mlir::Value ImportState::addArgument(nn::TensorType type, llvm::StringRef attribute, llvm::StringRef value) {
  unsigned index = function.getNumArguments();
  (void)function.insertArgument(index, type, {}, function.getLoc());
  function.setArgAttr(index, attribute, mlir::StringAttr::get(function.getContext(), value));
  return function.getArgument(index);
}

mlir::Value ImportState::randomState(Emitter &emitter) {
  if (!random)
    random = addArgument(emitter.type({DimExpr(2)}, DType::I64), attributes::kSpecial, "rng_state");
  return random;
}

mlir::Value ImportState::sampleIds(Emitter &emitter) {
  if (!samples)
    samples = addArgument(emitter.type({DimExpr::symbol(kSamplesDim)}, DType::I64), attributes::kSpecial, "sample_ids");
  return samples;
}

void ImportState::boundDim(const DimExpr &value, int64_t most) {
  auto symbols = value.symbols();
  if (symbols.size() != 1)
    return;
  auto offset = (value - DimExpr::symbol(symbols[0])).asConstant();
  if (!offset)
    return;
  auto [bound, fresh] = dimBounds.try_emplace(symbols[0], most - *offset);
  bound->second = std::min(bound->second, most - *offset);
}

DimExpr ImportState::inventDim(std::string_view what) {
  return DimExpr::symbol(fmt::format("{}.{}{}", options.component, what, invented++));
}

/// The tensor with its values, from where they lie; nothing where that cannot be read.
static std::optional<onnx::TensorProto> withValues(const onnx::TensorProto &tensor, const TensorSource &source) {
  std::string bytes(source.length, '\0');
  std::ifstream file(source.file, std::ios::binary);
  if (!file.seekg(static_cast<std::streamoff>(source.offset)) ||
      !file.read(bytes.data(), static_cast<std::streamsize>(bytes.size())))
    return std::nullopt;
  onnx::TensorProto read = tensor;
  read.clear_external_data();
  read.clear_data_location();
  read.set_raw_data(std::move(bytes));
  return read;
}

Result<ImportedValue> ImportState::constant(const onnx::TensorProto &tensor, const std::string &name,
                                            Emitter &emitter) {
  MAESTRO_ASSIGN(std::optional<TensorSource> source, file.locate(tensor));
  MAESTRO_ASSIGN(uint64_t elements, elementCount(tensor));
  DType dtype = *dtypeFromOnnx(tensor.data_type());
  Shape shape(tensor.dims().begin(), tensor.dims().end());
  if (hasValues(tensor) || elements == 0) {
    if (elements <= kMaxFoldedElements) {
      MAESTRO_ASSIGN(FoldedTensor folded, readFolded(tensor));
      return ImportedValue::of(std::move(folded));
    }
    MAESTRO_ASSIGN(mlir::DenseElementsAttr value, readElements(tensor, *emitter.builder.getContext()));
    return ImportedValue::of(emitter.typed<nn::ConstantOp>(emitter.type(shape, dtype), value));
  }
  // Integers say which elements are read, or how many there are.
  if (source && !isFloat(dtype) && elements <= kMaxFoldedElements)
    if (std::optional<onnx::TensorProto> read = withValues(tensor, *source)) {
      MAESTRO_ASSIGN(FoldedTensor folded, readFolded(*read));
      return ImportedValue::of(std::move(folded));
    }
  ParameterInfo info;
  info.name = name;
  info.kind = ParameterKind::Constant;
  info.source = source;
  return ImportedValue::of(addParameter(emitter.type(shape, dtype), info));
}

} // namespace maestro::planner
