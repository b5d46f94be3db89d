// The decisions that change a section's programs, and with them what its atoms cost and hold.
#pragma once

#include "base/recompute.h"

#include <compare>
#include <cstdint>

namespace maestro::cost_models {

/// How an atom's programs are made. A further decision (tensor, ZeRO, offload) is a field here: nothing is measured for
/// it until the search asks.
struct Variant {
  Recompute recompute = Recompute::None;
  bool splitBackward = false; ///< Weight gradients are tasks of their own.
  uint32_t lossChunks = 1;    ///< Of rows, behind a head.
  auto operator<=>(const Variant &) const = default;
};

} // namespace maestro::cost_models
