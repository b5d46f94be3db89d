// The families' prepare functions; library.cpp maps names to them. Each returns nullptr (in an ok Result) for element
// types that it does not cover.
#pragma once

#include "kernels/cuda/sequence.h"

namespace maestro::kernels::cuda {

using Prepare = PreparedKernel (*)(const Call &call);

// elementwise.cpp
PreparedKernel prepareUnary(const Call &call);
PreparedKernel prepareBinary(const Call &call);
PreparedKernel prepareWhere(const Call &call);
PreparedKernel prepareCast(const Call &call); ///< cast, copy, add_into

/// Runs `inner` (prepared without `accumulate`) with the results that the mask names in scratch memory, then adds them.
PreparedKernel makeAccumulating(const Call &call, std::unique_ptr<Kernel> inner); // accumulate.cpp

} // namespace maestro::kernels::cuda
