#include "planner/import/node_context.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::planner {

Result<ImportedValue *> NodeContext::value(int input) {
  if (!has(input))
    return Status::invalidInput(fmt::format("input {} is missing", input));
  auto found = scope.find(node.input(input));
  if (found == scope.end())
    return Status::invalidInput(fmt::format("reads '{}', which is not defined here", node.input(input)));
  if (!found->second.refusal.empty())
    return Status::invalidInput(found->second.refusal);
  return &found->second;
}

Result<mlir::Value> NodeContext::tensor(int input) {
  MAESTRO_ASSIGN(ImportedValue * held, value(input));
  if (held->tensor)
    return held->tensor;
  if (held->folded)
    return held->tensor = e.materialize(*held->folded);
  if (held->sequence)
    return Status::invalidInput(
        fmt::format("input '{}' is a sequence of tensors, which only SequenceAt reads", node.input(input)));
  return Status::invalidInput(
      fmt::format("input '{}' has a size that depends on data (NonZero); only a masked scatter is understood there",
                  node.input(input)));
}

const FoldedTensor *NodeContext::folded(int input) {
  auto held = value(input);
  return held ? (*held)->folded.get() : nullptr;
}

Result<Shape> NodeContext::shape(int input) {
  if (const FoldedTensor *known = folded(input))
    return Shape(known->shape.begin(), known->shape.end());
  MAESTRO_ASSIGN(ImportedValue * held, value(input));
  if (held->nonZeroOf) {
    Shape result{DimExpr(Emitter::rankOf(held->nonZeroOf)), held->nonZeroCount};
    if (held->nonZeroTransposed)
      std::swap(result[0], result[1]);
    return result;
  }
  MAESTRO_ASSIGN(mlir::Value x, tensor(input));
  return Shape(Emitter::shapeOf(x));
}

Result<DType> NodeContext::dtype(int input) {
  if (const FoldedTensor *known = folded(input))
    return known->dtype;
  MAESTRO_ASSIGN(mlir::Value x, tensor(input));
  return Emitter::dtypeOf(x);
}

Result<Shape> NodeContext::dimList(int input, const char *what) {
  const FoldedTensor *known = folded(input);
  if (!known) {
    if (auto held = value(input); !held)
      return std::move(held).takeStatus();
    return Status::invalidInput(
        fmt::format("{} ('{}') depends on data; it must follow from shapes and constants", what, node.input(input)));
  }
  Shape result;
  for (int64_t i = 0; i < known->size(); ++i) {
    auto dim = known->asDim(i);
    if (!dim)
      return Status::invalidInput(fmt::format("{} ('{}') is not an integer", what, node.input(input)));
    result.push_back(*dim);
  }
  return result;
}

Result<Ints> NodeContext::intList(int input, const char *what) {
  MAESTRO_ASSIGN(Shape list, dimList(input, what));
  Ints result;
  for (const DimExpr &dim : list) {
    auto constant = dim.asConstant();
    if (!constant)
      return Status::invalidInput(fmt::format("{} is {}; it must be a constant", what, dim.str()));
    result.push_back(*constant);
  }
  return result;
}

Result<double> NodeContext::number(int input, const char *what) {
  const FoldedTensor *known = folded(input);
  auto number = known && known->size() == 1 ? known->asDouble(0) : std::nullopt;
  if (!number)
    return Status::invalidInput(fmt::format("{} ('{}') must be a constant number", what, node.input(input)));
  return *number;
}

const onnx::AttributeProto *NodeContext::attribute(const char *name) const {
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

int64_t NodeContext::intAttribute(const char *name, int64_t fallback) const {
  const auto *found = attribute(name);
  return found && found->type() == onnx::AttributeProto::INT ? found->i() : fallback;
}

double NodeContext::floatAttribute(const char *name, double fallback) const {
  const auto *found = attribute(name);
  return found && found->type() == onnx::AttributeProto::FLOAT ? found->f() : fallback;
}

std::string NodeContext::textAttribute(const char *name, const char *fallback) const {
  const auto *found = attribute(name);
  return found && found->type() == onnx::AttributeProto::STRING ? found->s() : fallback;
}

std::optional<Ints> NodeContext::intsAttribute(const char *name) const {
  const auto *found = attribute(name);
  if (!found || found->type() != onnx::AttributeProto::INTS)
    return std::nullopt;
  return Ints(found->ints().begin(), found->ints().end());
}

Result<std::optional<Ints>> NodeContext::axes(int input, const char *name) {
  if (auto attribute = intsAttribute(name))
    return attribute;
  if (!has(input))
    return std::optional<Ints>();
  MAESTRO_ASSIGN(Ints list, intList(input, name));
  return std::optional(list);
}

Result<int64_t> NodeContext::normalizeAxis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank)
    return Status::invalidInput(fmt::format("axis {} is outside a tensor of rank {}", axis, rank));
  return axis < 0 ? axis + rank : axis;
}

Result<Ints> NodeContext::normalizeAxes(const Ints &axes, int64_t rank) const {
  Ints result;
  for (int64_t axis : axes) {
    MAESTRO_ASSIGN(int64_t normal, normalizeAxis(axis, rank));
    result.push_back(normal);
  }
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    return Status::invalidInput("an axis is named twice");
  return result;
}

Status NodeContext::set(int output, ImportedValue value) {
  if (wants(output))
    scope[node.output(output)] = std::move(value);
  return {};
}

Status NodeContext::set(int output, FoldedTensor folded) {
  for (FoldedElement &element : folded.elements)
    if (auto *dim = std::get_if<DimExpr>(&element))
      *dim = e.known(*dim);
  return set(output, ImportedValue::of(std::move(folded)));
}

Status NodeContext::set(int output, Result<mlir::Value> tensor) {
  if (!tensor)
    return std::move(tensor).takeStatus();
  return set(output, *tensor);
}

} // namespace maestro::planner
