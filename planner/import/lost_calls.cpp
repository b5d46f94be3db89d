#include "planner/import/lost_calls.h"

#include "planner/import/graph_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <initializer_list>

namespace maestro::planner {
namespace {

constexpr std::string_view kDetachLine = ".detach(";

/// "%linear_1 : [num_users=2] = …" -> "linear_1"
std::string callName(std::string_view text) {
  size_t end = text.find(' ');
  return text.empty() || text[0] != '%' || end == std::string_view::npos ? "" : std::string(text.substr(1, end - 1));
}

/// "layer_norm_1" -> "layer_norm"
std::string_view stemOf(std::string_view name) {
  size_t end = name.find_last_not_of("0123456789");
  bool isNumbered = end != std::string_view::npos && end + 1 < name.size() && name[end] == '_';
  return isNumbered ? name.substr(0, end) : name;
}

bool isDetach(std::string_view operand) { return stemOf(operand) == "detach"; }

bool isRandom(const onnx::NodeProto &node) {
  const std::string &type = node.op_type();
  return type == "Dropout" || type.starts_with("Random") || type == "Bernoulli" || type == "Multinomial";
}

/// Whether `type` is one of a few names.
bool isOneOf(std::string_view type, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), type) != names.end();
}

/// Whether the node has no finite value or slope where its input is 0.
bool isSingular(const onnx::NodeProto &node, int input) {
  const std::string &type = node.op_type();
  if (type == "Pow")
    return input == 0 && fxNumber(fxNode(node), 1).value_or(0.0) < 1.0;
  return type == "Div" ? input == 1 : isOneOf(type, {"Log", "Reciprocal", "Sqrt"});
}

/// Whether the node's values are 0 where those of its input are.
bool keepsZeros(const onnx::NodeProto &node) {
  return isOneOf(node.op_type(),
                 {"Abs", "Cast", "Concat", "Expand", "Flatten", "Gather", "Identity", "ReduceMean", "ReduceSum", "Relu",
                  "Reshape", "Slice", "Split", "Sqrt", "Squeeze", "Tile", "Transpose", "Unsqueeze"});
}

/// The lines of a node's stack trace that call detach().
std::vector<std::string_view> detachLines(const onnx::NodeProto &node) {
  std::vector<std::string_view> lines;
  std::string_view trace = stackTrace(node);
  while (!trace.empty()) {
    size_t end = std::min(trace.find('\n'), trace.size());
    if (std::string_view line = trace.substr(0, end); line.find(kDetachLine) != std::string_view::npos)
      lines.push_back(line.substr(line.find_first_not_of(' ')));
    trace.remove_prefix(std::min(end + 1, trace.size()));
  }
  return lines;
}

/// Whether `module` is `other` or inside it.
bool isInside(std::string_view module, std::string_view other) {
  return other.empty() || module == other || (module.starts_with(other) && module[other.size()] == '.');
}

std::string commonModule(const std::string &a, const std::string &b) {
  std::string common = a;
  while (!isInside(b, common)) {
    size_t dot = common.rfind('.');
    common.resize(dot == std::string::npos ? 0 : dot);
  }
  return common;
}

constexpr const char *kRemedy = "export with torch.onnx.export(..., optimize=False)";

} // namespace

LostCalls::LostCalls(const onnx::GraphProto &graph, const GraphSignature &signature)
    : graph(graph), signature(signature) {
  collectCalls();
  collectReaders();
}

