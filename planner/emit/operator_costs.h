// What operators cost on a kind of device, as polynomials of the dims.
//
// The cost model answers for sizes; schedules need an answer for every micro-batch. So an operator's time is taken to
// be linear in its work (the operations, or the bytes, whichever decides at the bounds): the line that is wrong least,
// relatively, at usual sizes of micro-batches and at the bounds. Times bend where operands leave a cache and jump with
// each wave of tiles, and few micro-batches are as at the bounds: a line through these and half of them said 56 % more
// of an encoder's layer on 4 of 64 pictures than an H200 takes (test/cost_models/h200_times.txt). A CPU's built-in
// rates are linear already.
#pragma once

#include "cost_models/operator_time.h"
#include "planner/emit/cost_polynomial.h"
#include "planner/emit/micro_batch_limits.h"
#include "planner/emit/operator_works.h"

#include "mlir/IR/Operation.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace maestro::planner {

struct OperatorCost {
  std::string kernel;   ///< Empty: a view, which costs nothing.
  CostPolynomial terms; ///< Picoseconds, without the call's own.
  double seconds = 0;   ///< At the bounds.
  cost_models::Provenance provenance = cost_models::Provenance::BuiltIn;
};

/// Of one device and micro-batches. Operators with equal operands, results and attributes are asked once: layers
/// repeat.
class OperatorCosts {
public:
  OperatorCosts(const cost_models::DeviceModel &device, const MicroBatchLimits &limits, OperatorWorks &works,
                plan::PlanBuilder &tables);

  const OperatorCost &of(mlir::Operation &op);

private:
  OperatorCost ask(mlir::Operation &op);

  const cost_models::DeviceModel &device;
  const MicroBatchLimits &limits;
  OperatorWorks &works;
  plan::PlanBuilder &tables;
  OperatorMap<OperatorCost> known;
};

} // namespace maestro::planner
