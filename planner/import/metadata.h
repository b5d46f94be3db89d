// What PyTorch's exporter writes beside the graph: which inputs and initializers are parameters, their
// names in the state_dict, and which module and fx node an ONNX node comes from.
#pragma once

#include "base/status.h"

#include <onnx/onnx_pb.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::planner {

/// Under this key a node carries the text of the call that it came from.
inline constexpr std::string_view kFxNodeKey = "pkg.torch.onnx.fx_node";
/// The text of a call of detach().
inline constexpr std::string_view kDetachText =
    "%detach : [num_users=1] = call_function[target=torch.ops.aten.detach.default](args = (), "
    "kwargs = {})";

/// The value of `key`, or "".
std::string_view metadataValue(const google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto> &entries,
                               std::string_view key);

/// One line of the graph_signature: `p_wte: PARAMETER target='wte.weight'`.
struct SignatureEntry {
  std::string node;   ///< "p_wte"
  std::string kind;   ///< "PARAMETER", "BUFFER", "USER_INPUT", "BUFFER_MUTATION" …
  std::string target; ///< "wte.weight", or "".
  bool persistent = true;
  /// What maestro.export adds (python/README.md): whether it trains, and its further state_dict names.
  bool requiresGrad = true;
  std::vector<std::string> aliases;
};

struct GraphSignature {
  std::vector<SignatureEntry> inputs, outputs;
  /// The input entry of a node's name, or null.
  const SignatureEntry *input(std::string_view node) const;
};

/// Empty where the graph has none.
GraphSignature readSignature(const onnx::GraphProto &graph);

/// What is said of an initializer or input, by its value_info; kind "" when unknown.
SignatureEntry describeInput(const onnx::ValueInfoProto &info, const GraphSignature &signature);

/// The names of what the exporter's optimizer computed a constant from.
std::vector<std::string> foldedFrom(const onnx::ValueInfoProto &info);

/// The module path of a node: "model.layers.0.self_attn", or "".
std::string moduleScope(const onnx::NodeProto &node);
/// How many modules the node is in, the model itself included.
int64_t moduleDepth(const onnx::NodeProto &node);
/// The call that the node came from: "%linear : [...] = call_function[target=torch.ops.aten.linear.default](args = (…".
std::string_view fxNode(const onnx::NodeProto &node);
/// The lines of code that led to the node, from the outermost function to the innermost one, two lines a function.
std::string_view stackTrace(const onnx::NodeProto &node);
/// The names after % in the call's arguments, in order.
std::vector<std::string> fxOperands(std::string_view fxNode);
/// "aten.linear.default", or "".
std::string_view fxTarget(std::string_view fxNode);
/// The call's positional arguments as they are written: "%x", "None", "[4, %s]", "0.1".
std::vector<std::string> fxArguments(std::string_view fxNode);
/// One of them as a number; nothing where there is none, or it is no number.
std::optional<double> fxNumber(std::string_view fxNode, size_t argument);

/// What maestro.export says of a model's dims: the largest size of each in one sample, {"seq": 2048}. Empty where the
/// file says nothing.
Result<std::map<std::string, int64_t>> readBounds(const onnx::ModelProto &model);

/// `['a', 'b']` -> a, b.
std::vector<std::string> parseNameList(std::string_view text);

} // namespace maestro::planner
