// What an import function sees of one ONNX node: its inputs (known values or tensors), its attributes, its
// outputs, and the emitter.
#pragma once

#include "planner/import/emitter.h"

#include <onnx/onnx_pb.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace maestro::planner {

class ImportState;

/// What a name of the graph stands for.
struct ImportedValue {
  mlir::Value tensor; ///< Null while only `folded` is known.
  std::shared_ptr<const FoldedTensor> folded;
  std::shared_ptr<const std::vector<ImportedValue>> sequence;

  /// The places where this i1 tensor is true: the result of NonZero, whose size depends on data. It is
  /// no tensor here; the operators around it must be a masked scatter.
  mlir::Value nonZeroOf;
  DimExpr nonZeroCount;
  bool nonZeroTransposed = false; ///< [count, rank] instead of [rank, count].

  /// Not empty: nothing may read this value, and this says why.
  std::string refusal;

  static ImportedValue of(mlir::Value tensor) {
    ImportedValue value;
    value.tensor = tensor;
    return value;
  }
  static ImportedValue of(FoldedTensor folded) {
    ImportedValue value;
    value.folded = std::make_shared<const FoldedTensor>(std::move(folded));
    return value;
  }
  static ImportedValue refused(std::string why) {
    ImportedValue value;
    value.refusal = std::move(why);
    return value;
  }
};

/// Names of one graph or function body.
using Scope = std::unordered_map<std::string, ImportedValue>;

class NodeContext {
public:
  NodeContext(const onnx::NodeProto &node, int64_t version, Scope &scope, Emitter &emitter, ImportState &state)
      : node(node), version(version), e(emitter), state(state), scope(scope) {}

  const onnx::NodeProto &node;
  /// The operator set version in which the operator got its present meaning.
  const int64_t version;
  Emitter &e;
  /// The import as a whole: file, options, arguments that operators add.
  ImportState &state;

  // Inputs.
  int inputCount() const { return node.input_size(); }
  bool has(int input) const { return input < node.input_size() && !node.input(input).empty(); }
  /// The value, whatever it is; fails where the input is absent.
  Result<ImportedValue *> value(int input);
  /// The tensor, formed from known values where needed.
  Result<mlir::Value> tensor(int input);
  /// The known value, or null.
  const FoldedTensor *folded(int input);
  Result<Shape> shape(int input);
  Result<DType> dtype(int input);
  /// A known vector or scalar of integers that may depend on dims; `what` names it in the message.
  Result<Shape> dimList(int input, const char *what);
  /// One that may not.
  Result<Ints> intList(int input, const char *what);
  Result<double> number(int input, const char *what);

  // Attributes.
  const onnx::AttributeProto *attribute(const char *name) const;
  int64_t intAttribute(const char *name, int64_t fallback) const;
  double floatAttribute(const char *name, double fallback) const;
  std::string textAttribute(const char *name, const char *fallback) const;
  std::optional<Ints> intsAttribute(const char *name) const;

  /// The list that is attribute `name` in old versions and input `input` in newer ones.
  Result<std::optional<Ints>> axes(int input, const char *name);
  /// `axis` from 0; fails outside [−rank, rank).
  Result<int64_t> normalizeAxis(int64_t axis, int64_t rank) const;
  /// All of them, each once, ascending.
  Result<Ints> normalizeAxes(const Ints &axes, int64_t rank) const;

  // Outputs.
  int outputCount() const { return node.output_size(); }
  bool wants(int output) const { return output < node.output_size() && !node.output(output).empty(); }
  Status set(int output, ImportedValue value);
  Status set(int output, mlir::Value tensor) { return set(output, ImportedValue::of(tensor)); }
  Status set(int output, FoldedTensor folded);
  Status set(int output, Result<mlir::Value> tensor);

private:
  Scope &scope;
};

/// Imports one node: reads its inputs, emits operators, sets its outputs.
using ImportFunction = Status (*)(NodeContext &node);

} // namespace maestro::planner
