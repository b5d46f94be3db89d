// Initializers and weightless inputs: which are parameters, buffers and constants, and what the exporter's
// optimizer did to them.
//
// PyTorch's files say what each one is. In others, floating point initializers of rank 1 and more are
// parameters, except BatchNorm's statistics; everything else is a constant.
#pragma once

#include "planner/import/import_state.h"
#include "planner/import/lost_calls.h"
#include "planner/import/metadata.h"
#include "planner/import/optimizer_recovery.h"

namespace maestro::planner {

/// PARAMETER or BUFFER.
bool isParameterKind(std::string_view kind);

class GraphParameters {
public:
  GraphParameters(ImportState &state, Emitter &emitter, const GraphSignature &signature);

  /// Defines every initializer and weightless input in `scope`.
  Status add(Scope &scope);
  /// The graph's nodes as they are to be imported.
  const google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes() const { return *graphNodes; }

private:
  Status addConstant(const onnx::TensorProto &tensor, Scope &scope);
  Status addInitializer(const onnx::TensorProto &tensor, Scope &scope);
  Status addWeightless(const onnx::ValueInfoProto &input, Scope &scope);
  Status addParameter(const std::string &name, nn::TensorType type, ParameterInfo info, Scope &scope);
  SignatureEntry describe(const std::string &name) const;
  void collectSaidAliases(std::set<std::string> &present);
  void collectAliases();
  const std::string *aliasByScope(const SignatureEntry &entry, const std::vector<const onnx::NodeProto *> &nodes) const;
  std::vector<std::string> namesakes(const SignatureEntry &entry) const;
  Status refuseLost() const;
  Status undoOptimizer();
  void noteAbsentees() const;
  void noteFixed() const;
  void collectStatistics();
  void collectReads();
  Status addRecovered(const RecoveredParameter &parameter, Scope &scope);

  ImportState &state;
  Emitter &emitter;
  const GraphSignature &signature;
  const google::protobuf::RepeatedPtrField<onnx::NodeProto> *graphNodes;
  std::unordered_map<std::string, const onnx::ValueInfoProto *> infos;
  /// Whether the file says of any tensor what it is.
  bool described = false;
  /// Parameter's name in the graph -> further state_dict names.
  std::unordered_map<std::string, std::vector<std::string>> aliases;
  /// State_dict names that the graph does not contain, and those of parameters among them.
  std::vector<std::string> absentees, absentParameters;
  /// State_dict names of the parameters that have no gradient in PyTorch.
  std::vector<std::string> fixed;
  /// Running means and variances of BatchNormalization nodes.
  std::set<std::string> statistics;
  /// Numbers that say how an operator works.
  std::set<std::string> settings;
  /// What nodes and outputs read.
  std::set<std::string> reads;
  OptimizerRecovery recovery;
  LostCalls lost;
  LostCalls::Nodes detached; ///< The graph's nodes with the calls of detach() that were lost.
};

} // namespace maestro::planner
