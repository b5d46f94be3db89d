// The last step of planning: programs in `nn`, the linked workload and the layout -> the plan's bytes.
#pragma once

#include "base/status.h"
#include "planner/emit/executable_lowering.h"
#include "planner/import/link.h"
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
};

/// The parameters of @graph in argument order. A shape with symbols is InvalidInput.
Result<std::vector<GraphParameter>> collectParameters(mlir::func::FuncOp graph);

/// What one section's micro-batches are bounded by, and why.
struct MicroBatchChoice {
  int64_t samples = 1;
  std::string reason;
  bool isPinned = false;
};

struct EmitInput {
  const Workload *workload = nullptr;
  const ClusterSpec *cluster = nullptr;
  const LinkedGraph *linked = nullptr;
  const std::vector<GraphParameter> *parameters = nullptr;
  mlir::ModuleOp programs; ///< @count, @forward, @backward
  MicroBatchChoice microBatch;
  std::string planFolder; ///< Sources' paths are written relative to it.
  std::vector<DefaultTaken> decisions;
};

struct EmittedPlan {
  std::vector<uint8_t> bytes;
  uint64_t peakBytes = 0;
  LoweringReport report;
};

Result<EmittedPlan> emitPlan(const EmitInput &input);

} // namespace maestro::planner
