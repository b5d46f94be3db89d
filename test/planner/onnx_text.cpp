#include "onnx_text.h"

#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>

#include <cstdio>
#include <cstdlib>

namespace maestro::planner {

std::string modelBytes(const std::string &text) {
  onnx::ModelProto model;
  auto status = onnx::OnnxParser::Parse(model, text.c_str());
  if (!status.IsOK()) {
    std::fprintf(stderr, "%s\n%s\n", status.ErrorMessage().c_str(), text.c_str());
    std::abort();
  }
  return model.SerializeAsString();
}

std::string withHalfWeights(const std::string &text) {
  onnx::ModelProto model;
  model.ParseFromString(modelBytes(text));
  for (onnx::TensorProto &tensor : *model.mutable_graph()->mutable_initializer()) {
    size_t count = static_cast<size_t>(tensor.float_data_size());
    tensor.clear_float_data();
    tensor.set_data_type(onnx::TensorProto::FLOAT16);
    tensor.set_raw_data(std::string(2 * count, '\0'));
  }
  return model.SerializeAsString();
}

std::string importedBytes(const std::string &bytes, const std::string &path) {
  auto file = parseOnnx({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()}, path);
  if (!file)
    return "error: " + std::string(file.status().message());
  mlir::MLIRContext context;
  loadImportDialects(context);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  auto model = importModel(*file, ImportOptions(), *module);
  if (!model)
    return "error: " + std::string(model.status().message());
  std::string result;
  llvm::raw_string_ostream stream(result);
  model->function.print(stream);
  return result;
}

std::string imported(const std::string &text) { return importedBytes(modelBytes(text)); }

} // namespace maestro::planner
