#include "planner/import/graph_parameters.h"

#include "planner/import/custom_functions.h"
#include "planner/import/half_precision.h"
#include "planner/import/wrapped_blocks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace maestro::planner {
namespace {

/// "transformer.wte.weight" -> "transformer.wte"
std::string_view moduleOf(std::string_view parameter) {
  size_t dot = parameter.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : parameter.substr(0, dot);
}

/// "transformer.wte.weight" -> "weight"
std::string_view leafOf(std::string_view parameter) { return parameter.substr(parameter.rfind('.') + 1); }

/// Whether the node is what torch.nn.Linear or Embedding itself computes, of its own parameters.
bool isOfPlainLayer(const onnx::NodeProto &node) {
  std::string_view trace = stackTrace(node), innermost = trace.substr(std::min(trace.rfind("File \""), trace.size()));
  return innermost.find("/torch/nn/modules/sparse.py\"") != std::string_view::npos ||
         innermost.find("/torch/nn/modules/linear.py\"") != std::string_view::npos;
}

} // namespace

bool isParameterKind(std::string_view kind) { return kind == "PARAMETER" || kind == "BUFFER"; }

GraphParameters::GraphParameters(ImportState &state, Emitter &emitter, const GraphSignature &signature)
    : state(state), emitter(emitter), signature(signature), graphNodes(&state.file.graph().node()),
      recovery(state.file.graph(), signature, !state.options.frozen), lost(state.file.graph(), signature) {
  for (const auto &info : state.file.graph().value_info())
    infos[info.name()] = &info;
  for (const auto &info : state.file.graph().input())
    infos[info.name()] = &info;
  for (const auto &[name, info] : infos) {
    SignatureEntry entry = describeInput(*info, signature);
    described |= !entry.kind.empty();
    auto dtype = dtypeFromOnnx(info->type().tensor_type().elem_type());
    if (entry.kind == "PARAMETER" && dtype && isHalfPrecision(*dtype))
      markWidening(state.function);
  }
}

SignatureEntry GraphParameters::describe(const std::string &name) const {
  auto found = infos.find(name);
  return found == infos.end() ? SignatureEntry() : describeInput(*found->second, signature);
}

/// The tied names that the file itself says (maestro.export).
void GraphParameters::collectSaidAliases(std::set<std::string> &present) {
  for (const auto &[name, info] : infos)
    if (SignatureEntry entry = describeInput(*info, signature); !entry.aliases.empty()) {
      present.insert(entry.aliases.begin(), entry.aliases.end());
      aliases.emplace(name, std::move(entry.aliases));
    }
}

/// Of tied parameters the graph keeps one. Another one is in the signature alone; it belongs to the module
/// whose node reads the one that was kept.
void GraphParameters::collectAliases() {
  std::set<std::string> present;
  for (const auto &tensor : state.file.graph().initializer())
    present.insert(tensor.name());
  for (const auto &input : state.file.graph().input())
    present.insert(input.name());
  for (const auto &[name, info] : infos)
    if (present.count(name))
      present.insert(describeInput(*info, signature).target);
  for (const RecoveredParameter &parameter : recovery.parameters())
    present.insert(parameter.entry.target);
  collectSaidAliases(present);
  std::vector<const SignatureEntry *> absent;
  for (const SignatureEntry &entry : signature.inputs)
    if (isParameterKind(entry.kind) && !present.count(entry.target))
      absent.push_back(&entry);
  if (absent.empty())
    return;
  std::unordered_map<std::string, std::vector<const onnx::NodeProto *>> byScope;
  for (const onnx::NodeProto &node : *graphNodes)
    byScope[moduleScope(node)].push_back(&node);
  std::vector<const SignatureEntry *> unread;
  for (const SignatureEntry *entry : absent) {
    if (const std::string *kept = aliasByScope(*entry, byScope[std::string(moduleOf(entry->target))]))
      aliases[*kept].push_back(entry->target);
    else if (std::vector<std::string> same = namesakes(*entry);
             same.size() == 1 && lost.whereHidden(moduleOf(entry->target)).empty())
      aliases[same[0]].push_back(entry->target);
    else if (entry->kind == "PARAMETER" || entry->persistent)
      unread.push_back(entry);
  }
  // T5's `shared`: the only parameter that nothing reads is the one that is tied.
  if (unread.size() == 1 && aliases.size() == 1 && lost.whereHidden(moduleOf(unread[0]->target)).empty()) {
    aliases.begin()->second.push_back(unread[0]->target);
    unread.clear();
  }
  for (const SignatureEntry *entry : unread) {
    absentees.push_back(entry->target);
    if (entry->kind == "PARAMETER")
      absentParameters.push_back(entry->target);
  }
}

