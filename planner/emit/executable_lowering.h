// From functions in the `nn` dialect to an executable of the plan: kernel calls on buffers at fixed
// offsets.
//
//   @forward, @backward ─▶ calls on storages ─▶ lifetimes ─▶ packArena() ─▶ buffers, regions, programs
//
// With one micro-batch in flight, forward and backward form one timeline and share one arena: a
// saved activation's memory is free again the moment its gradient is computed. Parameters' gradients
// are accumulated in place by the kernels that produce them wherever those can add.
#pragma once

#include "base/dtype.h"
#include "base/status.h"
#include "plan/builder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace maestro::planner {

/// The optimizer's per-parameter needs, in plan order.
struct ParameterSlot {
  std::string name; ///< "component/state.dict.name"
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  bool trainable = false;
  double weightDecay = 0;
};

struct LoweringInput {
  mlir::func::FuncOp count, forward, backward; ///< count and backward may be null.
  std::vector<ParameterSlot> parameters;       ///< By Plan.parameters.
  std::map<std::string, uint32_t> fields;      ///< Name to Plan.fields.
  std::map<std::pair<std::string, int64_t>, uint32_t> losses; ///< (name, term) to Plan.losses.
  std::map<std::string, int64_t> bounds;       ///< Largest value of each symbol in a micro-batch.
  const plan::fb::TrainingT *training = nullptr;
};

struct LoweringReport {
  uint64_t arenaBytes = 0;     ///< What packing achieved …
  uint64_t liveBytesBound = 0; ///< … and what no packing can beat.
};

/// Fills regions, buffers, programs, bindings of `executable`. `tables` gains kernels, expressions,
/// attributes and scopes; the symbols must be there already.
Result<LoweringReport> lowerExecutable(const LoweringInput &input, plan::PlanBuilder &tables,
                                       plan::fb::ExecutableT &executable);

} // namespace maestro::planner
