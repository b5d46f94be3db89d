// ONNX graph -> `func.func @<component>` of `nn` operators.
//
// Arguments, in this order: the graph's inputs that data or edges feed (nn.field), the random state and
// sample ids where something drops out (nn.special), parameters, buffers and large constants (nn.parameter,
// see parameter_info.h). Results: the graph's outputs (nn.output). Locations: the ONNX node's name over
// its module's scope.
#pragma once

#include "base/status.h"
#include "planner/import/onnx_file.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace maestro::planner {

struct ImportOptions {
  /// The function's name and the prefix of its parameters' names.
  std::string component = "model";
  /// Upper bound of a symbol, for the strides of dropout's random numbers; 1024 where unknown.
  std::function<std::optional<int64_t>(std::string_view)> boundOf;
  /// Put before the names of dims that the exporter invented ("s17"), which mean nothing outside their
  /// own graph; set it when several components are linked.
  std::string inventedDimPrefix;
  /// Nothing of it trains.
  bool frozen = false;
};

/// On the function: {seq = 512}, symbols that a constant tensor of that length bounds (a table of positions that
/// the graph slices, or looks positions up in).
inline constexpr llvm::StringLiteral kDimBoundsAttribute = "nn.dim_bounds";

/// Likewise, what maestro.export says of the component's dims (metadata.h).
inline constexpr llvm::StringLiteral kSaidBoundsAttribute = "nn.said_bounds";

struct ImportedModel {
  mlir::func::FuncOp function;
  /// What was recovered or assumed, for people.
  std::vector<std::string> notes;
};

/// Imports `file` as a function at the end of `module`. The dialects nn and func must be loaded. On
/// failure the module is as it was.
Result<ImportedModel> importModel(const OnnxFile &file, const ImportOptions &options, mlir::ModuleOp module);

/// Erases the operators whose results nothing reads.
void eraseUnused(mlir::func::FuncOp function);

/// Loads the dialects that importModel() builds.
void loadImportDialects(mlir::MLIRContext &context);

} // namespace maestro::planner
