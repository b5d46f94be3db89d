// What the process of an executable needs beside the executable's regions, from its calls at the dims' bounds; on a GPU
// of the GPU's memory.
#pragma once

#include "cost_models/device_rates.h"
#include "plan/plan_generated.h"

#include <cstdint>
#include <span>

namespace maestro::planner {

struct HostBytes {
  uint64_t own = 0;     ///< The executable's: its calls, what its micro-batches are put together in.
  uint64_t scratch = 0; ///< Of its kernels, and the heap's holes: the largest of a device's executables counts.
  uint64_t process = 0; ///< Once on a device: the program, its threads, samples on their way.

  uint64_t all() const { return own + scratch + process; }
};

/// `values` are Plan.exprs at the bounds.
HostBytes hostBytes(const plan::fb::PlanT &plan, const plan::fb::ExecutableT &executable,
                    std::span<const int64_t> values, int threads, cost_models::Bf16Products bf16);

/// Likewise of the memory of the GPU that runs it.
HostBytes gpuBytes(const plan::fb::PlanT &plan, const plan::fb::ExecutableT &executable,
                   std::span<const int64_t> values);

} // namespace maestro::planner
