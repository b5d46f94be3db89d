// The linked function: arguments, and the components' operators one component after the other.
#include "planner/import/linker.h"

#include "base/nearest.h"
#include "passes/attributes.h"
#include "planner/import/half_precision.h"

#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Verifier.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::planner {

nn::TensorType Linker::substituted(mlir::Type type) const {
  auto tensor = mlir::cast<nn::TensorType>(type);
  Shape shape;
  for (const DimExpr &dim : tensor.getShape())
    shape.push_back(constraints.apply(dim));
  return nn::TensorType::get(type.getContext(), shape, tensor.getElementType());
}

mlir::Value Linker::addArgument(nn::TensorType type, llvm::ArrayRef<mlir::NamedAttribute> attributes) {
  unsigned index = graph.getNumArguments();
  (void)graph.insertArgument(index, type, builder.getDictionaryAttr(attributes), graph.getLoc());
  return graph.getArgument(index);
}

namespace {

const FieldSpec *findField(const Workload &workload, const std::string &name) {
  for (const FieldSpec &field : workload.inputs)
    if (field.name == name)
      return &field;
  return nullptr;
}

Result<Shape> declaredShape(const FieldSpec &field) {
  Shape shape;
  for (const std::string &text : *field.shape) {
    auto dim = DimExpr::parse(text);
    if (!dim)
      return Status::invalidInput(
          fmt::format("{}: inputs.{}.shape: '{}' is no dim; write a name, a number or an expression", field.place,
                      field.name, text));
    shape.push_back(*dim);
  }
  return shape;
}

} // namespace

/// The argument that data field `name` feeds, made at first use with the type that its first reader has; what the
/// workload says of it must agree.
Result<mlir::Value> Linker::fieldArgument(const std::string &name, nn::TensorType fallback, const std::string &place) {
  auto [found, fresh] = fields.try_emplace(name);
  if (!fresh)
    return found->second;
  nn::TensorType type = substituted(fallback);
  if (const FieldSpec *spec = findField(workload, name)) {
    if (spec->dtype && *spec->dtype != *nn::dtypeOf(type.getElementType()))
      return Status::invalidInput(fmt::format("{}: inputs.{}.dtype is {}, but {} reads {}", spec->place, name,
                                              maestro::name(*spec->dtype), place,
                                              maestro::name(*nn::dtypeOf(type.getElementType()))));
    if (spec->shape) {
      MAESTRO_ASSIGN(Shape declared, declaredShape(*spec));
      nn::TensorType given = e.type(declared, *nn::dtypeOf(type.getElementType()));
      MAESTRO_TRY(checkTypes(given, type, fmt::format("{}: inputs.{}.shape", spec->place, name)));
    }
    if (spec->pad)
      pads[name] = *spec->pad;
  }
  found->second = addArgument(type, {builder.getNamedAttr(attributes::kField, builder.getStringAttr(name))});
  return found->second;
}

void Linker::markTrainable(unsigned argument, size_t component) {
  auto info = parameterInfo(graph, argument);
  const ComponentSpec &spec = workload.components[component];
  auto isNamed = [&](const std::vector<std::string> &patterns) {
    bool isNamedByAny = false;
    for (const std::string &pattern : patterns) {
      bool matches = matchesGlob(pattern, info->name);
      for (const std::string &alias : info->aliases)
        matches |= matchesGlob(pattern, alias);
      if (matches)
        usedPatterns.insert({component, pattern});
      isNamedByAny |= matches;
    }
    return isNamedByAny;
  };
  bool frozen = spec.frozen || isNamed(spec.frozenPatterns);
  frozen |= !isNamed(spec.trainablePatterns) && !spec.trainablePatterns.empty();
  if (info->kind == ParameterKind::Parameter && info->requiresGrad && isFloat(info->dtype) && !frozen)
    graph.setArgAttr(argument, attributes::kTrainable, builder.getUnitAttr());
}

Status Linker::inlineComponent(size_t component) {
  mlir::func::FuncOp function = components[component];
  mlir::IRMapping &mapping = mappings[component];
  for (const Input &input : inputs) {
    if (input.component != component)
      continue;
    auto type = mlir::cast<nn::TensorType>(function.getArgumentTypes()[input.argument]);
    mlir::Value value;
    if (input.edge) {
      MAESTRO_ASSIGN(Output output, findOutput(input.edge->from));
      auto *terminator = components[output.component].front().getTerminator();
      value = mappings[output.component].lookup(terminator->getOperand(output.result));
    } else {
      MAESTRO_ASSIGN(value, fieldArgument(input.field, type, label(input)));
    }
    mapping.map(function.getArgument(input.argument), value);
  }
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (mapping.contains(function.getArgument(i)))
      continue;
    auto type = substituted(function.getArgumentTypes()[i]);
    auto given = function.getArgAttrDict(i);
    if (auto special = function.getArgAttrOfType<mlir::StringAttr>(i, attributes::kSpecial)) {
      mlir::Value &shared = specials[special.str()];
      if (!shared)
        shared = addArgument(type, given.getValue());
      mapping.map(function.getArgument(i), shared);
      continue;
    }
    // Values that change or are saved are f32; a component frozen as a whole keeps those of its file.
    bool keepsFileType = workload.components[component].frozen;
    mapping.map(function.getArgument(i), addArgument(keepsFileType ? type : widened(type), given.getValue()));
    markTrainable(graph.getNumArguments() - 1, component);
  }
  for (mlir::Operation &op : function.front().without_terminator())
    builder.clone(op, mapping);
  return {};
}

