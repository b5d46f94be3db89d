#include "planner/import/graph_check.h"

#include "base/nearest.h"
#include "planner/import/metadata.h"
#include "planner/import/onnx_file.h"

#include "llvm/Support/JSON.h"

#include <fmt/format.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace maestro::planner {
namespace {

constexpr int64_t kOldestIr = 3;
/// Each operator's import says from which version on it knows the meaning.
constexpr int64_t kOldestOpset = 1;

std::string nodeLabel(const onnx::NodeProto &node) {
  return fmt::format("node '{}' ({})", node.name().empty() ? "?" : node.name(), node.op_type());
}

bool isDefaultDomain(const std::string &domain) { return domain.empty() || domain == "ai.onnx"; }

Status checkVersions(const onnx::ModelProto &model, int64_t &opset) {
  if (!model.has_graph())
    return Status::invalidInput("not an ONNX model: it holds no graph");
  if (model.ir_version() < kOldestIr)
    return Status::invalidInput(fmt::format("IR version {} is below the oldest supported, {}; export the model again",
                                            model.ir_version(), kOldestIr));
  int64_t newest = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map().at("").second;
  for (const auto &import : model.opset_import())
    if (isDefaultDomain(import.domain()))
      opset = import.version();
  if (opset < kOldestOpset || opset > newest)
    return Status::invalidInput(
        fmt::format("operator set {} is outside {} to {}; export with opset_version=20", opset, kOldestOpset, newest));
  return {};
}

/// Bytes of values kept in a typed field, against what the shape needs.
Status checkTypedData(const onnx::TensorProto &tensor, uint64_t elements) {
  using T = onnx::TensorProto;
  if (tensor.data_location() == T::EXTERNAL || !tensor.raw_data().empty() || tensor.external_data_size() > 0)
    return {};
  int64_t held = 0;
  switch (tensor.data_type()) {
  case T::FLOAT:
    held = tensor.float_data_size();
    break;
  case T::DOUBLE:
    held = tensor.double_data_size();
    break;
  case T::INT64:
    held = tensor.int64_data_size();
    break;
  default:
    held = tensor.int32_data_size();
    break;
  }
  if (static_cast<uint64_t>(held) != elements)
    return Status::invalidInput(
        fmt::format("initializer '{}' holds {} values, but its shape needs {}", tensor.name(), held, elements));
  return {};
}

/// Names go to the terminal, into the plan and into checkpoints.
Status checkName(std::string_view name, std::string_view what) {
  constexpr size_t kMostBytes = 4096; // As the plan allows.
  auto isControl = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  bool fine = name.size() <= kMostBytes && std::none_of(name.begin(), name.end(), isControl) &&
              llvm::json::isUTF8(llvm::StringRef(name.data(), name.size()));
  if (fine)
    return {};
  std::string shown(name.substr(0, 60));
  std::replace_if(
      shown.begin(), shown.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return Status::invalidInput(fmt::format("the name '{}' of {} is longer than {} bytes, or holds control characters "
                                          "or bytes that are not UTF-8: the file is damaged",
                                          shown, what, kMostBytes));
}

/// Each name defined in the graph, and by whom.
class Definitions {
public:
  Status add(const std::string &name, const std::string &what) {
    if (name.empty())
      return Status::invalidInput(fmt::format("{} has no name", what));
    MAESTRO_TRY(checkName(name, what));
    auto [place, fresh] = definedBy.try_emplace(name, what);
    if (fresh)
      return {};
    return Status::invalidInput(fmt::format("'{}' is defined twice: by {} and by {}", name, place->second, what));
  }
  bool has(const std::string &name) const { return definedBy.count(name) != 0; }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto &[name, what] : definedBy)
      all.push_back(name);
    return all;
  }

private:
  std::unordered_map<std::string, std::string> definedBy;
};

/// An initializer may also stand among the inputs (its default value, always in IR 3).
Status collectSources(const onnx::GraphProto &graph, Definitions &definitions) {
  std::unordered_set<std::string> inputs;
  for (const auto &input : graph.input()) {
    MAESTRO_TRY(definitions.add(input.name(), "a graph input"));
    inputs.insert(input.name());
  }
  std::unordered_set<std::string> initializers;
  for (const auto &tensor : graph.initializer()) {
    if (!initializers.insert(tensor.name()).second)
      return Status::invalidInput(fmt::format("initializer '{}' is defined twice", tensor.name()));
    if (!inputs.count(tensor.name()))
      MAESTRO_TRY(definitions.add(tensor.name(), "an initializer"));
    MAESTRO_ASSIGN(uint64_t elements, elementCount(tensor));
    MAESTRO_TRY(checkTypedData(tensor, elements));
  }
  if (graph.sparse_initializer_size() > 0)
    return Status::invalidInput("sparse initializers are not supported; store them densely");
  return {};
}

/// Which node produces which name; every name once.
Status collectProducers(const onnx::GraphProto &graph, Definitions &definitions,
                        std::unordered_map<std::string_view, int> &producer) {
  for (int index = 0; index < graph.node_size(); ++index) {
    const onnx::NodeProto &node = graph.node(index);
    MAESTRO_TRY(checkName(node.name(), "a node"));
    MAESTRO_TRY(checkName(moduleScope(node), "a node's module"));
    for (const std::string &output : node.output()) {
      if (output.empty())
        continue;
      MAESTRO_TRY(definitions.add(output, nodeLabel(node)));
      producer.emplace(output, index);
    }
  }
  return {};
}

