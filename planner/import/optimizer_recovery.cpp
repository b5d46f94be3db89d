#include "planner/import/optimizer_recovery.h"

#include "planner/import/graph_parameters.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::planner {
namespace {

bool isFloatTensor(const onnx::TensorProto &tensor) {
  auto dtype = dtypeFromOnnx(tensor.data_type());
  return dtype && isFloat(*dtype);
}

/// Calls whose weight stands before the bias, in their text as in the node.
bool isWeightFirst(std::string_view target) {
  for (std::string_view known :
       {"aten.layer_norm.", "aten.native_layer_norm.", "aten.group_norm.", "aten.native_group_norm.", "aten.linear."})
    if (target.starts_with(known))
      return true;
  return false;
}

int64_t attributeOf(const onnx::NodeProto &node, const char *name, int64_t fallback) {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == name)
      return attribute.i();
  return fallback;
}

} // namespace

OptimizerRecovery::OptimizerRecovery(const onnx::GraphProto &graph, const GraphSignature &signature, bool trains)
    : signature(signature), trains(trains) {
  std::map<std::string, const onnx::ValueInfoProto *> infos;
  for (const auto &info : graph.value_info())
    infos[info.name()] = &info;
  for (const onnx::TensorProto &tensor : graph.initializer()) {
    Tensor &entry = tensors[tensor.name()];
    entry.proto = &tensor;
    if (auto info = infos.find(tensor.name()); info != infos.end()) {
      entry.entry = describeInput(*info->second, signature);
      entry.madeFrom = parameterIn(foldedFrom(*info->second));
    }
    if (isParameterKind(entry.entry.kind))
      byTarget[entry.entry.target] = tensor.name();
    // A plain export keeps every constant in a node; initializers without a kind are the optimizer's.
    else if (!signature.inputs.empty())
      needed = true;
  }
  std::set<std::string> unvalued; // Of a graph without weights: nothing removed them.
  for (const auto &input : graph.input())
    if (SignatureEntry entry = describeInput(input, signature); isParameterKind(entry.kind)) {
      unvalued.insert(entry.target);
      weightless[input.name()] = entry.node;
    }
  for (const SignatureEntry &entry : signature.inputs)
    needed |= !byTarget.empty() && entry.kind == "PARAMETER" && !byTarget.count(entry.target) &&
              !unvalued.count(entry.target);
}

/// The first of these names that is a parameter's.
std::string OptimizerRecovery::parameterIn(const std::vector<std::string> &names) const {
  for (const std::string &name : names)
    for (const SignatureEntry &entry : signature.inputs)
      if (entry.kind == "PARAMETER" && entry.target == name)
        return name;
  return "";
}

const OptimizerRecovery::Tensor *OptimizerRecovery::find(const std::string &name) const {
  auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

Status OptimizerRecovery::refuse(const onnx::NodeProto &node, const std::string &tensor) const {
  return Status::invalidInput(fmt::format(
      "node '{}' reads '{}', which the exporter's optimizer made of a parameter in a way that cannot be undone; export "
      "with torch.onnx.export(..., optimize=False)",
      node.name(), tensor));
}

const std::string &OptimizerRecovery::recover(const std::string &name, const onnx::TensorProto *source,
                                              std::vector<int64_t> shape, int32_t elementType, bool transposed) {
  const SignatureEntry *entry = signature.input(name);
  for (const RecoveredParameter &known : recovered)
    if (known.entry.node == name)
      return known.value;
  recovered.push_back({"recovered." + name, *entry, std::move(shape), elementType, source, transposed});
  return recovered.back().value;
}

/// One parameter that stands for several equal ones: each node gets its own.
Status OptimizerRecovery::splitMerged(onnx::NodeProto &node, const std::vector<int> &inputs,
                                      const std::vector<std::string> &names) {
  if (inputs.size() > names.size() || (inputs.size() > 1 && !isWeightFirst(fxTarget(fxNode(node)))))
    return refuse(node, node.input(inputs[0]));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const onnx::TensorProto &merged = *find(node.input(inputs[i]))->proto;
    node.set_input(inputs[i],
                   recover(names[i], &merged, {merged.dims().begin(), merged.dims().end()}, merged.data_type(), false));
  }
  return {};
}

/// A linear layer's weight, stored as its transpose.
Status OptimizerRecovery::restoreTransposed(onnx::NodeProto &node, int input, const std::string &name) {
  const onnx::TensorProto &folded = *find(node.input(input))->proto;
  bool isLinear = fxNode(node).find("aten.linear.") != std::string_view::npos && node.op_type() == "MatMul" &&
                  input == 1 && folded.dims_size() == 2;
  if (!isLinear)
    return refuse(node, folded.name());
  const SignatureEntry *entry = signature.input(name);
  auto kept = byTarget.find(entry->target);
  std::string parameter = kept != byTarget.end()
                              ? kept->second
                              : recover(name, &folded, {folded.dims(1), folded.dims(0)}, folded.data_type(), true);
  auto [transpose, fresh] = transposes.try_emplace(parameter, parameter + ".transposed");
  if (fresh) {
    onnx::NodeProto *added = rewritten.Add();
    added->set_op_type("Transpose");
    added->set_name(node.name() + ".weight");
    *added->mutable_metadata_props() = node.metadata_props();
    added->add_input(parameter);
    added->add_output(transpose->second);
    onnx::AttributeProto *permutation = added->add_attribute();
    permutation->set_name("perm");
    permutation->set_type(onnx::AttributeProto::INTS);
    permutation->add_ints(1);
    permutation->add_ints(0);
  }
  node.set_input(input, transpose->second);
  return {};
}