void LostCalls::collectCalls() {
  std::set<std::string> initializers;
  for (const auto &tensor : graph.initializer())
    initializers.insert(tensor.name());
  auto describe = [&](const onnx::ValueInfoProto &info) {
    types[info.name()] = info.type().tensor_type().elem_type();
    SignatureEntry entry = describeInput(info, signature);
    if (!entry.node.empty())
      placeholders[info.name()] = entry.node;
    if (isParameterKind(entry.kind))
      parameters[info.name()] = entry.node;
    else if (initializers.count(info.name()))
      constants.insert(info.name());
  };
  for (const auto &info : graph.value_info())
    describe(info);
  for (const auto &info : graph.input())
    describe(info);
  // The user may have named inputs; their order is the signature's.
  std::vector<std::string> userInputs;
  for (const SignatureEntry &entry : signature.inputs) {
    known.insert(entry.node);
    if (entry.kind == "USER_INPUT")
      userInputs.push_back(entry.node);
  }
  size_t next = 0;
  for (const auto &input : graph.input())
    if (!isParameterKind(describeInput(input, signature).kind) && !initializers.count(input.name()) &&
        next < userInputs.size())
      placeholders[input.name()] = userInputs[next++];
  for (const onnx::NodeProto &node : graph.node()) {
    std::string_view text = fxNode(node);
    std::string name = callName(text);
    if (node.op_type() == "Constant")
      constants.insert(node.output().begin(), node.output().end());
    for (const std::string &output : node.output()) {
      producers[output] = &node;
      if (stemOf(output) == "getitem") // One of a call's several results.
        known.insert(output);
    }
    if (name.empty())
      continue;
    known.insert(name);
    Call &call = calls[name];
    if (call.nodes.empty()) {
      call.text = text;
      call.operands = fxOperands(text);
    }
    call.nodes.push_back(&node);
    call.outputs.insert(node.output().begin(), node.output().end());
  }
}

bool LostCalls::isFloatValue(const std::string &value) const {
  auto found = types.find(value);
  std::optional<DType> dtype = found == types.end() ? std::nullopt : dtypeFromOnnx(found->second);
  return !dtype || isFloat(*dtype);
}

/// Whether `value` is the result of the call or the placeholder that texts name so.
bool LostCalls::standsFor(const std::string &value, const std::string &operand) const {
  if (auto placeholder = placeholders.find(value); placeholder != placeholders.end())
    return placeholder->second == operand;
  if (value == operand)
    return isKnown(operand);
  auto call = calls.find(operand);
  return call != calls.end() && call->second.outputs.count(value) != 0;
}

bool LostCalls::dependsOnParameter(const std::string &value, std::set<std::string> &seen) const {
  if (parameters.count(value))
    return true;
  auto producer = producers.find(value);
  if (producer == producers.end() || !seen.insert(value).second)
    return false;
  const auto &inputs = producer->second->input();
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const std::string &input) { return dependsOnParameter(input, seen); });
}

/// A step inside another call of the same operator, of which no parameter is part: equal steps of
/// two calls are one, such as the mask that two attentions make of the same truth values.
bool LostCalls::isSharedStep(const Call &call, const std::string &value) const {
  auto producer = producers.find(value);
  if (producer == producers.end() || isKnown(value))
    return false;
  std::set<std::string> seen;
  return fxTarget(fxNode(*producer->second)) == fxTarget(call.text) && !dependsOnParameter(value, seen);
}

std::set<std::string> LostCalls::unexplained(const Call &call) const {
  std::set<std::string> values;
  for (const onnx::NodeProto *node : call.nodes)
    for (const std::string &input : node->input())
      if (!input.empty() && !call.outputs.count(input) && !constants.count(input) && isFloatValue(input) &&
          !isSharedStep(call, input) &&
          std::none_of(call.operands.begin(), call.operands.end(),
                       [&](const std::string &operand) { return standsFor(input, operand); }))
        values.insert(input);
  return values;
}

void LostCalls::collectReaders() {
  for (const auto &[name, call] : calls) {
    bool lacks = std::any_of(call.operands.begin(), call.operands.end(),
                             [&](const std::string &operand) { return !isKnown(operand); });
    // h * h.detach() reads h twice: nothing is unexplained there, but the call that is lacking says
    // so itself.
    bool detaches = std::any_of(call.operands.begin(), call.operands.end(),
                                [&](const std::string &operand) { return isDetach(operand) && !isKnown(operand); });
    std::set<std::string> values = lacks ? unexplained(call) : std::set<std::string>();
    if (!detaches && values.empty())
      continue;
    readers[name] = modulesAround(call);
    displaced.insert(values.begin(), values.end());
  }
}

