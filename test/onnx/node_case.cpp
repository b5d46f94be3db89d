#include "node_case.h"

#include "planner/import/onnx_file.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace maestro::test {
namespace {

namespace fs = std::filesystem;

std::string readBytes(const fs::path &path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream bytes;
  bytes << stream.rdbuf();
  return bytes.str();
}

Result<std::vector<onnx::TensorProto>> readTensors(const fs::path &folder, const std::string &prefix, int count,
                                                   bool areTensors) {
  std::vector<onnx::TensorProto> tensors;
  for (int i = 0; i < count; ++i) {
    fs::path path = folder / fmt::format("{}_{}.pb", prefix, i);
    if (!fs::exists(path))
      break;
    if (!areTensors || !tensors.emplace_back().ParseFromString(readBytes(path)))
      return Status::invalidInput("its data is not tensors");
  }
  return tensors;
}

template <typename Values> bool allTensors(const Values &values) {
  for (const auto &value : values)
    if (!value.type().has_tensor_type())
      return false;
  return true;
}

void store(Tensor &tensor, int64_t index, const onnx::TensorProto &proto, DType dtype) {
  auto *bytes = static_cast<char *>(tensor.data()) + index * byteSize(dtype);
  auto put = [&](auto value) { std::memcpy(bytes, &value, sizeof(value)); };
  int i = static_cast<int>(index);
  if (proto.float_data_size() > 0)
    return put(proto.float_data(i));
  if (proto.double_data_size() > 0)
    return put(proto.double_data(i));
  if (proto.int64_data_size() > 0)
    return put(proto.int64_data(i));
  int32_t narrow = proto.int32_data(i);
  std::memcpy(bytes, &narrow, byteSize(dtype));
}

bool close(double a, double b, double relative, double absolute) {
  if (std::isnan(a) || std::isnan(b))
    return std::isnan(a) && std::isnan(b);
  return a == b || std::fabs(a - b) <= absolute + relative * std::fabs(b);
}

} // namespace

Result<NodeCase> readNodeCase(const std::string &folder) {
  NodeCase test;
  test.name = fs::path(folder).filename().string();
  if (!test.model.ParseFromString(readBytes(fs::path(folder) / "model.onnx")))
    return Status::invalidInput("its model cannot be read");
  const auto &graph = test.model.graph();
  fs::path data = fs::path(folder) / "test_data_set_0";
  MAESTRO_ASSIGN(test.inputs, readTensors(data, "input", graph.input_size(), allTensors(graph.input())));
  MAESTRO_ASSIGN(test.outputs, readTensors(data, "output", graph.output_size(), allTensors(graph.output())));
  return test;
}

Result<Tensor> tensorOf(const onnx::TensorProto &proto) {
  auto dtype = planner::dtypeFromOnnx(proto.data_type());
  if (!dtype)
    return Status::invalidInput("element type " + planner::onnxTypeName(proto.data_type()));
  std::vector<int64_t> shape(proto.dims().begin(), proto.dims().end());
  Tensor tensor(*dtype, shape);
  size_t bytes = static_cast<size_t>(tensor.size()) * byteSize(*dtype);
  if (!proto.raw_data().empty() && proto.raw_data().size() == bytes) {
    std::memcpy(tensor.data(), proto.raw_data().data(), bytes);
    return tensor;
  }
  if (bytes > 0 && !proto.raw_data().empty())
    return Status::invalidInput("raw data of another size");
  for (int64_t i = 0; i < tensor.size(); ++i)
    store(tensor, i, proto, *dtype);
  return tensor;
}

std::string difference(const Tensor &actual, const Tensor &expected) {
  const auto &a = actual.type(), &b = expected.type();
  if (a.dtype != b.dtype)
    return fmt::format("{} instead of {}", name(a.dtype), name(b.dtype));
  if (!std::equal(a.shape().begin(), a.shape().end(), b.shape().begin(), b.shape().end()))
    return "another shape";
  double relative = 1e-3, absolute = 1e-6;
  if (a.dtype == DType::F16)
    relative = absolute = 4e-3;
  if (a.dtype == DType::BF16)
    relative = absolute = 2e-2;
  if (!isFloat(a.dtype))
    relative = absolute = 0;
  for (int64_t i = 0; i < actual.size(); ++i)
    if (!close(actual.at(i), expected.at(i), relative, absolute))
      return fmt::format("element {}: {} instead of {}", i, actual.at(i), expected.at(i));
  return "";
}

} // namespace maestro::test
