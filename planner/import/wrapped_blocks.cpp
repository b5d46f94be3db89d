#include "planner/import/wrapped_blocks.h"

#include "planner/import/onnx_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>

namespace maestro::planner {
namespace {

bool isOfBlock(const onnx::NodeProto &node) {
  std::string_view trace = stackTrace(node);
  size_t innermost = trace.rfind("File \"");
  return innermost != std::string_view::npos && trace.substr(innermost).starts_with("File \"<eval_with_key>");
}

bool isDetach(const onnx::NodeProto &node) { return fxTarget(fxNode(node)) == "aten.detach.default"; }

/// Why a value has a gradient to pass on.
struct Carried {
  std::string parameter;
  const onnx::NodeProto *block = nullptr; ///< The node of a block that it came through, if any.
};

class Gradients {
public:
  Gradients(const onnx::GraphProto &graph, const GraphSignature &signature) {
    for (const auto *infos : {&graph.value_info(), &graph.input(), &graph.output()})
      for (const onnx::ValueInfoProto &info : *infos) {
        types[info.name()] = info.type().tensor_type().elem_type();
        SignatureEntry entry = describeInput(info, signature);
        if (entry.kind == "PARAMETER" && entry.requiresGrad && isFloatValue(info.name()))
          values[info.name()] = {entry.target};
      }
  }
  /// The value's gradient, or null where it has none.
  const Carried *of(const std::string &value) const {
    auto found = values.find(value);
    return found == values.end() ? nullptr : &found->second;
  }
  Status pass(const onnx::NodeProto &node) {
    if (isDetach(node))
      return {};
    const Carried *carried = nullptr;
    for (const std::string &input : node.input())
      if (const Carried *read = of(input); read && (!carried || read->block))
        carried = read;
    if (!carried)
      return {};
    Carried passed = *carried;
    if (isOfBlock(node))
      passed.block = &node;
    else
      MAESTRO_TRY(refuse(*carried));
    for (const std::string &output : node.output())
      if (isFloatValue(output))
        values.emplace(output, passed);
    return {};
  }
  static Status refuse(const Carried &carried) {
    if (!carried.block)
      return {};
    return Status::invalidInput(fmt::format(
        "node '{}' ({}, module '{}') came from a block of torch.no_grad() or torch.autocast(), and the file does "
        "not say of which: whether the gradient of the parameter '{}' ends there cannot be told; export with "
        "maestro.export, which says where no_grad() ends it, or write detach(); take autocast() out",
        carried.block->name(), carried.block->op_type(), moduleScope(*carried.block), carried.parameter));
  }

private:
  bool isFloatValue(const std::string &value) const {
    auto found = types.find(value);
    std::optional<DType> dtype = found == types.end() ? std::nullopt : dtypeFromOnnx(found->second);
    return !dtype || isFloat(*dtype);
  }
  std::unordered_map<std::string, int32_t> types;
  std::unordered_map<std::string, Carried> values;
};

} // namespace

Status checkWrappedBlocks(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes,
                          const onnx::GraphProto &graph, const GraphSignature &signature) {
  if (std::none_of(nodes.begin(), nodes.end(), isOfBlock))
    return {};
  Gradients gradients(graph, signature);
  for (const onnx::NodeProto &node : nodes)
    MAESTRO_TRY(gradients.pass(node));
  for (const onnx::ValueInfoProto &output : graph.output())
    if (const Carried *carried = gradients.of(output.name()))
      MAESTRO_TRY(Gradients::refuse(*carried));
  return {};
}

} // namespace maestro::planner
