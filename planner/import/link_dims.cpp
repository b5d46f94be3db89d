// How each named dim combines over the samples of a micro-batch, and its bound for one sample.
#include "planner/import/import_state.h"
#include "planner/import/linker.h"

#include "base/nearest.h"
#include "passes/attributes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace maestro::planner {
namespace {

struct Dim {
  size_t leads = 0; ///< So many fields.
  bool follows = false;
};
using NamedDims = std::vector<std::pair<std::string, Dim>>;

/// Where the symbols of the data fields stand, in order of appearance.
NamedDims collectDims(mlir::func::FuncOp graph, const DimConstraints &constraints) {
  NamedDims dims;
  auto find = [&](const std::string &name) -> Dim & {
    for (auto &[known, dim] : dims)
      if (known == name)
        return dim;
    return dims.emplace_back(name, Dim()).second;
  };
  for (unsigned i = 0; i < graph.getNumArguments(); ++i) {
    if (!graph.getArgAttr(i, attributes::kField))
      continue;
    auto shape = mlir::cast<nn::TensorType>(graph.getArgumentTypes()[i]).getShape();
    for (size_t axis = 0; axis < shape.size(); ++axis)
      for (const std::string &symbol : constraints.apply(shape[axis]).symbols())
        if (axis == 0)
          ++find(symbol).leads;
        else
          find(symbol).follows = true;
  }
  return dims;
}

/// What to think of a dim that no input has: an exporter that was given its name may have written a number. "" where no
/// input has one.
std::string numbersInstead(mlir::func::FuncOp graph) {
  std::vector<std::string> inputs;
  for (unsigned i = 0; i < graph.getNumArguments(); ++i) {
    auto field = graph.getArgAttrOfType<mlir::StringAttr>(i, attributes::kField);
    auto shape = mlir::cast<nn::TensorType>(graph.getArgumentTypes()[i]).getShape();
    if (field && llvm::any_of(shape, [](const DimExpr &dim) { return dim.isConstant(); }))
      inputs.push_back(fmt::format("{} {}", field.str(), nn::shapeText(shape)));
  }
  if (inputs.empty())
    return "";
  return fmt::format(
      "; as exported: {}. torch.onnx.export writes a number for a dim that the module fixes (a loop over "
      "it, an index by it, int()), whatever dynamic_shapes names",
      fmt::join(inputs, ", "));
}

/// The dims that the models or `dims` name.
std::set<std::string> knownDims(const Workload &workload, const std::vector<mlir::func::FuncOp> &components) {
  std::set<std::string> known;
  for (const auto &[name, spec] : workload.dims)
    known.insert(name);
  for (mlir::func::FuncOp component : components)
    for (mlir::Type type : component.getArgumentTypes())
      for (const DimExpr &dim : mlir::cast<nn::TensorType>(type).getShape())
        for (const std::string &symbol : dim.symbols())
          known.insert(symbol);
  return known;
}

/// A dim that only a data field's shape names, and that turned out to be one with nearly the same name, is misspelt.
Status refuseMisspelt(const FieldSpec &field, const std::set<std::string> &known, const DimConstraints &constraints) {
  for (const std::string &text : *field.shape) {
    auto dim = DimExpr::parse(text);
    std::optional<std::string> name = dim ? dim->asSymbol() : std::nullopt;
    if (!name || known.count(*name))
      continue;
    std::vector<std::string> equal;
    for (const std::string &other : known)
      if (constraints.apply(DimExpr::symbol(other)) == constraints.apply(*dim))
        equal.push_back(other);
    if (std::string nearest = nearestName(*name, equal); !nearest.empty())
      return Status::invalidInput(
          fmt::format("{}: inputs.{}.shape: the dim '{}' is '{}' under another name; write '{}'", field.place,
                      field.name, *name, nearest, nearest));
  }
  return {};
}

} // namespace

/// Of each component that bounds the dim under `attribute`: the bound.
std::vector<std::pair<size_t, int64_t>> Linker::boundsOf(llvm::StringRef attribute, const std::string &dim) {
  std::vector<std::pair<size_t, int64_t>> found;
  for (size_t c = 0; c < components.size(); ++c)
    if (auto bounds = components[c]->getAttrOfType<mlir::DictionaryAttr>(attribute))
      for (const mlir::NamedAttribute &entry : bounds)
        if (constraints.apply(DimExpr::symbol(entry.getName().str())).asSymbol() == std::optional(dim))
          found.emplace_back(c, mlir::cast<mlir::IntegerAttr>(entry.getValue()).getInt());
  return found;
}

/// The workload's bound; else the smallest that a model's metadata says; else `otherwise`. A table of positions in a
/// graph lowers the last two, and no workload's may exceed it.
Result<Linker::Bound> Linker::boundOf(const std::string &name, const DimSpec &spec, int64_t otherwise) {
  Bound bound{spec.max.value_or(otherwise), spec.max ? "" : "default"};
  if (!spec.max)
    for (auto [component, said] : boundsOf(kSaidBoundsAttribute, name))
      if (!bound.isSaid || said < bound.most)
        bound = {said, fmt::format("component '{}' says so, maestro.bounds", workload.components[component].name),
                 true};
  for (auto [component, length] : boundsOf(kDimBoundsAttribute, name)) {
    if (spec.max && *spec.max > length)
      return Status::invalidInput(
          fmt::format("{}: dims.{}.max is {}, but component '{}' holds a table for {}; lower it", spec.place, name,
                      *spec.max, workload.components[component].name, length));
    if (length < bound.most)
      bound = {length, fmt::format("component '{}' holds a table of that length", workload.components[component].name)};
  }
  return bound;
}