/// What a node of the absent parameter's module reads in its place, by the node and by the text of
/// its call; or null. A module reads what is in the modules inside it, too (nn.MultiheadAttention
/// out_proj.weight); and a call that is lost may have been what read the absent one.
const std::string *GraphParameters::aliasByScope(const SignatureEntry &entry,
                                                 const std::vector<const onnx::NodeProto *> &nodes) const {
  std::string_view module = moduleOf(entry.target);
  bool isHidden = !lost.whereHidden(module).empty();
  for (const onnx::NodeProto *node : nodes) {
    std::vector<std::string> operands = fxOperands(fxNode(*node));
    for (const std::string &input : node->input()) {
      SignatureEntry read = describe(input);
      bool isNamed = operands.empty() || std::find(operands.begin(), operands.end(), read.node) != operands.end();
      bool isInside = module.empty() || read.target.starts_with(std::string(module) + ".");
      bool isNamesake =
          leafOf(read.target) == leafOf(entry.target) && (isOfPlainLayer(*node) || !lost.isBesideLost(*node));
      if (isParameterKind(read.kind) && isNamed && !isInside && (isNamesake || !isHidden))
        return &input;
    }
  }
  return nullptr;
}

/// For a tied parameter whose own module computes nothing: the parameters of its name in modules
/// right inside that, "cls.predictions.decoder.bias" for "cls.predictions.bias".
std::vector<std::string> GraphParameters::namesakes(const SignatureEntry &entry) const {
  std::string_view module = moduleOf(entry.target);
  std::string_view leaf = leafOf(entry.target);
  std::vector<std::string> candidates;
  for (const auto &[name, info] : infos) {
    SignatureEntry other = describe(name);
    std::string_view inner = moduleOf(other.target);
    if (isParameterKind(other.kind) && !module.empty() && moduleOf(inner) == module &&
        other.target == std::string(inner) + "." + std::string(leaf))
      candidates.push_back(name);
  }
  return candidates;
}

/// A parameter that the file does not contain, where calls are missing that may have read it, would
/// not be trained.
Status GraphParameters::refuseLost() const {
  for (const std::string &name : absentParameters)
    if (std::string reader = lost.whereHidden(moduleOf(name)); !reader.empty() && !state.options.frozen)
      return Status::invalidInput(
          fmt::format("the graph does not contain the parameter '{}', and the exporter's optimizer "
                      "took out calls that may have read it, such as "
                      "one whose result '{}' was to read (two equal layers of one input become "
                      "one, a gate of 1.0 none): it would not be trained; "
                      "export with torch.onnx.export(..., optimize=False), or freeze the component",
                      name, reader));
  return {};
}

/// LLaVA reads its vision tower's last layer but one: the last is not in the file, and so in no checkpoint of ours.
void GraphParameters::noteAbsentees() const {
  if (absentees.empty())
    return;
  size_t shown = std::min<size_t>(absentees.size(), 2);
  std::string names =
      fmt::format("'{}'", fmt::join(absentees.begin(), absentees.begin() + static_cast<ptrdiff_t>(shown), "', '"));
  if (absentees.size() > shown)
    names += fmt::format(" and {} more", absentees.size() - shown);
  state.notes.push_back(
      fmt::format("the graph does not contain the parameters {}; checkpoints will lack them, too", names));
}