/// The innermost modules around the call and each of those calls whose results it reads in
/// another's place.
std::set<std::string> LostCalls::modulesAround(const Call &call) const {
  std::set<std::string> modules, values = unexplained(call);
  for (const onnx::NodeProto *node : call.nodes)
    for (const std::string &input : node->input())
      if (auto producer = producers.find(input);
          producer != producers.end() && !call.outputs.count(input) && (values.empty() || values.count(input)))
        modules.insert(commonModule(moduleScope(*node), moduleScope(*producer->second)));
  if (modules.empty())
    modules.insert(moduleScope(*call.nodes.front()));
  return modules;
}

std::string LostCalls::whereHidden(std::string_view module) const {
  for (const auto &[name, modules] : readers)
    for (const std::string &around : modules)
      if (isInside(module, around) || isInside(around, module))
        return name;
  return "";
}

bool LostCalls::isBesideLost(const onnx::NodeProto &node) const {
  return readers.count(callName(fxNode(node))) ||
         std::any_of(node.output().begin(), node.output().end(),
                     [&](const std::string &output) { return displaced.count(output) != 0; });
}

Status LostCalls::checkRandom() const {
  std::map<std::string, const onnx::NodeProto *> draws;
  for (const onnx::NodeProto &node : graph.node())
    if (isRandom(node))
      for (const std::string &output : node.output())
        draws[output] = &node;
  for (const onnx::NodeProto &node : graph.node()) {
    auto call = calls.find(callName(fxNode(node)));
    if (call == calls.end() || call->second.outputs.empty())
      continue;
    for (const std::string &input : node.input()) {
      auto draw = draws.find(input);
      if (draw == draws.end() || callName(fxNode(*draw->second)) == call->first)
        continue;
      for (const std::string &operand : call->second.operands)
        if (!isKnown(operand))
          return Status::invalidInput(
              fmt::format("node '{}' reads the random draw of node '{}' in place of '{}', which the exporter's "
                          "optimizer took for the same: two draws would be one; {}",
                          node.name(), draw->second->name(), operand, kRemedy));
    }
  }
  return {};
}

std::string LostCalls::lostSum(const Call &call) const {
  for (const std::string &operand : call.operands)
    if (!isKnown(operand) && isOneOf(stemOf(operand), {"add", "add_", "sub", "sub_", "rsub"}))
      return operand;
  return "";
}

Status LostCalls::checkGuards() const {
  std::map<std::string, std::string> unguarded; // Values, and the sums in whose place they are read.
  for (const onnx::NodeProto &node : graph.node()) {
    auto call = calls.find(callName(fxNode(node)));
    std::string sum = call == calls.end() ? "" : lostSum(call->second);
    std::set<std::string> values = sum.empty() ? std::set<std::string>() : unexplained(call->second);
    for (int i = 0; i < node.input_size(); ++i) {
      auto passed = unguarded.find(node.input(i));
      if (passed == unguarded.end() && !values.count(node.input(i)))
        continue;
      const std::string &lost = passed == unguarded.end() ? sum : passed->second;
      if (isSingular(node, i))
        return Status::invalidInput(
            fmt::format("node '{}' ({}) reads '{}' without the small number that '{}' adds to it, which the exporter's "
                        "optimizer took for 0: where that value is 0, there would be no finite result; {}",
                        node.name(), node.op_type(), node.input(i), lost, kRemedy));
      if (keepsZeros(node))
        for (const std::string &output : node.output())
          unguarded.emplace(output, lost);
    }
  }
  return {};
}

bool LostCalls::hasNodeWithoutText() const {
  return std::any_of(graph.node().begin(), graph.node().end(), [&](const onnx::NodeProto &node) {
    return !signature.inputs.empty() && node.op_type() == "Split" && fxNode(node).empty();
  });
}

/// Whether the call is one node that reads its operands one by one, as far as those that are known
/// show.
bool LostCalls::hasOneNodeInOrder(const Call &call) const {
  if (call.nodes.size() != 1 || call.nodes[0]->input_size() != static_cast<int>(call.operands.size()))
    return false;
  for (size_t i = 0; i < call.operands.size(); ++i)
    if (isKnown(call.operands[i]) && !standsFor(call.nodes[0]->input(static_cast<int>(i)), call.operands[i]))
      return false;
  return true;
}

