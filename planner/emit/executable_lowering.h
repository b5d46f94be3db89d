// From functions in the `nn` dialect to an executable of the plan: kernel calls on buffers at fixed
// offsets.
//
//   @forward, @backward, @weight_gradient ─▶ calls on storages ─▶ lifetimes ─▶ packArena() ─▶ buffers, regions,
//   programs
//
// With one micro-batch in flight, they form one timeline and share one arena: a
// saved activation's memory is free again the moment its gradient is computed. With several, each has
// a slot for what outlives its forward task, and all share a workspace. Parameters' gradients are
// accumulated in place by the kernels that produce them wherever those can add.
//
// What arrives over an edge lies in the ring of that edge's end; what leaves lies at a fixed place of
// the workspace, from where it is sent before the station's next task.
#pragma once

#include "base/status.h"
#include "cost_models/machine.h"
#include "plan/builder.h"
#include "planner/emit/operator_works.h"
#include "planner/emit/parameter_storages.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace maestro::planner {

struct MicroBatchLimits;

struct LoweringInput {
  mlir::func::FuncOp count, forward, backward, weightGradient; ///< All but forward may be null.
  mlir::func::FuncOp evaluate;                                 ///< Where it is not forward, else null.
  std::vector<ParameterSlot> parameters;                       ///< By Plan.parameters.
  std::map<std::string, uint32_t> fields;                      ///< Name to Plan.fields.
  std::map<std::pair<std::string, int64_t>, uint32_t> losses;  ///< (name, term) to Plan.losses.
  const MicroBatchLimits *limits = nullptr;
  const plan::fb::TrainingT *training = nullptr;
  std::map<std::string, uint32_t> edges;  ///< Name to Plan.edges.
  uint32_t slots = 1;                     ///< Micro-batches in flight.
  std::map<std::string, uint32_t> depths; ///< Slots of each edge's ring here: "name", or "name'" for its gradient.
  OperatorWorks *works = nullptr;
  const cost_models::Machine *machine = nullptr; ///< For the programs' predicted times:
  std::vector<uint32_t> devices;                 ///< those of its stations, one after the other,
  uint32_t tensor = 1;                           ///< each of which has so many that share the section's tensors.
};

/// As the executor's exchange between tensor-parallel devices stages what they send (executor/world/exchange.h).
constexpr uint64_t kExchangeBytes = uint64_t{1} << 20;

/// What a section's functions say of a parameter that is split: its part's shape, and the dim.
struct SplitParameter {
  std::vector<int64_t> shape;
  uint32_t dim = 0;
};
std::map<std::string, SplitParameter> splitParametersOf(mlir::ModuleOp section);

/// The parameters that the functions of a section take, each once.
std::vector<std::string> parametersOf(mlir::ModuleOp section);

/// Where a program's predicted time comes from, at the bounds.
struct ProgramCost {
  plan::fb::ProgramKind kind = plan::fb::ProgramKind::Forward;
  const cost_models::DeviceModel *device = nullptr; ///< Of the machine that was planned for.
  double seconds = 0, callSeconds = 0, collectiveSeconds = 0;
  std::map<std::string, double> kernelSeconds;
  std::string collective;                                 ///< "ring over nvlink: …"; empty: none.
  bool measured = false, builtIn = false, scaled = false; ///< Where kernels' times come from.
};

struct LoweringReport {
  uint64_t arenaBytes = 0;            ///< What packing achieved …
  uint64_t liveBytesBound = 0;        ///< … and what no packing can beat.
  std::vector<std::string> heldEdges; ///< Whose ring the backward task reads, too.
  std::vector<ProgramCost> costs;     ///< Of programs with operators.
};

/// Fills regions, buffers, programs, bindings of `executable`. `tables` gains kernels, expressions,
/// attributes and scopes; the symbols must be there already.
Result<LoweringReport> lowerExecutable(const LoweringInput &input, plan::PlanBuilder &tables,
                                       plan::fb::ExecutableT &executable);

} // namespace maestro::planner
