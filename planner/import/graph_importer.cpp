#include "planner/import/graph_importer.h"

#include "planner/import/metadata.h"
#include "planner/import/op_table.h"

#include <fmt/format.h>
#include <onnx/defs/schema.h>

namespace maestro::planner {
namespace {

/// Functions may call functions; deeper nesting is a cycle.
constexpr int kMaxFunctionDepth = 16;

mlir::Location locationOf(const onnx::NodeProto &node, mlir::MLIRContext *context) {
  auto scope = mlir::NameLoc::get(mlir::StringAttr::get(context, moduleScope(node)));
  return mlir::NameLoc::get(mlir::StringAttr::get(context, node.name().empty() ? node.op_type() : node.name()), scope);
}

std::string describe(const onnx::NodeProto &node) {
  std::string scope = moduleScope(node);
  std::string text = fmt::format("node '{}' ({}", node.name(), node.op_type());
  if (!scope.empty())
    text += fmt::format(", in module '{}'", scope);
  return text + ")";
}

/// `node` of a function body with references to the caller's attributes replaced by their values.
onnx::NodeProto withAttributes(const onnx::NodeProto &node, const onnx::NodeProto &caller,
                               const std::vector<onnx::AttributeProto> &defaults) {
  onnx::NodeProto copy = node;
  copy.clear_attribute();
  for (const onnx::AttributeProto &attribute : node.attribute()) {
    if (attribute.ref_attr_name().empty()) {
      *copy.add_attribute() = attribute;
      continue;
    }
    auto give = [&](const auto &from) {
      for (const onnx::AttributeProto &value : from)
        if (value.name() == attribute.ref_attr_name()) {
          onnx::AttributeProto *added = copy.add_attribute();
          *added = value;
          added->set_name(attribute.name());
          return true;
        }
      return false;
    };
    if (!give(caller.attribute()))
      give(defaults);
  }
  return copy;
}

/// An operator's own number of operands and results; import functions rely on it.
Status checkArity(const onnx::NodeProto &node, const onnx::OpSchema &schema) {
  auto check = [&](std::string_view what, int count, int least, int most) {
    if (count >= least && count <= most)
      return Status();
    return Status::invalidInput(fmt::format("has {} {}, {} {}{}", count, what, node.op_type(),
                                            count < least ? "needs at least " : "takes at most ",
                                            count < least ? least : most));
  };
  MAESTRO_TRY(check("inputs", node.input_size(), schema.min_input(), schema.max_input()));
  return check("outputs", node.output_size(), schema.min_output(), schema.max_output());
}

std::vector<onnx::AttributeProto> defaultAttributes(const onnx::FunctionProto &function, const onnx::OpSchema *schema) {
  std::vector<onnx::AttributeProto> defaults(function.attribute_proto().begin(), function.attribute_proto().end());
  if (schema)
    for (const auto &[name, attribute] : schema->attributes())
      if (attribute.default_value.has_name())
        defaults.push_back(attribute.default_value);
  return defaults;
}

int64_t opsetOf(const onnx::FunctionProto &function, int64_t fallback) {
  for (const auto &import : function.opset_import())
    if (import.domain().empty() || import.domain() == "ai.onnx")
      return import.version();
  return fallback;
}

int32_t onnxType(DType dtype) {
  for (int32_t type = 1; type < 32; ++type)
    if (dtypeFromOnnx(type) == dtype)
      return type;
  return 0;
}

/// What a function's builder may ask of the node's inputs.
std::vector<onnx::TypeProto> inputTypes(NodeContext &context) {
  std::vector<onnx::TypeProto> types;
  for (int i = 0; i < context.inputCount(); ++i) {
    onnx::TypeProto &type = types.emplace_back();
    auto shape = context.has(i) ? context.shape(i) : Result<Shape>(Status::internal("absent"));
    auto dtype = context.has(i) ? context.dtype(i) : Result<DType>(Status::internal("absent"));
    if (!shape || !dtype)
      continue;
    type.mutable_tensor_type()->set_elem_type(onnxType(*dtype));
    type.mutable_tensor_type()->mutable_shape();
    for (const DimExpr &dim : *shape) {
      auto *added = type.mutable_tensor_type()->mutable_shape()->add_dim();
      if (auto constant = dim.asConstant())
        added->set_dim_value(*constant);
      else
        added->set_dim_param(dim.str());
    }
  }
  return types;
}

/// Attention whose scores are read, or whose lengths are data: its definition serves, at the price of keeping the
/// scores in memory.
bool needsDefinition(const onnx::NodeProto &node) {
  auto reads = [](const auto &names, int index) { return names.size() > index && !names.Get(index).empty(); };
  return node.op_type() == "Attention" && (reads(node.output(), 3) || reads(node.input(), 6));
}

} // namespace

Status GraphImporter::importNode(const onnx::NodeProto &node, int64_t opset, Scope &scope) {
  mlir::Location before = emitter.location;
  // Inside a function body the caller's place says more than the body's.
  if (depth == 0)
    emitter.location = locationOf(node, emitter.builder.getContext());
  Status status = dispatch(node, opset, scope);
  emitter.location = before;
  return std::move(status).withContext(describe(node));
}

Status GraphImporter::dispatch(const onnx::NodeProto &node, int64_t opset, Scope &scope) {
  for (const onnx::FunctionProto &function : state.file.model().functions())
    if (function.name() == node.op_type() && function.domain() == node.domain())
      return inlineFunction(function, node, opset, nullptr, scope);
  std::string domain = node.domain() == "ai.onnx" ? "" : node.domain();
  if (isEmbeddingBag(node)) {
    NodeContext context(node, 1, scope, emitter, state);
    return importEmbeddingBag(context);
  }
  if (node.op_type() == "If" && domain.empty())
    if (const onnx::GraphProto *branch = knownBranch(node, scope))
      return inlineBranch(*branch, node, opset, scope);
  const onnx::OpSchema *schema = onnx::OpSchemaRegistry::Schema(node.op_type(), static_cast<int>(opset), domain);
  if (!schema || schema->deprecated())
    return unsupported(node, opset);
  MAESTRO_TRY(checkArity(node, *schema));
  if (const OpEntry *entry = findOp(domain, node.op_type(), schema->since_version()); entry && !needsDefinition(node)) {
    NodeContext context(node, schema->since_version(), scope, emitter, state);
    return entry->import(context);
  }
  bool found = false;
  Status status = inlineSchemaFunction(*schema, node, opset, scope, found);
  return found ? std::move(status) : unsupported(node, opset);
}

/// The branch that shapes and constants choose; null where data do.
const onnx::GraphProto *GraphImporter::knownBranch(const onnx::NodeProto &node, Scope &scope) const {
  auto condition = node.input_size() == 1 ? scope.find(node.input(0)) : scope.end();
  if (condition == scope.end() || !condition->second.folded || condition->second.folded->size() != 1)
    return nullptr;
  std::optional<int64_t> value = condition->second.folded->asInteger(0);
  if (!value)
    return nullptr;
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (attribute.name() == (*value ? "then_branch" : "else_branch") && attribute.has_g())
      return &attribute.g();
  return nullptr;
}

/// A branch sees what stands before its node, and leaves its results alone.
Status GraphImporter::inlineBranch(const onnx::GraphProto &branch, const onnx::NodeProto &node, int64_t opset,
                                   Scope &scope) {
  if (depth >= kMaxFunctionDepth)
    return Status::invalidInput(fmt::format("branches lie inside each other more than {} deep", kMaxFunctionDepth));
  if (branch.output_size() != node.output_size())
    return Status::invalidInput(
        fmt::format("has {} results, and its branch {}", node.output_size(), branch.output_size()));
  Scope inner = scope;
  for (const onnx::TensorProto &tensor : branch.initializer()) {
    MAESTRO_ASSIGN(inner[tensor.name()], state.constant(tensor, tensor.name(), emitter));
  }
  ++depth;
  Status status = importNodes(branch.node(), opset, inner);
  --depth;
  MAESTRO_TRY(std::move(status));
  for (int i = 0; i < node.output_size(); ++i) {
    auto found = inner.find(branch.output(i).name());
    if (found == inner.end())
      return Status::invalidInput(fmt::format("result {} of its branch is defined by nothing", i));
    if (!node.output(i).empty())
      scope[node.output(i)] = found->second;
  }
  return {};
}

Status GraphImporter::unsupported(const onnx::NodeProto &node, int64_t opset) const {
  std::string domain = node.domain().empty() ? "ai.onnx" : node.domain();
  const char *remedy = "replace it in the model, or export with another opset_version";
  for (const char *control : {"If", "Loop", "Scan"})
    if (node.op_type() == control)
      remedy = "control flow that depends on data is not supported; export a graph without it (torch.export unrolls "
               "Python loops)";
  return Status::invalidInput(fmt::format("operator '{}' of domain '{}', operator set {}, is not supported; {}",
                                          node.op_type(), domain, opset, remedy));
}

Status GraphImporter::inlineSchemaFunction(const onnx::OpSchema &schema, const onnx::NodeProto &node, int64_t opset,
                                           Scope &scope, bool &found) {
  onnx::FunctionProto built;
  const onnx::FunctionProto *function = nullptr;
  try {
    if (schema.HasFunction())
      function = schema.GetFunction(static_cast<int>(opset));
    if (!function && schema.HasContextDependentFunction()) {
      NodeContext context(node, schema.since_version(), scope, emitter, state);
      onnx::FunctionBodyBuildContextImpl types(node, inputTypes(context));
      if (schema.BuildContextDependentFunction(types, built, static_cast<int>(opset)))
        function = &built;
    }
  } catch (const std::exception &error) {
    found = true;
    return Status::invalidInput(fmt::format("its definition does not fit here: {}", error.what()));
  }
  if (!function)
    return {};
  found = true;
  return inlineFunction(*function, node, opset, &schema, scope);
}

Status GraphImporter::inlineFunction(const onnx::FunctionProto &function, const onnx::NodeProto &node, int64_t opset,
                                     const onnx::OpSchema *schema, Scope &scope) {
  if (depth >= kMaxFunctionDepth)
    return Status::invalidInput(fmt::format("functions call each other more than {} deep", kMaxFunctionDepth));
  Scope inner;
  for (int i = 0; i < function.input_size() && i < node.input_size(); ++i)
    if (auto found = scope.find(node.input(i)); found != scope.end())
      inner[function.input(i)] = found->second;
  auto defaults = defaultAttributes(function, schema);
  std::vector<onnx::NodeProto> body;
  for (const onnx::NodeProto &each : function.node())
    body.push_back(withAttributes(each, node, defaults));
  // An absent optional input is absent in the body, too.
  for (onnx::NodeProto &each : body)
    for (std::string &input : *each.mutable_input())
      for (int i = 0; i < function.input_size(); ++i)
        if (input == function.input(i) && !inner.count(input))
          input.clear();
  ++depth;
  Status status = importNodes(body, opsetOf(function, opset), inner);
  --depth;
  MAESTRO_TRY(std::move(status));
  for (int i = 0; i < node.output_size() && i < function.output_size(); ++i)
    if (auto found = inner.find(function.output(i)); found != inner.end() && !node.output(i).empty())
      scope[node.output(i)] = found->second;
  return {};
}

} // namespace maestro::planner