/// A bias that was all zero and was deleted.
Status OptimizerRecovery::restoreZeroBias(onnx::NodeProto &node, const std::string &name) {
  const Tensor *weight = node.input_size() == 2 ? find(node.input(1)) : nullptr;
  bool isGemm = node.op_type() == "Gemm", isConv = node.op_type() == "Conv";
  if (!weight || !(isGemm || isConv) || weight->proto->dims_size() < 2)
    return Status::invalidInput(fmt::format("node '{}' came from a call that reads the parameter '{}', which the "
                                            "exporter's optimizer removed; export with torch.onnx.export(..., "
                                            "optimize=False)",
                                            node.name(), signature.input(name)->target));
  bool rowsAreOutputs = isConv || attributeOf(node, "transB", 0) != 0;
  int64_t size = weight->proto->dims(rowsAreOutputs ? 0 : 1);
  node.add_input(recover(name, nullptr, {size}, weight->proto->data_type(), false));
  return {};
}

Status OptimizerRecovery::rewriteNode(onnx::NodeProto &node) {
  // The parameters of the call that this node itself does not read by name.
  std::vector<std::string> missing;
  std::set<std::string> present;
  std::vector<int> merged, folded;
  for (int i = 0; i < node.input_size(); ++i)
    if (const Tensor *tensor = find(node.input(i)))
      present.insert(tensor->entry.node);
    else if (auto input = weightless.find(node.input(i)); input != weightless.end())
      present.insert(input->second);
  std::vector<std::string> operands = fxOperands(fxNode(node));
  for (const std::string &operand : operands)
    if (const SignatureEntry *entry = signature.input(operand))
      if (isParameterKind(entry->kind) && !present.count(operand) &&
          std::find(missing.begin(), missing.end(), operand) == missing.end())
        missing.push_back(operand);
  // linear(x, weight, bias) became MatMul and Add, and the Add reads the bias alone.
  bool addsBias = node.op_type() == "Add" && fxNode(node).find("aten.linear.") != std::string_view::npos;
  if (addsBias && operands.size() > 1)
    std::erase(missing, operands[1]);
  for (int i = 0; i < node.input_size(); ++i) {
    const Tensor *tensor = find(node.input(i));
    if (!tensor || !isFloatTensor(*tensor->proto))
      continue;
    bool named = std::find(operands.begin(), operands.end(), tensor->entry.node) != operands.end();
    if (tensor->entry.kind.empty() && !missing.empty() && tensor->proto->dims_size() >= 2)
      folded.push_back(i);
    else if (isParameterKind(tensor->entry.kind) && !named && !missing.empty())
      merged.push_back(i);
    else if (trains && tensor->entry.kind.empty() && !tensor->madeFrom.empty())
      return Status::invalidInput(
          fmt::format("node '{}' reads '{}', which the exporter's optimizer computed from the parameter '{}', which "
                      "could not train; "
                      "export with torch.onnx.export(..., optimize=False), or freeze the component",
                      node.name(), tensor->proto->name(), tensor->madeFrom));
  }
  if (!folded.empty()) {
    if (folded.size() > 1 || missing.empty())
      return refuse(node, node.input(folded[0]));
    MAESTRO_TRY(restoreTransposed(node, folded[0], missing[0]));
    missing.erase(missing.begin());
  }
  if (!merged.empty()) {
    MAESTRO_TRY(splitMerged(node, merged, missing));
    missing.erase(missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(merged.size()));
  }
  bool takesBias = node.op_type() == "Gemm" || node.op_type() == "Conv";
  if (!missing.empty() && takesBias && node.input_size() == 2)
    return restoreZeroBias(node, missing[0]);
  return {};
}

/// Which of the equal parameters a node without a text read cannot be told.
Status OptimizerRecovery::checkWithoutText() const {
  for (const onnx::NodeProto &node : rewritten)
    for (const std::string &input : node.input())
      for (const RecoveredParameter &parameter : recovered)
        if (const Tensor *tensor = find(input); tensor && fxNode(node).empty() && tensor->proto == parameter.source)
          return refuse(node, input);
  return {};
}

Status OptimizerRecovery::run(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes) {
  for (const onnx::NodeProto &each : nodes) {
    onnx::NodeProto node = each;
    MAESTRO_TRY(rewriteNode(node));
    *rewritten.Add() = std::move(node);
  }
  return checkWithoutText();
}

} // namespace maestro::planner
