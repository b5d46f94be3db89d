// The last step of planning: programs in `nn`, the linked workload and the layout -> the plan's bytes.
#pragma once

#include "base/dtype.h"
#include "base/status.h"
#include "ir/dim_expr.h"
#include "planner/emit/executable_lowering.h"
#include "planner/import/parameter_info.h"
#include "planner/workload/workload.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <string>
#include <vector>

namespace maestro::planner {

/// A parameter of @graph, collected before differentiation takes the graph apart.
struct GraphParameter {
  std::string fullName; ///< "component/state.dict.name"
  std::string component;
  ParameterInfo info;
  DType dtype = DType::F32; ///< Of the function's argument: what the device holds.
  std::vector<int64_t> shape;
  bool trainable = false;
  std::optional<DType> sourceDtype; ///< Of the bytes at info.source, where it is not info.dtype.
};

/// A data field of @graph.
struct GraphField {
  std::string name;
  DType dtype = DType::F32;
  std::vector<DimExpr> shape;
  double pad = 0;
  int64_t indexLimit = 0; ///< > 0: the field indexes an embedding, or a loss's classes, of this size.
  std::optional<int64_t> ignoreIndex;
  bool optional = false; ///< Its sum dim belongs to this modality alone.
};

/// A named dim with its defaults filled in.
struct GraphDim {
  std::string name;
  bool sum = false;
  int64_t max = 1, multipleOf = 1;
};

/// A loss of @graph, before decompose-loss splits it into terms.
struct GraphLoss {
  std::string name;
  double weight = 1;
  bool fromGraph = false;
};

/// What @graph says about itself, collected before differentiation takes it apart.
struct GraphSummary {
  std::vector<GraphParameter> parameters; ///< In argument order.
  std::vector<GraphField> fields;
  std::vector<GraphDim> dims;
  std::vector<GraphLoss> losses;
};

/// A parameter with symbolic dims is InvalidInput. Reads the module's nn.dims.
Result<GraphSummary> summarizeGraph(mlir::func::FuncOp graph, const Workload &workload);

/// A choice of the planner, kept in the plan for people.
struct Decision {
  std::string subject, choice, reason;
  bool isDefault = true;
};

/// What one section's micro-batches are bounded by, and why.
struct MicroBatchChoice {
  int64_t samples = 1;
  std::string reason;
  bool isPinned = false;
};

struct EmitInput {
  const Workload *workload = nullptr;
  const GraphSummary *graph = nullptr;
  mlir::ModuleOp programs; ///< @count, @forward, @backward
  MicroBatchChoice microBatch;
  uint64_t deviceBytes = 0; ///< Memory of each device of the machine.
  std::string planFolder; ///< Sources' paths are written relative to it.
  std::vector<Decision> decisions;
};

struct EmittedPlan {
  std::vector<uint8_t> bytes;  ///< Empty when the plan does not fit the device: such plans are not made.
  uint64_t peakBytes = 0;
  uint64_t residentBytes = 0;  ///< Of it: parameters, gradients, optimizer state, whatever the micro-batch.
  LoweringReport report;
};

Result<EmittedPlan> emitPlan(const EmitInput &input);

} // namespace maestro::planner
