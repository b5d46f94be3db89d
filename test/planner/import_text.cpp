// import-text FILE: an ONNX graph in ONNX's text syntax -> the nn dialect, or "error: …". For the lit tests beside.
//
// What PyTorch's exporter says beside a graph has no place in that syntax; comments say it:
//   #! signature p_w: PARAMETER target='head.weight'   a line of the graph's signature
//   #! value w PARAMETER p_w                           the initializer or input w is this parameter
//   #! folded val_1 ['head.weight']                    the exporter's optimizer made val_1 of this parameter
//   #! said w maestro.requires_grad False              what maestro.export says of w
//   #! node y scopes ['', 'head', 'linear']            the module of the node that computes y …
//   #! node y fx %linear : … (args = (%x, %p_w))       … and the call that it came from
#include "onnx_text.h"

#include <onnx/onnx_pb.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

namespace {

using Metadata = google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>;

void add(Metadata &entries, const std::string &key, const std::string &value) {
  onnx::StringStringEntryProto &entry = *entries.Add();
  entry.set_key(key);
  entry.set_value(value);
}

std::string rest(std::istream &stream) {
  std::string text;
  std::getline(stream >> std::ws, text);
  return text;
}

onnx::ValueInfoProto &describe(onnx::GraphProto &graph, const std::string &name) {
  for (auto *infos : {graph.mutable_input(), graph.mutable_value_info()})
    for (onnx::ValueInfoProto &info : *infos)
      if (info.name() == name)
        return info;
  onnx::ValueInfoProto &info = *graph.add_value_info();
  info.set_name(name);
  for (const onnx::TensorProto &tensor : graph.initializer())
    if (tensor.name() == name)
      info.mutable_type()->mutable_tensor_type()->set_elem_type(tensor.data_type());
  return info;
}

/// One directive; what the signature gains is returned.
std::string applyDirective(onnx::GraphProto &graph, const std::string &line) {
  std::istringstream words(line);
  std::string kind, name, what;
  words >> kind;
  if (kind == "signature")
    return rest(words) + "\n";
  words >> name;
  if (kind == "value") {
    words >> what;
    add(*describe(graph, name).mutable_metadata_props(), "pkg.torch.export.graph_signature.InputSpec.kind", what);
    add(*describe(graph, name).mutable_metadata_props(), "pkg.torch.onnx.original_node_name", rest(words));
  } else if (kind == "said") {
    words >> what;
    add(*describe(graph, name).mutable_metadata_props(), what, rest(words));
  } else if (kind == "folded") {
    add(*describe(graph, name).mutable_metadata_props(), "pkg.onnxscript.optimizer.folded_from", rest(words));
  } else {
    words >> what;
    for (onnx::NodeProto &node : *graph.mutable_node())
      if (node.output(0) == name)
        add(*node.mutable_metadata_props(), what == "fx" ? "pkg.torch.onnx.fx_node" : "pkg.torch.onnx.name_scopes",
            rest(words));
  }
  return "";
}

} // namespace

int main(int count, char **arguments) {
  std::ifstream file(count == 2 ? arguments[1] : "");
  if (!file) {
    std::fprintf(stderr, "usage: import-text FILE\n");
    return 2;
  }
  std::ostringstream text;
  text << file.rdbuf();
  onnx::ModelProto model;
  model.ParseFromString(maestro::planner::modelBytes(text.str()));
  std::string signature;
  std::istringstream lines(text.str());
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("#! "))
      signature += applyDirective(*model.mutable_graph(), line.substr(3));
  if (!signature.empty())
    add(*model.mutable_graph()->mutable_metadata_props(), "pkg.torch.export.ExportedProgram.graph_signature",
        "# inputs\n" + signature);
  std::cout << maestro::planner::importedBytes(model.SerializeAsString()) << "\n";
  return 0;
}
