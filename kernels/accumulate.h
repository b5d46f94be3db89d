// Adding to a result instead of overwriting it, for kernels that only know how to overwrite.
#pragma once

#include "kernels/kernel.h"

namespace maestro::kernels {

/// Bit i of the call's `accumulate` attribute: result i is added to.
inline uint64_t accumulateMask(const CallSpec &spec) {
  return static_cast<uint64_t>(spec.attributes.getInt("accumulate", 0));
}

/// Runs `inner` (prepared without `accumulate`) with the results named by the mask in scratch
/// memory, then adds them to the caller's results in f32 (f64 for f64, wrapping for integers).
std::unique_ptr<Kernel> makeAccumulating(const CallSpec &spec, std::unique_ptr<Kernel> inner);

/// out[i] += in[i] with conversion between element types; the loop behind `add_into`.
void addElements(void *out, DType outType, const void *in, DType inType, int64_t count);

} // namespace maestro::kernels
