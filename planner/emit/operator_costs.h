// What operators cost on a kind of device, as polynomials of the dims.
//
// The cost model answers for sizes; schedules need an answer for every micro-batch. So an operator's time is taken to be linear in its
// work (the operations, or the bytes, whichever decides at the bounds). Built in, it is asked at the bounds and at half of them, and exact
// at both. Measured times bend where operands leave a cache, and few micro-batches are as at the bounds: there the line is the one that is
// wrong least, relatively, at usual sizes and at the bounds. A CPU's built-in rates are linear already.
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
  std::string kernel;    ///< Empty: a view, which costs nothing.
  CostPolynomial terms;  ///< Picoseconds, without the call's own.
  double seconds = 0;    ///< At the bounds.
  cost_models::Provenance provenance = cost_models::Provenance::BuiltIn;
};

/// Of one device and micro-batches. Operators with equal operands, results and attributes are asked once: layers repeat.
class OperatorCosts {
public:
  OperatorCosts(const cost_models::DeviceModel &device, const MicroBatchLimits &limits, OperatorWorks &works, plan::PlanBuilder &tables);

  const OperatorCost &of(mlir::Operation &op);

private:
  OperatorCost ask(mlir::Operation &op);

  const cost_models::DeviceModel &device;
  const MicroBatchLimits &limits;
  DimSizes half; ///< Of the bounds.
  OperatorWorks &works;
  plan::PlanBuilder &tables;
  OperatorMap<OperatorCost> known;
};

} // namespace maestro::planner