/// Streams of random numbers are counted per component; in one graph each needs its own.
static void renumberStreams(mlir::func::FuncOp graph) {
  int64_t stream = 0;
  graph.walk([&](nn::DropoutOp op) { op.setStream(stream++); });
}

Status Linker::buildBody() {
  builder.setInsertionPointToEnd(module.getBody());
  graph = mlir::func::FuncOp::create(builder, builder.getUnknownLoc(), attributes::kGraphFunction,
                                     builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(graph.addEntryBlock());
  mappings.resize(components.size());
  for (size_t component : order)
    MAESTRO_TRY(inlineComponent(component));
  renumberStreams(graph);
  applyConstraints();
  return {};
}

/// What the workload names and nothing uses is misspelt, or was meant otherwise.
Status Linker::refuseUnused() const {
  std::vector<std::string> known;
  for (const auto &[name, value] : fields)
    known.push_back(name);
  for (const FieldSpec &field : workload.inputs)
    if (!fields.count(field.name))
      return Status::invalidInput(fmt::format("{}: the field '{}' feeds no input and no loss{}", field.place,
                                              field.name, didYouMean(field.name, known)));
  for (size_t component = 0; component < components.size(); ++component) {
    const ComponentSpec &spec = workload.components[component];
    for (const auto &[key, patterns] :
         {std::pair("frozen", &spec.frozenPatterns), std::pair("trainable", &spec.trainablePatterns)})
      for (const std::string &pattern : *patterns)
        if (!usedPatterns.count({component, pattern}))
          return Status::invalidInput(
              fmt::format("{}: components.{}.{}: '{}' matches no parameter", spec.place, spec.name, key, pattern));
  }
  return {};
}

/// Dims found equal while linking get one name everywhere.
void Linker::applyConstraints() {
  if (constraints.substitutions().size() == applied)
    return;
  applied = constraints.substitutions().size();
  mlir::AttrTypeReplacer replacer;
  replacer.addReplacement([&](nn::TensorType type) -> std::optional<mlir::Type> { return substituted(type); });
  replacer.addReplacement([&](nn::DimsAttr dims) -> std::optional<mlir::Attribute> {
    Shape values;
    for (const DimExpr &value : dims.getValues())
      values.push_back(constraints.apply(value));
    return nn::DimsAttr::get(builder.getContext(), values);
  });
  replacer.recursivelyReplaceElementsIn(graph, /*replaceAttrs=*/true, /*replaceLocs=*/false, /*replaceTypes=*/true);
}

Status Linker::finish() {
  llvm::SmallVector<mlir::Type> types;
  for (mlir::Value value : results)
    types.push_back(value.getType());
  mlir::func::ReturnOp::create(builder, builder.getUnknownLoc(), results);
  graph.setType(builder.getFunctionType(graph.getArgumentTypes(), types));
  for (size_t i = 0; i < results.size(); ++i)
    graph.setResultAttrs(static_cast<unsigned>(i), resultAttributes[i].getDictionary(builder.getContext()));
  for (const auto &[name, value] : fields) {
    double pad = pads.count(name) ? pads[name] : 0;
    graph.setArgAttr(mlir::cast<mlir::BlockArgument>(value).getArgNumber(), attributes::kPad,
                     builder.getF64FloatAttr(pad));
  }
  for (mlir::func::FuncOp component : components)
    component.erase();
  for (mlir::Operation &op : llvm::make_early_inc_range(llvm::reverse(graph.front())))
    if (op.use_empty() && mlir::isMemoryEffectFree(&op) && !mlir::isa<mlir::func::ReturnOp>(op))
      op.erase();
  for (const auto &[symbol, value] : constraints.substitutions())
    notes.push_back(fmt::format("dim {} is {}, as the links require", symbol, value.str()));
  if (mlir::failed(mlir::verify(module)))
    return Status::invalidInput(fmt::format("{}: the linked graph is not consistent: {}", workload.path, e.diagnostic));
  return {};
}

} // namespace maestro::planner
