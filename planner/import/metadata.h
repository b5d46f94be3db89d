// What PyTorch's exporter writes beside the graph: which inputs and initializers are parameters, their
// names in the state_dict, and which module and fx node an ONNX node comes from.
#pragma once

#include "base/status.h"

#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::planner {

/// The value of `key`, or "".
std::string_view metadataValue(const google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto> &entries,
                               std::string_view key);

/// One line of the graph_signature: `p_wte: PARAMETER target='wte.weight'`.
struct SignatureEntry {
  std::string node;   ///< "p_wte"
  std::string kind;   ///< "PARAMETER", "BUFFER", "USER_INPUT", "BUFFER_MUTATION" …
  std::string target; ///< "wte.weight", or "".
  bool persistent = true;
};

struct GraphSignature {
  std::vector<SignatureEntry> inputs, outputs;
  /// The input entry of a node's name, or null.
  const SignatureEntry *input(std::string_view node) const;
};

/// Empty where the graph has none.
GraphSignature readSignature(const onnx::GraphProto &graph);

/// Kind, name and persistence of an initializer or input, as its value_info says; kind "" when unknown.
SignatureEntry describeInput(const onnx::ValueInfoProto &info, const GraphSignature &signature);

/// The names of what the exporter's optimizer computed a constant from.
std::vector<std::string> foldedFrom(const onnx::ValueInfoProto &info);

/// The module path of a node: "model.layers.0.self_attn", or "".
std::string moduleScope(const onnx::NodeProto &node);
/// The call that the node came from: "%linear : [...] = call_function[target=torch.ops.aten.linear.default](args = (…".
std::string_view fxNode(const onnx::NodeProto &node);
/// The names after % in the call's arguments, in order.
std::vector<std::string> fxOperands(std::string_view fxNode);

/// `['a', 'b']` -> a, b.
std::vector<std::string> parseNameList(std::string_view text);

} // namespace maestro::planner