Status undefinedInput(const onnx::NodeProto &node, const std::string &name, const Definitions &definitions) {
  return Status::invalidInput(fmt::format("{} reads '{}', which nothing defines{}", nodeLabel(node), name,
                                          didYouMean(name, definitions.names())));
}

/// What branches of the node read, that is defined in them or outside; names are checked on the way.
Status collectBranchReads(const onnx::NodeProto &node, std::vector<std::string_view> &names) {
  for (const onnx::AttributeProto &attribute : node.attribute()) {
    if (!attribute.has_g())
      continue;
    for (const onnx::TensorProto &tensor : attribute.g().initializer()) {
      MAESTRO_TRY(checkName(tensor.name(), "an initializer"));
      MAESTRO_ASSIGN(uint64_t elements, elementCount(tensor));
      MAESTRO_TRY(checkTypedData(tensor, elements));
    }
    for (const onnx::NodeProto &inner : attribute.g().node()) {
      MAESTRO_TRY(checkName(inner.name(), "a node"));
      MAESTRO_TRY(checkName(moduleScope(inner), "a node's module"));
      for (const std::string &input : inner.input())
        MAESTRO_TRY(checkName(names.emplace_back(input), "an input"));
      for (const std::string &output : inner.output())
        MAESTRO_TRY(checkName(output, "an output"));
      MAESTRO_TRY(collectBranchReads(inner, names));
    }
  }
  return {};
}

/// The producers of each node's inputs; fails on names that nothing defines.
Status collectDependencies(const onnx::GraphProto &graph, const Definitions &definitions,
                           const std::unordered_map<std::string_view, int> &producer,
                           std::vector<std::vector<int>> &consumers, std::vector<int> &pending) {
  auto readsFrom = [&](int index, std::string_view name) {
    auto found = producer.find(name);
    if (found == producer.end())
      return false;
    consumers[found->second].push_back(index);
    ++pending[index];
    return true;
  };
  for (int index = 0; index < graph.node_size(); ++index) {
    for (const std::string &input : graph.node(index).input())
      if (!input.empty() && !readsFrom(index, input) && !definitions.has(input))
        return undefinedInput(graph.node(index), input, definitions);
    std::vector<std::string_view> byBranches;
    MAESTRO_TRY(collectBranchReads(graph.node(index), byBranches));
    for (std::string_view name : byBranches)
      if (auto found = producer.find(name); found != producer.end() && found->second != index)
        readsFrom(index, name);
  }
  return {};
}

bool isOrdered(const std::vector<std::vector<int>> &consumers) {
  for (size_t index = 0; index < consumers.size(); ++index)
    for (int consumer : consumers[index])
      if (consumer <= static_cast<int>(index))
        return false;
  return true;
}

/// Kahn's algorithm, earliest ready node first; fails on a cycle, naming a node of it.
Status sortNodes(onnx::GraphProto &graph, const std::vector<std::vector<int>> &consumers, std::vector<int> pending) {
  std::set<int> ready;
  for (size_t index = 0; index < pending.size(); ++index)
    if (pending[index] == 0)
      ready.insert(static_cast<int>(index));
  std::vector<int> order;
  while (!ready.empty()) {
    int index = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(index);
    for (int consumer : consumers[index])
      if (--pending[consumer] == 0)
        ready.insert(consumer);
  }
  for (size_t index = 0; index < pending.size(); ++index)
    if (pending[index] > 0)
      return Status::invalidInput(fmt::format("the graph has a cycle through {}; a computation cannot feed itself",
                                              nodeLabel(graph.node(static_cast<int>(index)))));
  google::protobuf::RepeatedPtrField<onnx::NodeProto> sorted;
  for (int index : order)
    sorted.Add()->Swap(graph.mutable_node(index));
  graph.mutable_node()->Swap(&sorted);
  return {};
}

Status checkNodes(onnx::GraphProto &graph, Definitions &definitions) {
  std::unordered_map<std::string_view, int> producer;
  MAESTRO_TRY(collectProducers(graph, definitions, producer));
  std::vector<std::vector<int>> consumers(graph.node_size());
  std::vector<int> pending(graph.node_size(), 0);
  MAESTRO_TRY(collectDependencies(graph, definitions, producer, consumers, pending));
  return isOrdered(consumers) ? Status() : sortNodes(graph, consumers, std::move(pending));
}

Status checkOutputs(const onnx::GraphProto &graph, const Definitions &definitions) {
  if (graph.output_size() == 0)
    return Status::invalidInput("the graph has no output");
  std::unordered_set<std::string_view> seen;
  for (const auto &output : graph.output()) {
    if (!definitions.has(output.name()))
      return Status::invalidInput(fmt::format("graph output '{}' is defined by nothing{}", output.name(),
                                              didYouMean(output.name(), definitions.names())));
    if (!seen.insert(output.name()).second)
      return Status::invalidInput(fmt::format("graph output '{}' is listed twice", output.name()));
  }
  return {};
}

} // namespace

Status checkModel(onnx::ModelProto &model, int64_t &opset) {
  MAESTRO_TRY(checkVersions(model, opset));
  onnx::GraphProto &graph = *model.mutable_graph();
  Definitions definitions;
  MAESTRO_TRY(collectSources(graph, definitions));
  MAESTRO_TRY(checkNodes(graph, definitions));
  return checkOutputs(graph, definitions);
}

} // namespace maestro::planner
