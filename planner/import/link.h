// Links the components of a workload along their edges, adds the losses, and yields one function:
//
//   func.func @graph(fields, random state, parameters) -> (sum and count, or mean, of each loss)
//
// Arguments and results say what they are by the attributes of passes/attributes.h and parameter_info.h; a
// field also carries nn.pad. The module gets nn.dims. The components' own functions disappear.
#pragma once

#include "planner/import/importer.h"
#include "planner/workload/workload.h"

#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <string>
#include <vector>

namespace maestro::planner {

/// Of the dims that count rows, by how many fields have rows of it: the samples' own is what most fields share. A
/// sample is one row of it where nothing else is said; of the others (images, clips) it may have several, or none.
std::string samplesOwnDim(const std::map<std::string, size_t> &fieldsByRows);

struct LinkedGraph {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// What was inferred, joined, recovered or taken by default, for people.
  std::vector<std::string> notes;
};

/// Reads and imports every model of `workload`, then links them. The dialects are loaded into `context`.
Result<LinkedGraph> importWorkload(const Workload &workload, mlir::MLIRContext &context);

/// Links functions that importModel() made in `module`, in the order of workload.components.
Result<std::vector<std::string>> linkComponents(const Workload &workload, mlir::ModuleOp module,
                                                const std::vector<mlir::func::FuncOp> &components);

} // namespace maestro::planner