/// Parameters that PyTorch keeps fixed. A component that is frozen as a whole says so itself.
void GraphParameters::noteFixed() const {
  if (fixed.empty() || state.options.frozen)
    return;
  size_t shown = std::min<size_t>(fixed.size(), 3);
  std::string names = fmt::format("{}", fmt::join(fixed.begin(), fixed.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (fixed.size() > shown)
    names += fmt::format(" and {} more", fixed.size() - shown);
  state.notes.push_back("kept as it is, by requires_grad=False: " + names);
}

void GraphParameters::collectStatistics() {
  for (const onnx::NodeProto &node : *graphNodes) {
    if (node.op_type() == "BatchNormalization")
      for (int i = 3; i < std::min(5, node.input_size()); ++i)
        statistics.insert(node.input(i));
    if (node.op_type() == "Resize") // Its scales and region.
      for (int i = 1; i < node.input_size(); ++i)
        settings.insert(node.input(i));
  }
}

static void addReads(const onnx::NodeProto &node, std::set<std::string> &reads) {
  reads.insert(node.input().begin(), node.input().end());
  for (const onnx::AttributeProto &attribute : node.attribute())
    for (const onnx::NodeProto &inner : attribute.g().node()) // Of a branch.
      addReads(inner, reads);
}

void GraphParameters::collectReads() {
  for (const onnx::NodeProto &node : *graphNodes)
    addReads(node, reads);
  for (const auto &output : state.file.graph().output())
    reads.insert(output.name());
}

Status GraphParameters::undoOptimizer() {
  MAESTRO_TRY(lost.checkRandom());
  MAESTRO_TRY(lost.checkGuards());
  if (lost.any() && !state.options.frozen) {
    MAESTRO_TRY(lost.checkDetachedLines());
    for (const onnx::NodeProto &node : *graphNodes)
      MAESTRO_TRY(lost.addWithDetached(node, detached));
    graphNodes = &detached;
  }
  if (!state.options.frozen && (lost.any() || lost.hasNodeWithoutText()))
    state.notes.push_back(
        "the exporter's optimizer took out calls: were one of them a detach() whose result another of "
        "them read, gradients would pass; export with optimize=False to be sure");
  if (!state.options.frozen) {
    MAESTRO_TRY(checkWrappedBlocks(*graphNodes, state.file.graph(), signature));
    MAESTRO_TRY(checkCustomFunctions(*graphNodes));
  }
  if (recovery.isNeeded()) {
    MAESTRO_TRY(recovery.run(*graphNodes));
    graphNodes = &recovery.nodes();
  }
  return {};
}

Status GraphParameters::add(Scope &scope) {
  MAESTRO_TRY(undoOptimizer());
  for (const RecoveredParameter &parameter : recovery.parameters())
    MAESTRO_TRY(addRecovered(parameter, scope).withContext(fmt::format("parameter '{}'", parameter.entry.target)));
  if (!recovery.parameters().empty())
    state.notes.push_back(fmt::format("recovered {} parameters that the exporter's optimizer had folded, merged or "
                                      "removed; export with optimize=False to avoid this",
                                      recovery.parameters().size()));
  collectAliases();
  MAESTRO_TRY(refuseLost());
  noteAbsentees();
  collectReads();
  collectStatistics();
  std::set<std::string_view> valued;
  for (const auto &tensor : state.file.graph().initializer()) {
    valued.insert(tensor.name());
    MAESTRO_TRY(addInitializer(tensor, scope).withContext(fmt::format("initializer '{}'", tensor.name())));
  }
  for (const auto &input : state.file.graph().input())
    if (!valued.count(input.name()) && isParameterKind(describe(input.name()).kind))
      MAESTRO_TRY(addWeightless(input, scope).withContext(fmt::format("graph input '{}'", input.name())));
  noteFixed();
  return {};
}

Status GraphParameters::addParameter(const std::string &name, nn::TensorType type, ParameterInfo info, Scope &scope) {
  if (auto found = aliases.find(name); found != aliases.end())
    info.aliases = found->second;
  if (info.kind == ParameterKind::Parameter && !info.requiresGrad)
    fixed.push_back(info.name);
  scope[name] = ImportedValue::of(state.addParameter(type, info));
  return {};
}

Status GraphParameters::addConstant(const onnx::TensorProto &tensor, Scope &scope) {
  ImportedValue &value = scope[tensor.name()];
  MAESTRO_ASSIGN(value, state.constant(tensor, tensor.name(), emitter));
  if (!willWiden(state.function) || !value.folded || value.folded->size() != 1)
    return {};
  std::vector<const onnx::NodeProto *> readers;
  std::vector<int64_t> sizes; // An attention's scale is multiplied with what has its head size
                              // among the last two dims.
  for (const onnx::NodeProto &node : *graphNodes) {
    if (std::find(node.input().begin(), node.input().end(), tensor.name()) == node.input().end())
      continue;
    readers.push_back(&node);
    for (const std::string &input : node.input())
      if (auto info = infos.find(input); info != infos.end() && input != tensor.name()) {
        const auto &dims = info->second->type().tensor_type().shape().dim();
        for (int i = std::max(0, dims.size() - 2); i < dims.size(); ++i)
          if (dims.Get(i).has_dim_value())
            sizes.push_back(dims.Get(i).dim_value());
      }
  }
  restoreRounded(value, readers, sizes, state.function, emitter);
  return {};
}

Status GraphParameters::addInitializer(const onnx::TensorProto &tensor, Scope &scope) {
  SignatureEntry entry = describe(tensor.name());
  auto dtype = dtypeFromOnnx(tensor.data_type());
  if (!dtype)
    return Status::invalidInput(fmt::format("element type {} is not supported", onnxTypeName(tensor.data_type())));
  bool isStatistic = statistics.count(tensor.name()) != 0;
  bool isGuessed =
      !described && isFloat(*dtype) && (tensor.dims_size() > 0 || isStatistic) && !settings.count(tensor.name());
  if (!isParameterKind(entry.kind) && !reads.count(tensor.name()))
    return {};
  if (!isParameterKind(entry.kind) && !isGuessed) {
    return addConstant(tensor, scope);
  }
  ParameterInfo info;
  info.name = entry.target.empty() ? tensor.name() : entry.target;
  info.kind = entry.kind == "BUFFER" || (isGuessed && isStatistic) ? ParameterKind::Buffer : ParameterKind::Parameter;
  info.persistent = entry.persistent;
  info.requiresGrad = entry.requiresGrad;
  MAESTRO_ASSIGN(info.source, state.file.locate(tensor));
  if (!info.source) {
    // Values in typed fields have no place in the file that a plan could name.
    MAESTRO_ASSIGN(scope[tensor.name()], state.constant(tensor, tensor.name(), emitter));
    bool isEmpty = std::find(tensor.dims().begin(), tensor.dims().end(), 0) != tensor.dims().end();
    if (isEmpty)
      state.notes.push_back(fmt::format("'{}' has no elements: checkpoints leave it out", info.name));
    if (info.kind == ParameterKind::Parameter && !isEmpty)
      return Status::invalidInput(
          "a parameter's values stand in typed fields (not raw_data); save the model again with "
          "external data");
    return {};
  }
  Shape shape(tensor.dims().begin(), tensor.dims().end());
  return addParameter(tensor.name(), emitter.type(shape, *dtype), std::move(info), scope);
}

Status GraphParameters::addRecovered(const RecoveredParameter &parameter, Scope &scope) {
  ParameterInfo info;
  info.name = parameter.entry.target;
  info.kind = parameter.entry.kind == "BUFFER" ? ParameterKind::Buffer : ParameterKind::Parameter;
  info.persistent = parameter.entry.persistent;
  info.transposed = parameter.transposed;
  info.zeros = parameter.source == nullptr;
  if (parameter.source) {
    MAESTRO_ASSIGN(info.source, state.file.locate(*parameter.source));
  }
  Shape shape(parameter.shape.begin(), parameter.shape.end());
  return addParameter(parameter.value, emitter.type(shape, *dtypeFromOnnx(parameter.elementType)), std::move(info),
                      scope);
}

Status GraphParameters::addWeightless(const onnx::ValueInfoProto &input, Scope &scope) {
  SignatureEntry entry = describe(input.name());
  const auto &declared = input.type().tensor_type();
  auto dtype = dtypeFromOnnx(declared.elem_type());
  if (!dtype || !input.type().has_tensor_type())
    return Status::invalidInput(fmt::format("element type {} is not supported", onnxTypeName(declared.elem_type())));
  Shape shape;
  for (const auto &dim : declared.shape().dim()) {
    if (!dim.has_dim_value() || dim.dim_value() < 0)
      return Status::invalidInput("a parameter must have constant dims");
    shape.push_back(DimExpr(dim.dim_value()));
  }
  ParameterInfo info;
  info.name = entry.target.empty() ? input.name() : entry.target;
  info.kind = entry.kind == "BUFFER" ? ParameterKind::Buffer : ParameterKind::Parameter;
  info.persistent = entry.persistent;
  info.requiresGrad = entry.requiresGrad;
  return addParameter(input.name(), emitter.type(shape, *dtype), std::move(info), scope);
}

} // namespace maestro::planner