std::string samplesOwnDim(const std::map<std::string, size_t> &fieldsByRows) {
  auto own = std::max_element(fieldsByRows.begin(), fieldsByRows.end(),
                              [](const auto &a, const auto &b) { return a.second < b.second; });
  return own == fieldsByRows.end() ? "" : own->first;
}

/// A symbol that only leads fields counts rows; others are padded lengths.
Status Linker::describeDims() {
  std::set<std::string> known = knownDims(workload, components);
  for (const FieldSpec &field : workload.inputs)
    if (field.shape)
      MAESTRO_TRY(refuseMisspelt(field, known, constraints));
  auto dims = collectDims(graph, constraints);
  std::vector<std::string> names;
  for (const auto &[name, dim] : dims)
    names.push_back(name);
  for (const auto &[name, spec] : workload.dims) {
    bool replaced = constraints.substitutions().count(name) != 0;
    if (!replaced && std::find(names.begin(), names.end(), name) == names.end())
      return Status::invalidInput(fmt::format("{}: dims.{}: no input has a dim of that name{}; the inputs' dims: {}{}",
                                              spec.place, name, didYouMean(name, names), fmt::join(names, ", "),
                                              numbersInstead(graph)));
  }
  for (const auto &[name, sizes] : workload.synthetic)
    if (!constraints.substitutions().count(name) && std::find(names.begin(), names.end(), name) == names.end())
      return Status::invalidInput(
          fmt::format("{}: synthetic.{}: no input has a dim of that name{}; the inputs' dims: {}", workload.path, name,
                      didYouMean(name, names), fmt::join(names, ", ")));
  auto specOf = [&](const std::string &name) {
    auto found = workload.dims.find(name);
    return found == workload.dims.end() ? DimSpec() : found->second;
  };
  auto combineOf = [&](const std::string &name, const Dim &dim) {
    return specOf(name).combine.value_or(dim.leads && !dim.follows ? Combine::Sum : Combine::Max);
  };
  std::map<std::string, size_t> fieldsByRows;
  for (const auto &[name, dim] : dims)
    if (combineOf(name, dim) == Combine::Sum)
      fieldsByRows[name] = dim.leads;
  if (fieldsByRows.empty())
    return Status::invalidInput(
        fmt::format("{}: no input has a leading dim along which samples are stacked (the inputs' dims: {}); export "
                    "with dynamic_shapes, such as "
                    "{{0: torch.export.Dim(\"batch\")}} for every input, and let dims.batch combine by sum",
                    workload.path, names.empty() ? "all fixed" : fmt::format("{}", fmt::join(names, ", "))));
  std::string own = samplesOwnDim(fieldsByRows);
  mlir::NamedAttrList described;
  for (const auto &[name, dim] : dims) {
    DimSpec spec = specOf(name);
    Combine combine = combineOf(name, dim);
    int64_t otherwise = combine == Combine::Max ? kDefaultLength : name == own ? 1 : kDefaultRows;
    MAESTRO_ASSIGN(Bound bound, boundOf(name, spec, otherwise));
    const char *how = combine == Combine::Sum ? "sum" : "max";
    if (!spec.combine || !spec.max)
      notes.push_back(fmt::format("dims.{}: combine {}, max {}{}", name, how, bound.most,
                                  spec.max ? "" : fmt::format(" ({})", bound.source)));
    mlir::NamedAttrList entry;
    entry.set("combine", builder.getStringAttr(how));
    entry.set("max", builder.getI64IntegerAttr(bound.most));
    if (bound.isSaid)
      entry.set("max_said", builder.getUnitAttr());
    entry.set("max_source",
              builder.getStringAttr(spec.max ? fmt::format("declared: dims.{}.max", name)
                                             : fmt::format("{}; dims.{}.max sets it", bound.source, name)));
    if (spec.multipleOf != 1)
      entry.set("multiple_of", builder.getI64IntegerAttr(spec.multipleOf));
    if (name == own)
      entry.set("own", builder.getUnitAttr());
    if (spec.unpadded && combine == Combine::Sum)
      return Status::invalidInput(
          fmt::format("{}: dims.{}.pad: '{}' counts rows, which are not padded; pad: never is for dims "
                      "that combine by max",
                      spec.place, name, name));
    if (spec.unpadded)
      entry.set(attributes::kUnpadded, builder.getStringAttr(""));
    described.set(name, entry.getDictionary(builder.getContext()));
  }
  if (specials.count("sample_ids")) {
    mlir::NamedAttrList entry;
    entry.set("combine", builder.getStringAttr("sum"));
    entry.set("max", builder.getI64IntegerAttr(1));
    described.set(kSamplesDim, entry.getDictionary(builder.getContext()));
  }
  module->setAttr(attributes::kDims, described.getDictionary(builder.getContext()));
  return {};
}

} // namespace maestro::planner