/// Which inputs of `node` are detached; empty where it cannot be told.
std::set<int> LostCalls::detachedInputs(const Call &call, const onnx::NodeProto &node) const {
  std::set<int> inputs;
  if (hasOneNodeInOrder(call)) {
    for (size_t i = 0; i < call.operands.size(); ++i)
      if (!isKnown(call.operands[i]) && isDetach(call.operands[i]))
        inputs.insert(static_cast<int>(i));
    return inputs;
  }
  std::set<std::string> lost;
  for (const std::string &operand : call.operands)
    if (!isKnown(operand))
      lost.insert(operand);
  std::set<std::string> values = unexplained(call);
  if (lost.size() != 1 || values.size() != 1)
    return inputs;
  for (int i = 0; i < node.input_size(); ++i)
    if (values.count(node.input(i)))
      inputs.insert(i);
  // Another node of the call may be the one that reads it.
  if (inputs.empty())
    inputs.insert(-1);
  return inputs;
}

Status LostCalls::addWithDetached(const onnx::NodeProto &node, Nodes &to) const {
  auto call = calls.find(callName(fxNode(node)));
  bool reads = call != calls.end() &&
               std::any_of(call->second.operands.begin(), call->second.operands.end(),
                           [&](const std::string &operand) { return isDetach(operand) && !isKnown(operand); });
  onnx::NodeProto copy = node;
  if (reads) {
    std::set<int> inputs = detachedInputs(call->second, node);
    // Equal parameters may have become one; which one was detached can only be told where the call
    // names it, too.
    bool isUncertain = std::any_of(inputs.begin(), inputs.end(), [&](int input) {
      auto parameter = input < 0 ? parameters.end() : parameters.find(node.input(input));
      return parameter != parameters.end() && std::find(call->second.operands.begin(), call->second.operands.end(),
                                                        parameter->second) == call->second.operands.end();
    });
    if (inputs.empty() || isUncertain)
      return Status::invalidInput(
          fmt::format("node '{}' came from a call that reads the result of detach(), which the exporter's "
                      "optimizer removed, so that gradients would pass; {}",
                      node.name(), kRemedy));
    for (int input : inputs) {
      if (input < 0)
        continue;
      onnx::NodeProto *identity = to.Add();
      identity->set_op_type("Identity");
      identity->set_name(fmt::format("{}.detached{}", node.name(), input));
      identity->add_input(node.input(input));
      identity->add_output(identity->name());
      *identity->mutable_metadata_props() = node.metadata_props();
      for (auto &entry : *identity->mutable_metadata_props())
        if (entry.key() == kFxNodeKey)
          entry.set_value(std::string(kDetachText));
      copy.set_input(input, identity->name());
    }
  }
  *to.Add() = std::move(copy);
  return {};
}

Status LostCalls::checkDetachedLines() const {
  if (!any())
    return {};
  std::map<std::string_view, const onnx::NodeProto *> lines;
  std::set<std::string_view> shown;
  for (const onnx::NodeProto &node : graph.node()) {
    std::vector<std::string_view> own = detachLines(node);
    if (own.empty())
      continue;
    std::string_view text = fxNode(node);
    std::vector<std::string> operands = fxOperands(text);
    bool shows = isDetach(callName(text)) || std::any_of(operands.begin(), operands.end(), isDetach);
    for (std::string_view line : own) {
      lines.try_emplace(line, &node);
      if (shows)
        shown.insert(line);
    }
  }
  for (const auto &[line, node] : lines)
    if (!shown.count(line))
      return Status::invalidInput(fmt::format("node '{}' came from a line that calls detach(), of "
                                              "which the exporter's optimizer left no "
                                              "trace: \"{}\"; gradients would pass; {}",
                                              node->name(), line.substr(0, 200), kRemedy));
  return {};
}

} // namespace maestro::planner
