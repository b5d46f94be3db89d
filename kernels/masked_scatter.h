// What a masked scatter refuses, in the same words by every library.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <string>

namespace maestro::kernels {

inline Status maskAsksForMore(int64_t available, int64_t position) {
  return Status::invalidInput("masked_scatter: the mask asks for more than the source's " + std::to_string(available) +
                              " elements (at position " + std::to_string(position) +
                              "); give as many features as there are marked places");
}

/// What one sample leaves over, the next one would take: which one that is depends on the grouping.
inline Status maskTakesFewer(int64_t taken, int64_t available) {
  return Status::invalidInput("masked_scatter: the mask takes " + std::to_string(taken) + " of the source's " +
                              std::to_string(available) +
                              " elements; give as many features as there are marked places");
}

} // namespace maestro::kernels
