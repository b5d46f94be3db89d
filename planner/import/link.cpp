// What feeds what: ports, edges, data fields, the components' order, and the dims that must agree.
#include "planner/import/link.h"

#include "base/nearest.h"
#include "passes/attributes.h"
#include "planner/import/linker.h"
#include "planner/import/metadata.h"

#include "mlir/IR/Diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace maestro::planner {

Linker::Linker(const Workload &workload, mlir::ModuleOp module, const std::vector<mlir::func::FuncOp> &components)
    : workload(workload), module(module), components(components), edges(workload.edges), losses(workload.losses),
      constraints([](std::string_view) { return true; }), builder(module.getContext()), e(builder, constraints) {}

size_t Linker::indexOf(std::string_view component) const {
  for (size_t i = 0; i < workload.components.size(); ++i)
    if (workload.components[i].name == component)
      return i;
  return workload.components.size();
}

std::string Linker::label(const Input &input) const {
  return workload.components[input.component].name + "." + input.name;
}

void Linker::collectPorts() {
  for (size_t c = 0; c < components.size(); ++c) {
    for (unsigned i = 0; i < components[c].getNumArguments(); ++i)
      if (auto name = components[c].getArgAttrOfType<mlir::StringAttr>(i, attributes::kField))
        inputs.push_back({c, i, name.str(), nullptr, ""});
    for (unsigned i = 0; i < components[c].getNumResults(); ++i)
      if (auto name = components[c].getResultAttrOfType<mlir::StringAttr>(i, attributes::kOutput))
        outputs.push_back({c, i, name.str()});
  }
}

Result<Linker::Output> Linker::findOutput(const PortRef &ref) const {
  std::vector<std::string> names;
  size_t component = indexOf(ref.component);
  for (const Output &output : outputs) {
    if (output.component != component)
      continue;
    if (output.name == ref.port)
      return output;
    names.push_back(output.name);
  }
  std::string list;
  for (const std::string &name : names)
    list += (list.empty() ? "" : ", ") + name;
  return Status::invalidInput(fmt::format("{}: component '{}' has no output '{}'{}; its outputs: {}", ref.place,
                                          ref.component, ref.port, didYouMean(ref.port, names), list));
}

Result<Linker::Input *> Linker::findInput(const PortRef &ref) {
  std::vector<std::string> names;
  size_t component = indexOf(ref.component);
  for (Input &input : inputs) {
    if (input.component != component)
      continue;
    if (input.name == ref.port)
      return &input;
    names.push_back(input.name);
  }
  std::string list;
  for (const std::string &name : names)
    list += (list.empty() ? "" : ", ") + name;
  return Status::invalidInput(fmt::format("{}: component '{}' has no input '{}'{}; its inputs: {}", ref.place,
                                          ref.component, ref.port, didYouMean(ref.port, names), list));
}

/// Without `edges`, an output and an input of one name in two components are joined.
Status Linker::joinByName() {
  if (workload.edgesGiven)
    return {};
  for (const Input &input : inputs)
    for (const Output &output : outputs) {
      if (output.name != input.name || output.component == input.component)
        continue;
      EdgeSpec edge{{workload.components[output.component].name, output.name, workload.path},
                    {workload.components[input.component].name, input.name, workload.path}};
      for (const EdgeSpec &other : edges)
        if (other.to.str() == edge.to.str())
          return Status::invalidInput(fmt::format("{}: {} could be fed by {} and by {}; write `edges`", workload.path,
                                                  edge.to.str(), other.from.str(), edge.from.str()));
      notes.push_back(fmt::format("joined {} -> {}, which have one name", edge.from.str(), edge.to.str()));
      edges.push_back(std::move(edge));
    }
  return {};
}

Status Linker::resolveEdges() {
  for (const EdgeSpec &edge : edges) {
    MAESTRO_ASSIGN(Output from, findOutput(edge.from));
    MAESTRO_ASSIGN(Input * to, findInput(edge.to));
    to->edge = &edge;
  }
  return {};
}

Status Linker::resolveFields() {
  for (const FieldSpec &field : workload.inputs)
    for (const PortRef &target : field.to) {
      MAESTRO_ASSIGN(Input * input, findInput(target));
      if (input->edge)
        return Status::invalidInput(
            fmt::format("{}: {} is fed by an edge and by the field '{}'", field.place, target.str(), field.name));
      if (!input->field.empty())
        return Status::invalidInput(fmt::format("{}: {} is fed by the fields '{}' and '{}'", field.place, target.str(),
                                                input->field, field.name));
      input->field = field.name;
    }
  for (Input &input : inputs)
    if (!input.edge && input.field.empty())
      input.field = input.name;
  return {};
}

/// Producers before consumers.
Status Linker::orderComponents() {
  std::vector<std::set<size_t>> needs(components.size());
  for (const EdgeSpec &edge : edges)
    needs[indexOf(edge.to.component)].insert(indexOf(edge.from.component));
  std::vector<bool> done(components.size(), false);
  for (size_t round = 0; round < components.size(); ++round)
    for (size_t c = 0; c < components.size(); ++c)
      if (!done[c] && std::all_of(needs[c].begin(), needs[c].end(), [&](size_t n) { return done[n]; })) {
        done[c] = true;
        order.push_back(c);
      }
  for (size_t c = 0; c < components.size(); ++c)
    if (!done[c])
      return Status::invalidInput(
          fmt::format("{}: the edges form a cycle through component '{}'", workload.path, workload.components[c].name));
  return {};
}

