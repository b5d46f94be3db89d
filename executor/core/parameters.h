// Values of parameters: where they come from (precedence: --weights, then the plan's source, which already
// prefers the workload's weights to the model's; then the seeded initializer), and back to the host
// for gradients and checkpoints.
#pragma once

#include "base/status.h"
#include "executor/core/executable.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace maestro::executor {

/// component -> safetensors file, index or folder, as given by --weights.
using WeightFiles = std::map<std::string, std::string>;

struct LoadSummary {
  uint64_t bytes = 0;
  size_t fromWeights = 0, fromPlan = 0, seeded = 0;
};

/// Writes every parameter that the executable binds into its Value buffer, converted to the buffer's
/// element type. A file that is missing, has another size than the plan noted, or lacks a parameter
/// without initializer is InvalidInput and names parameter and file.
Result<LoadSummary> loadParameters(const plan::Plan &plan, const WeightFiles &weights, uint64_t seed,
                                   ExecutableInstance &instance, Device &device);

/// Says which of the files that values come from were written again since the plan was made: with the same size they
/// may still hold other values, or the same in other places.
void warnOfChangedFiles(const plan::Plan &plan);

/// Reads a bound buffer (Value, Gradient, Moment1, Moment2) of a parameter to the host as a whole, in the buffer's own
/// element type. Waits for the device.
Status readBound(ExecutableInstance &instance, Device &device, plan::fb::BindingKind kind, uint32_t parameter,
                 std::vector<std::byte> &bytes);

} // namespace maestro::executor
