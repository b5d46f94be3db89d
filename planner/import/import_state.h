// What the import of one graph shares between its nodes: the file, the function being built, and the
// arguments that operators ask for while it is built.
#pragma once

#include "planner/import/importer.h"
#include "planner/import/node_context.h"
#include "planner/import/parameter_info.h"

#include <map>

namespace maestro::planner {

class ImportState {
public:
  ImportState(const OnnxFile &file, const ImportOptions &options) : file(file), options(options) {}

  const OnnxFile &file;
  const ImportOptions &options;
  mlir::func::FuncOp function;
  std::vector<std::string> notes;
  /// Largest values of symbols, where the graph slices a constant length by them or looks their positions up in a
  /// table.
  std::map<std::string, int64_t> dimBounds;
  /// Records value <= most where that bounds a single symbol.
  void boundDim(const DimExpr &value, int64_t most);

  /// A further parameter, buffer or constant.
  mlir::Value addParameter(nn::TensorType type, const ParameterInfo &info);
  /// i64 [2]: seed and step; i64 [samples]. One argument each, made at first use.
  mlir::Value randomState(Emitter &emitter);
  mlir::Value sampleIds(Emitter &emitter);

  /// Counts the operators that draw random numbers, so that each has a stream of its own.
  int64_t nextStream() { return streams++; }
  /// Counts sizes that depend on data.
  DimExpr inventDim(std::string_view what);

  /// The value of a TensorProto: known where small, an operator or argument otherwise. `name` names it
  /// in messages and as an argument.
  Result<ImportedValue> constant(const onnx::TensorProto &tensor, const std::string &name, Emitter &emitter);

private:
  mlir::Value addArgument(nn::TensorType type, llvm::StringRef attribute, llvm::StringRef value);
  mlir::Value random, samples;
  int64_t streams = 0;
  int64_t invented = 0;
};

/// The symbol that counts a micro-batch's samples, for those who draw random numbers per sample.
inline constexpr const char *kSamplesDim = "samples";

} // namespace maestro::planner
