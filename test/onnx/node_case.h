// One of ONNX's own node tests: a model of one node, inputs, and the outputs that they must give.
#pragma once

#include "support/interpreter.h"

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

namespace maestro::test {

struct NodeCase {
  std::string name;
  onnx::ModelProto model;
  std::vector<onnx::TensorProto> inputs;
  std::vector<onnx::TensorProto> outputs;
};

/// Reads the folder of a test. Fails where its data is not tensors (sequences, optional values).
Result<NodeCase> readNodeCase(const std::string &folder);

/// Fails for element types that Maestro has no tensors of.
Result<Tensor> tensorOf(const onnx::TensorProto &proto);

/// Why `actual` is not `expected`, or "". Tolerances are those of ONNX's runner, wider for 16 bits.
std::string difference(const Tensor &actual, const Tensor &expected);

} // namespace maestro::test
