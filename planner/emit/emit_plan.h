// The last step of planning: programs in `nn`, the linked workload and the layout -> the plan's tables.
#pragma once

#include "base/dtype.h"
#include "base/status.h"
#include "cost_models/compound.h"
#include "ir/dim_expr.h"
#include "plan/plan_generated.h"
#include "planner/emit/executable_lowering.h"
#include "planner/emit/operator_works.h"
#include "planner/import/parameter_info.h"
#include "planner/workload/workload.h"

#include "mlir/IR/BuiltinOps.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
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

/// Features take the places of a field's elements of this value: `perRow` for each row of the dim.
struct GraphMark {
  int64_t value = 0;
  std::string rows;
  int64_t perRow = 1;
  bool operator==(const GraphMark &) const = default;
};

/// A data field of @graph.
struct GraphField {
  std::string name;
  DType dtype = DType::F32;
  std::vector<DimExpr> shape;
  double pad = 0;
  int64_t indexLimit = 0; ///< > 0: the field indexes an embedding, or a loss's classes, of this size.
  std::optional<int64_t> ignoreIndex;
  bool optional = false;     ///< Its sum dim belongs to this modality alone.
  bool ownPositions = false; ///< Made from the samples' sizes.
  std::vector<GraphMark> marks;
};

inline constexpr size_t kQuartiles = 3;
/// A named dim with its defaults filled in.
struct GraphDim {
  std::string name;
  bool sum = false;
  int64_t max = 1, multipleOf = 1;
  double typical = 1;                             ///< Of a sample that has any: its rows (sum), its length (max).
  std::array<int64_t, kQuartiles> quartiles = {}; ///< Likewise, ascending; 0: nothing is known.
  double presence = 1;                            ///< Of all samples, those that have any.
  std::optional<std::string> unpadded;            ///< Samples of equal length only share a micro-batch, and why.
  bool maxIsSaid = false;                         ///< By a model's metadata alone.
  std::string maxSource = {};                     ///< Where max is from, for people.
};

/// A loss of @graph, before decompose-loss splits it into terms.
struct GraphLoss {
  std::string name;
  double weight = 1;
  bool fromGraph = false;
  std::string note; ///< What of its definition the name does not say.
};

/// What @graph says about itself, collected before differentiation takes it apart.
struct GraphSummary {
  std::vector<GraphParameter> parameters; ///< In argument order.
  std::vector<GraphField> fields;
  std::vector<GraphDim> dims;
  std::vector<GraphLoss> losses;
  std::string noSynthetic; ///< Why samples cannot be made up, or empty.
};

/// A parameter with symbolic dims is InvalidInput. Reads the module's nn.dims.
Result<GraphSummary> summarizeGraph(mlir::func::FuncOp graph, const Workload &workload);
/// What devices hold of the summary's parameters, once precisions were lowered.
void noteHeldTypes(mlir::func::FuncOp graph, GraphSummary &summary);

/// A choice of the planner, kept in the plan for people.
struct Decision {
  std::string subject, choice, reason;
  bool isDefault = true;
};

std::unique_ptr<plan::fb::DecisionT> decisionTable(const Decision &decision);

/// Where and how one section runs: what the search decides.
struct SectionLayout {
  int64_t microBatch = 1; ///< Samples of the greatest length that a micro-batch holds (micro_batch_limits.h).
  std::string microBatchReason;
  bool microBatchIsPinned = false;
  bool isCountedInSamples = false; ///< Short samples count as much as the longest: pinned so.
  int64_t mostSamples = 0;         ///< A micro-batch holds no more, however short they are; 0: as many as fit.
  int64_t moreInFlight = 0;        ///< Micro-batches, beside the usual ones (cost_models/in_flight.h).
  int64_t stages = 1;              ///< As the partition pass cut it.
  int64_t tensor = 1;              ///< Devices that share each stage of each replica.
  /// replica × (stage × tensor): the device.
  std::vector<std::vector<uint32_t>> devices = {{0}};
  size_t replicas() const { return devices.size(); }
  /// The devices of one station, in their order.
  std::vector<uint32_t> group(size_t replica, size_t stage) const {
    auto first = devices[replica].begin() + static_cast<ptrdiff_t>(stage) * tensor;
    return {first, first + tensor};
  }
};

struct EmitInput {
  const Workload *workload = nullptr;
  const GraphSummary *graph = nullptr;
  mlir::ModuleOp sections; ///< section.section, section.edge, and a module of programs for each stage.
  std::map<std::string, SectionLayout> layouts; ///< By section.
  cost_models::Machine machine;
  std::string machineName = "this machine";
  uint32_t nodes = 1;
  uint32_t deviceThreads = 0; ///< CPU threads of each device; 0: all of the machine's.
  std::string planFolder;     ///< Sources' paths are written relative to it.
  std::vector<Decision> decisions;
  uint32_t leastSlots = 1; ///< Micro-batches in flight on each stage, at least.
  std::shared_ptr<OperatorWorks> works =
      std::make_shared<OperatorWorks>(); ///< Copies share it: emissions of one context.
};

/// What a device holds.
struct DeviceMemory {
  uint64_t peakBytes = 0;
  uint64_t residentBytes = 0; ///< Of it: parameters, gradients, optimizer state, whatever the micro-batch;
  uint64_t scratchBytes = 0;  ///< and kernels' scratch, the most of any station's.
  std::vector<std::string> stations;
};

struct EmittedPlan {
  plan::fb::PlanT tables; ///< Its step is the busiest device's work; plan::finish() makes bytes of it.
  bool fits = false;      ///< Each device holds its part.
  std::vector<DeviceMemory> devices;
  std::vector<LoweringReport> reports; ///< By executable.
  std::vector<double> presence;        ///< By Plan.sections: of all samples, those that take part.
  std::vector<std::vector<cost_models::BytesTerm>> edgeBytes; ///< By Plan.edges, over Plan.symbols.

  /// The device that holds most.
  const DeviceMemory &fullest() const;
};

Result<EmittedPlan> emitPlan(const EmitInput &input);

} // namespace maestro::planner
