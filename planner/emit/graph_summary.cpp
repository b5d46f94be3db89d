// What @graph says about itself: parameters, data fields, dims, losses.
#include "ir/nn/nn.h"
#include "passes/attributes.h"
#include "planner/emit/emit_plan.h"
#include "planner/import/index_bound.h"
#include "planner/import/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace maestro::planner {
namespace {

Result<std::vector<GraphParameter>> collectParameters(mlir::func::FuncOp graph) {
  std::vector<GraphParameter> parameters;
  for (unsigned i = 0; i < graph.getNumArguments(); ++i) {
    auto name = graph.getArgAttrOfType<mlir::StringAttr>(i, attributes::kParameter);
    std::optional<ParameterInfo> info = parameterInfo(graph, i);
    if (!name || !info)
      continue;
    GraphParameter parameter;
    parameter.fullName = name.getValue().str();
    parameter.component = parameter.fullName.substr(0, parameter.fullName.find('/'));
    parameter.info = *info;
    parameter.trainable = static_cast<bool>(graph.getArgAttr(i, attributes::kTrainable));
    nn::TensorType type = nn::typeOf(graph.getArgument(i));
    parameter.dtype = *nn::dtypeOf(type.getElementType());
    for (const DimExpr &dim : type.getShape()) {
      if (!dim.isConstant())
        return Status::invalidInput(fmt::format("parameter '{}' has the symbolic dim '{}'; parameters have fixed "
                                                "shapes", parameter.fullName, dim.str()));
      parameter.shape.push_back(*dim.asConstant());
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

std::vector<GraphField> collectFields(mlir::func::FuncOp graph) {
  std::vector<GraphField> fields;
  for (unsigned i = 0; i < graph.getNumArguments(); ++i) {
    auto name = graph.getArgAttrOfType<mlir::StringAttr>(i, attributes::kField);
    if (!name)
      continue;
    nn::TensorType type = nn::typeOf(graph.getArgument(i));
    GraphField field;
    field.name = name.getValue().str();
    field.dtype = *nn::dtypeOf(type.getElementType());
    field.shape.assign(type.getShape().begin(), type.getShape().end());
    field.ownPositions = graph.getArgAttr(i, attributes::kOwnPositions) != nullptr;
    if (auto pad = graph.getArgAttrOfType<mlir::FloatAttr>(i, kPadAttribute))
      field.pad = pad.getValueAsDouble();
    if (isInteger(field.dtype)) {
      IndexRange range = indexRange(graph.getArgument(i));
      field.indexLimit = range.limit.value_or(0);
      field.ignoreIndex = range.ignored;
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

std::vector<GraphDim> collectDims(mlir::func::FuncOp graph) {
  std::vector<GraphDim> dims;
  auto table = graph->getParentOp()->getAttrOfType<mlir::DictionaryAttr>(attributes::kDims);
  if (!table)
    return dims;
  for (mlir::NamedAttribute named : table) {
    auto entry = mlir::cast<mlir::DictionaryAttr>(named.getValue());
    GraphDim dim;
    dim.name = named.getName().str();
    dim.sum = entry.getAs<mlir::StringAttr>("combine").getValue() == "sum";
    if (auto max = entry.getAs<mlir::IntegerAttr>("max"))
      dim.max = max.getInt();
    if (auto multiple = entry.getAs<mlir::IntegerAttr>("multiple_of"))
      dim.multipleOf = multiple.getInt();
    dims.push_back(std::move(dim));
  }
  return dims;
}

/// A sample may lack a field whose rows are not the samples' own.
void markOptional(std::vector<GraphField> &fields, const std::vector<GraphDim> &dims) {
  std::map<std::string, size_t> uses;
  auto rowsOf = [&](const GraphField &field) -> std::string {
    for (const DimExpr &dim : field.shape)
      for (const GraphDim &known : dims)
        if (known.sum && dim.asSymbol() == known.name)
          return known.name;
    return "";
  };
  for (const GraphField &field : fields)
    uses[rowsOf(field)] += !field.ownPositions;
  uses.erase("");
  if (uses.size() < 2)
    return;
  std::string own = samplesOwnDim(uses);
  for (GraphField &field : fields)
    field.optional = !field.ownPositions && !rowsOf(field).empty() && rowsOf(field) != own;
}

std::vector<GraphLoss> collectLosses(mlir::func::FuncOp graph, const Workload &workload) {
  std::vector<GraphLoss> losses;
  for (unsigned i = 0; i < graph.getNumResults(); ++i) {
    auto name = graph.getResultAttrOfType<mlir::StringAttr>(i, attributes::kLoss);
    auto role = graph.getResultAttrOfType<mlir::StringAttr>(i, attributes::kRole);
    if (!name || !role || role.getValue() == "count")
      continue;
    GraphLoss loss;
    loss.name = name.getValue().str();
    loss.fromGraph = role.getValue() == "mean";
    for (const LossSpec &spec : workload.losses)
      if (spec.name == loss.name) {
        loss.weight = spec.weight;
        if (spec.topK > 0)
          loss.note = fmt::format("both distributions over the teacher's {} largest logits alone, renormalised", spec.topK);
      }
    losses.push_back(std::move(loss));
  }
  return losses;
}

} // namespace

Result<GraphSummary> summarizeGraph(mlir::func::FuncOp graph, const Workload &workload) {
  GraphSummary summary;
  MAESTRO_ASSIGN(summary.parameters, collectParameters(graph));
  summary.fields = collectFields(graph);
  summary.dims = collectDims(graph);
  summary.losses = collectLosses(graph, workload);
  markOptional(summary.fields, summary.dims);
  return summary;
}

} // namespace maestro::planner
