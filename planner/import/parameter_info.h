// What a function's argument says about the tensor behind it: name, kind, and where its value lies.
#pragma once

#include "base/dtype.h"
#include "planner/import/onnx_file.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>
#include <string>
#include <vector>

namespace maestro::planner {

enum class ParameterKind {
  Parameter, ///< Trains unless frozen, where it is floating point.
  Buffer,    ///< Never trains; saved when persistent.
  Constant,  ///< A large constant of the graph: neither trained nor saved.
};

/// As attributes of the argument: nn.parameter = "component/name", nn.kind = "parameter" | "buffer" |
/// "constant", nn.aliases = ["lm_head.weight"], nn.not_persistent, nn.fixed, nn.source = {file, offset, length},
/// nn.transposed, nn.zeros, nn.elements = bf16 | f16 (where the argument's own type may be wider).
struct ParameterInfo {
  std::string name; ///< state_dict name, without the component.
  ParameterKind kind = ParameterKind::Parameter;
  bool persistent = true;
  bool requiresGrad = true;           ///< A Parameter without keeps its value.
  std::vector<std::string> aliases;   ///< Further state_dict names of the same tensor.
  std::optional<TensorSource> source; ///< Nothing: the file carries no value.
  /// The argument has the state_dict's shape, and the bytes at `source` hold its transpose (2-D).
  bool transposed = false;
  /// No source, because every value is zero at first.
  bool zeros = false;
  DType dtype = DType::F32; ///< The state_dict's, which is also that of the bytes at `source`.
};

void setParameterInfo(mlir::func::FuncOp function, unsigned argument, const std::string &component,
                      const ParameterInfo &info);
/// Nothing when the argument is no parameter.
std::optional<ParameterInfo> parameterInfo(mlir::func::FuncOp function, unsigned argument);

} // namespace maestro::planner
