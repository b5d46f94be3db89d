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
                                                "shapes",
                                                parameter.fullName, dim.str()));
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
    if (auto pad = graph.getArgAttrOfType<mlir::FloatAttr>(i, attributes::kPad))
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
    dim.maxIsSaid = entry.get("max_said") != nullptr;
    if (auto source = entry.getAs<mlir::StringAttr>("max_source"))
      dim.maxSource = source.getValue().str();
    if (auto multiple = entry.getAs<mlir::IntegerAttr>("multiple_of"))
      dim.multipleOf = multiple.getInt();
    if (auto unpadded = entry.getAs<mlir::StringAttr>(attributes::kUnpadded))
      dim.unpadded = unpadded.getValue().str();
    dim.typical = dim.sum ? 1 : static_cast<double>(dim.max);
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

/// What marks the places: a comparison of a field with a constant, or a field of truth values. `repeats`: how often
/// each element of the field appears in the mask.
struct MarkSource {
  mlir::Value field;
  int64_t value = 1;
  DimExpr repeats = 1;
};

mlir::Value behindViews(mlir::Value value, DimExpr &repeats) {
  for (;;) {
    mlir::Operation *op = value.getDefiningOp();
    if (!op || !(op->hasTrait<nn::Rearranges>() || mlir::isa<nn::CastOp>(op)))
      return value;
    auto from = nn::typeOf(op->getOperand(0)).getShape(), to = nn::typeOf(value).getShape();
    size_t missing = to.size() - std::min(from.size(), to.size());
    for (size_t i = 0; mlir::isa<nn::BroadcastToOp>(op) && i < to.size(); ++i)
      if (i < missing || from[i - missing] != to[i])
        repeats = repeats * to[i];
    value = op->getOperand(0);
  }
}

std::optional<MarkSource> markSource(mlir::Value mask) {
  MarkSource source;
  mlir::Value value = behindViews(mask, source.repeats);
  if (auto equal = value.getDefiningOp<nn::EqualOp>())
    for (unsigned side : {0u, 1u})
      if (auto constant = nn::constantValue(equal->getOperand(1 - side))) {
        source.value = static_cast<int64_t>(*constant);
        value = behindViews(equal->getOperand(side), source.repeats);
        break;
      }
  source.field = value;
  return mlir::isa<mlir::BlockArgument>(value) ? std::optional(source) : std::nullopt;
}

/// count = perRow · (a dim that counts rows), or nothing.
std::optional<GraphMark> markOf(int64_t value, const DimExpr &count, const std::vector<GraphDim> &dims) {
  auto symbols = count.symbols();
  auto at = [&](int64_t rows) { return count.evaluate([&](std::string_view) { return std::optional(rows); }); };
  bool isRows = symbols.size() == 1 && std::any_of(dims.begin(), dims.end(), [&](const GraphDim &dim) {
                  return dim.sum && dim.name == symbols.front();
                });
  if (!isRows || at(0) != 0 || !at(1) || *at(1) < 1 || at(2) != 2 * *at(1))
    return std::nullopt;
  return GraphMark{value, symbols.front(), *at(1)};
}

/// masked_scatter wants as many marked elements as features; synthetic samples are made so where it can be told how
/// many.
void collectMarks(mlir::func::FuncOp graph, GraphSummary &summary) {
  graph.walk([&](nn::MaskedScatterOp op) {
    std::optional<MarkSource> source = markSource(op.getMask());
    GraphField *field = nullptr;
    if (source)
      if (auto name = graph.getArgAttrOfType<mlir::StringAttr>(
              mlir::cast<mlir::BlockArgument>(source->field).getArgNumber(), attributes::kField))
        for (GraphField &known : summary.fields)
          field = known.name == name.getValue() ? &known : field;
    std::optional<GraphMark> mark;
    if (field && source->repeats.isConstant())
      mark = markOf(source->value,
                    DimExpr::floorDiv(nn::productOf(nn::typeOf(op.getSource()).getShape()), source->repeats),
                    summary.dims);
    auto same = [&](const GraphMark &other) { return mark && other.value == mark->value; };
    auto known =
        field ? std::find_if(field->marks.begin(), field->marks.end(), same) : std::vector<GraphMark>::iterator();
    bool isNew = field && known == field->marks.end();
    if (!mark || (!isNew && *known != *mark))
      summary.noSynthetic =
          fmt::format("without --data samples are made up, and {}: features of a masked_scatter take places that {}",
                      field ? "field '" + field->name + "' would not have as many marked elements as there are features"
                            : "as many places as features cannot be made sure of",
                      field ? "follow from it in a way that is not known"
                            : "follow from more than a comparison of a data field with a constant");
    else if (isNew)
      field->marks.push_back(*mark);
  });
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
          loss.note =
              fmt::format("both distributions over the teacher's {} largest logits alone, renormalised", spec.topK);
      }
    losses.push_back(std::move(loss));
  }
  return losses;
}

} // namespace

void noteHeldTypes(mlir::func::FuncOp graph, GraphSummary &summary) {
  std::map<std::string, DType, std::less<>> held;
  for (unsigned i = 0; i < graph.getNumArguments(); ++i)
    if (auto name = graph.getArgAttrOfType<mlir::StringAttr>(i, attributes::kParameter))
      held.emplace(name.getValue().str(), *nn::dtypeOf(nn::typeOf(graph.getArgument(i)).getElementType()));
  for (GraphParameter &parameter : summary.parameters)
    parameter.dtype = held.at(parameter.fullName);
}

Result<GraphSummary> summarizeGraph(mlir::func::FuncOp graph, const Workload &workload) {
  GraphSummary summary;
  MAESTRO_ASSIGN(summary.parameters, collectParameters(graph));
  summary.fields = collectFields(graph);
  summary.dims = collectDims(graph);
  summary.losses = collectLosses(graph, workload);
  markOptional(summary.fields, summary.dims);
  collectMarks(graph, summary);
  return summary;
}

} // namespace maestro::planner
