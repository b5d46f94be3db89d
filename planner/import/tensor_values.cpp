#include "planner/import/tensor_values.h"

#include "ir/nn/nn.h"
#include "planner/import/onnx_file.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <cstring>

namespace maestro::planner {
namespace {

template <typename T> void append(std::string &bytes, T value) {
  bytes.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

/// Narrow types stand in int32_data.
void appendNarrow(std::string &bytes, DType dtype, int32_t value) {
  switch (byteSize(dtype)) {
  case 1:
    return append(bytes, static_cast<int8_t>(value));
  case 2:
    return append(bytes, static_cast<int16_t>(value));
  default:
    return append(bytes, value);
  }
}

/// The values' little-endian bytes.
Result<std::string> rawBytes(const onnx::TensorProto &tensor) {
  auto dtype = dtypeFromOnnx(tensor.data_type());
  if (!dtype)
    return Status::invalidInput(fmt::format("tensor '{}' has element type {}, which is not supported", tensor.name(),
                                            onnxTypeName(tensor.data_type())));
  MAESTRO_ASSIGN(uint64_t elements, elementCount(tensor));
  std::string bytes = tensor.raw_data();
  if (bytes.empty()) {
    for (float value : tensor.float_data())
      append(bytes, value);
    for (double value : tensor.double_data())
      append(bytes, value);
    for (int64_t value : tensor.int64_data())
      append(bytes, value);
    for (int32_t value : tensor.int32_data())
      appendNarrow(bytes, *dtype, value);
  }
  if (bytes.size() != elements * byteSize(*dtype))
    return Status::invalidInput(fmt::format("tensor '{}' holds {} bytes, but its shape and element type need {}",
                                            tensor.name(), bytes.size(), elements * byteSize(*dtype)));
  return bytes;
}

template <typename T> T load(const std::string &bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

FoldedElement elementAt(const std::string &bytes, DType dtype, size_t index) {
  switch (dtype) {
  case DType::F32:
    return static_cast<double>(load<float>(bytes, index));
  case DType::F64:
    return load<double>(bytes, index);
  case DType::F16:
    return static_cast<double>(halfToFloat(load<uint16_t>(bytes, index)));
  case DType::BF16: {
    BFloat16 value;
    value.bits = load<uint16_t>(bytes, index);
    return static_cast<double>(static_cast<float>(value));
  }
  case DType::I64:
    return DimExpr(load<int64_t>(bytes, index));
  case DType::I32:
    return DimExpr(load<int32_t>(bytes, index));
  case DType::I16:
    return DimExpr(load<int16_t>(bytes, index));
  case DType::I8:
    return DimExpr(load<int8_t>(bytes, index));
  case DType::U8:
    return DimExpr(load<uint8_t>(bytes, index));
  case DType::Bool:
    break;
  }
  return DimExpr(load<uint8_t>(bytes, index) != 0 ? 1 : 0);
}

} // namespace

bool hasValues(const onnx::TensorProto &tensor) {
  return !tensor.raw_data().empty() || tensor.float_data_size() > 0 || tensor.double_data_size() > 0 ||
         tensor.int32_data_size() > 0 || tensor.int64_data_size() > 0;
}

Result<FoldedTensor> readFolded(const onnx::TensorProto &tensor) {
  MAESTRO_ASSIGN(std::string bytes, rawBytes(tensor));
  FoldedTensor result{*dtypeFromOnnx(tensor.data_type()), {tensor.dims().begin(), tensor.dims().end()}, {}};
  size_t count = bytes.size() / byteSize(result.dtype);
  for (size_t i = 0; i < count; ++i)
    result.elements.push_back(elementAt(bytes, result.dtype, i));
  return result;
}

Result<mlir::DenseElementsAttr> readElements(const onnx::TensorProto &tensor, mlir::MLIRContext &context) {
  MAESTRO_ASSIGN(std::string bytes, rawBytes(tensor));
  DType dtype = *dtypeFromOnnx(tensor.data_type());
  llvm::SmallVector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
  auto type = mlir::RankedTensorType::get(shape, nn::elementTypeOf(&context, dtype));
  if (dtype == DType::Bool) {
    llvm::SmallVector<bool> flags;
    for (char byte : bytes)
      flags.push_back(byte != 0);
    return mlir::DenseElementsAttr::get(type, llvm::ArrayRef<bool>(flags));
  }
  return mlir::DenseElementsAttr::getFromRawBuffer(type, llvm::ArrayRef<char>(bytes.data(), bytes.size()));
}

} // namespace maestro::planner