Status Linker::checkTypes(nn::TensorType a, nn::TensorType b, const std::string &what) {
  if (a.getElementType() != b.getElementType())
    return Status::invalidInput(fmt::format("{}: element types {} and {} differ", what,
                                            name(*nn::dtypeOf(a.getElementType())),
                                            name(*nn::dtypeOf(b.getElementType()))));
  bool fits = a.getShape().size() == b.getShape().size();
  for (size_t i = 0; fits && i < a.getShape().size(); ++i)
    fits = constraints.unify(a.getShape()[i], b.getShape()[i]);
  if (fits)
    return {};
  return Status::invalidInput(
      fmt::format("{}: shapes {} and {} do not agree", what, nn::shapeText(a.getShape()), nn::shapeText(b.getShape())));
}

/// Both ends of an edge, and all inputs of a field, have one type.
Status Linker::unifyShapes() {
  auto typeOfInput = [&](const Input &input) {
    return mlir::cast<nn::TensorType>(components[input.component].getArgumentTypes()[input.argument]);
  };
  std::map<std::string, const Input *> first;
  for (const Input &input : inputs) {
    if (input.edge) {
      MAESTRO_ASSIGN(Output output, findOutput(input.edge->from));
      auto type = mlir::cast<nn::TensorType>(components[output.component].getResultTypes()[output.result]);
      MAESTRO_TRY(checkTypes(
          type, typeOfInput(input),
          fmt::format("{}: edge {} -> {}", input.edge->from.place, input.edge->from.str(), input.edge->to.str())));
      continue;
    }
    auto [place, fresh] = first.try_emplace(input.field, &input);
    if (!fresh)
      MAESTRO_TRY(checkTypes(typeOfInput(*place->second), typeOfInput(input),
                             fmt::format("{}: the field '{}' feeds {} and {}", workload.path, input.field,
                                         label(*place->second), label(input))));
  }
  return {};
}

Status Linker::run() {
  mlir::ScopedDiagnosticHandler handler(module.getContext(), [&](mlir::Diagnostic &diagnostic) {
    e.diagnostic = diagnostic.str();
    return mlir::success();
  });
  collectPorts();
  MAESTRO_TRY(joinByName());
  MAESTRO_TRY(resolveEdges());
  MAESTRO_TRY(resolveFields());
  MAESTRO_TRY(orderComponents());
  MAESTRO_TRY(inferLosses());
  MAESTRO_TRY(unifyShapes());
  MAESTRO_TRY(buildBody());
  MAESTRO_TRY(buildLosses());
  MAESTRO_TRY(refuseUnused());
  MAESTRO_TRY(describeDims());
  inferPads();
  MAESTRO_TRY(countOwnPositions());
  MAESTRO_TRY(refusePaddedLabels());
  return finish();
}

Result<std::vector<std::string>> linkComponents(const Workload &workload, mlir::ModuleOp module,
                                                const std::vector<mlir::func::FuncOp> &components) {
  Linker linker(workload, module, components);
  MAESTRO_TRY(linker.run());
  return std::move(linker.notes);
}

Result<LinkedGraph> importWorkload(const Workload &workload, mlir::MLIRContext &context) {
  loadImportDialects(context);
  LinkedGraph result;
  result.module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  std::vector<mlir::func::FuncOp> functions;
  for (const ComponentSpec &component : workload.components) {
    MAESTRO_ASSIGN(OnnxFile file, readOnnxFile(component.model));
    ImportOptions options;
    options.component = component.name;
    options.frozen = component.frozen;
    auto said = readBounds(file.model()).withContext(component.model);
    if (!said)
      return std::move(said).takeStatus();
    options.boundOf = [&](std::string_view symbol) -> std::optional<int64_t> {
      if (auto found = workload.dims.find(std::string(symbol)); found != workload.dims.end() && found->second.max)
        return found->second.max;
      auto bound = said->find(std::string(symbol));
      return bound == said->end() ? std::nullopt : std::optional(bound->second);
    };
    if (workload.components.size() > 1)
      options.inventedDimPrefix = component.name + ".";
    MAESTRO_ASSIGN(ImportedModel model, importModel(file, options, *result.module));
    mlir::NamedAttrList bounds;
    for (const auto &[name, most] : *said)
      bounds.set(name, mlir::IntegerAttr::get(mlir::IntegerType::get(&context, 64), most));
    if (!bounds.empty())
      model.function->setAttr(kSaidBoundsAttribute, bounds.getDictionary(&context));
    functions.push_back(model.function);
    for (const std::string &note : model.notes)
      result.notes.push_back(component.name + ": " + note);
  }
  MAESTRO_ASSIGN(std::vector<std::string> notes, linkComponents(workload, *result.module, functions));
  result.notes.insert(result.notes.end(), notes.begin(), notes.end());
  return result;
}

} // namespace maestro::planner
