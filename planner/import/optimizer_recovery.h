// Undoes what the exporter's default optimizer (optimize=True) does to training graphs, as far as the file still
// says how: each node carries the text of the call that it came from, and that text names the real parameters.
//
//   linear weights folded to their transpose (val_374)    -> the parameter, and a Transpose
//   equal parameters merged into one                      -> one parameter each, with the same first values
//   all-zero biases deleted                               -> parameters that start at zero
//
// What cannot be recovered with certainty is refused by name; `optimize=False` avoids all of it.
#pragma once

#include "planner/import/metadata.h"

#include <map>
#include <set>

namespace maestro::planner {

/// A parameter of the state_dict that the file has no initializer of its own for.
struct RecoveredParameter {
  std::string value; ///< Its name in the rewritten graph.
  SignatureEntry entry;
  std::vector<int64_t> shape;
  int32_t elementType = 0;
  const onnx::TensorProto *source = nullptr; ///< Null: it starts at zero.
  bool transposed = false;
};

class OptimizerRecovery {
public:
  /// `trains`: constants that were computed from parameters are refused.
  OptimizerRecovery(const onnx::GraphProto &graph, const GraphSignature &signature, bool trains);

  /// Whether the file shows the optimizer's traces.
  bool isNeeded() const { return needed; }
  Status run(const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes);

  const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes() const { return rewritten; }
  const std::vector<RecoveredParameter> &parameters() const { return recovered; }

private:
  struct Tensor {
    const onnx::TensorProto *proto = nullptr;
    SignatureEntry entry; ///< kind "" for what the optimizer made …
    std::string madeFrom; ///< … of this parameter, or "".
  };
  std::string parameterIn(const std::vector<std::string> &names) const;
  Status rewriteNode(onnx::NodeProto &node);
  Status checkWithoutText() const;
  Status splitMerged(onnx::NodeProto &node, const std::vector<int> &inputs, const std::vector<std::string> &names);
  Status restoreTransposed(onnx::NodeProto &node, int input, const std::string &name);
  Status restoreZeroBias(onnx::NodeProto &node, const std::string &name);
  Status refuse(const onnx::NodeProto &node, const std::string &tensor) const;
  const std::string &recover(const std::string &name, const onnx::TensorProto *source, std::vector<int64_t> shape,
                             int32_t elementType, bool transposed);
  const Tensor *find(const std::string &name) const;

  const GraphSignature &signature;
  const bool trains;
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> byTarget;   ///< state_dict name -> initializer.
  std::map<std::string, std::string> weightless; ///< Input without a value -> its name in the texts of calls.
  std::vector<RecoveredParameter> recovered;
  std::map<std::string, std::string> transposes; ///< parameter's value -> value of its transpose.
  google::protobuf::RepeatedPtrField<onnx::NodeProto> rewritten;
  bool needed = false;
};

} // namespace maestro::planner
