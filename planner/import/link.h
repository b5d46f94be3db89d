// Components, edges and losses -> one `@graph`.
#pragma once

#include "base/status.h"
#include "planner/workload/workload.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace maestro::planner {

/// A data field of the linked graph.
struct LinkedField {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::string> shape; ///< Dims as text: a symbol or an integer.
  double pad = 0;
  int64_t indexLimit = 0; ///< > 0: the field indexes an embedding (or a loss's classes) of this size.
  std::optional<int64_t> ignoreIndex;
  bool optional = false; ///< Its sum dim belongs to this modality alone.
};

struct LinkedGraph {
  std::vector<LinkedField> fields; ///< In the order of @graph's field arguments.
  std::vector<DimSpec> dims;       ///< Every symbol that occurs, given or defaulted.
  std::vector<LossSpec> losses;    ///< Every loss, given or found; names unique.
  std::vector<DefaultTaken> defaults;
  std::vector<std::string> notes;
};

/// Inlines the functions of the components (one func.func each, as importModel() made them) into
/// `@graph`, which follows passes/attributes.h, and erases them. Frozen parameters lose nn.trainable,
/// all other floating point parameters of kind "parameter" have it. Sets the module's nn.dims.
Result<LinkedGraph> linkComponents(const Workload &workload, mlir::ModuleOp module);

} // namespace maestro::planner
