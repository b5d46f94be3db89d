#include "planner/import/custom_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace maestro::planner {
namespace {

constexpr std::string_view kApply = ".apply(";

constexpr std::string_view kForward = ", in forward\n";

/// How many forward() methods led to the node.
int64_t forwards(std::string_view trace) {
  int64_t count = 0;
  for (size_t at = trace.find(kForward); at != std::string_view::npos; at = trace.find(kForward, at + 1))
    ++count;
  return count;
}

/// The call `Name.apply(` whose forward() computed the node: a function's forward is called from C++, so that the next
/// line of the stack trace is one of the forward itself. Each module has a forward, too, which may be called in the
/// same line: there is one more of them than modules.
std::string_view customFunction(const onnx::NodeProto &node) {
  std::string_view trace = stackTrace(node);
  size_t at = trace.rfind(kApply);
  if (at == std::string_view::npos)
    return {};
  size_t line = trace.find('\n', at);
  if (line == std::string_view::npos)
    return {}; // What is handed to the function, or its result.
  std::string_view next = trace.substr(line + 1);
  next = next.substr(0, next.find('\n'));
  bool isCheckpoint =
      next.find("/torch/utils/checkpoint") != std::string_view::npos; // Its backward is the graph's own.
  if (!next.ends_with(", in forward") || isCheckpoint || forwards(trace) <= moduleDepth(node))
    return {};
  size_t begin = trace.find_last_of(" \n(=,", at);
  return trace.substr(begin == std::string_view::npos ? 0 : begin + 1, at - begin - 1);
}

/// Smooth and elementwise where all inputs are; shapes and constants beside.
bool isPlain(const onnx::NodeProto &node) {
  constexpr std::string_view kPlain[] = {
      "Add",      "Cast",     "CastLike",   "Constant", "Cos",     "Div",   "Erf",     "Exp",   "Expand",   "Gelu",
      "Identity", "Log",      "Mul",        "Neg",      "Pow",     "Rsqrt", "Reshape", "Shape", "Sigmoid",  "Sin",
      "Slice",    "Softplus", "Reciprocal", "Sqrt",     "Squeeze", "Sub",   "Swish",   "Tanh",  "Unsqueeze"};
  return std::find(std::begin(kPlain), std::end(kPlain), node.op_type()) != std::end(kPlain);
}

} // namespace

Status checkCustomFunctions(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes) {
  for (const onnx::NodeProto &node : nodes) {
    if (isPlain(node))
      continue;
    std::string_view function = customFunction(node);
    if (!function.empty())
      return Status::invalidInput(fmt::format(
          "node '{}' ({}, module '{}') came from {}.apply(), a function with a backward of its own, of which the file "
          "has nothing: its gradient would be the derivative of what it computes, which may be another; write it in "
          "plain PyTorch (a straight-through estimator as x + (f(x) - x).detach()), or freeze the component",
          node.name(), node.op_type(), moduleScope(node), function));
  }
  return {};
}

} // namespace maestro::planner
