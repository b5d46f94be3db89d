// Names of a checkpoint's files beside <component>.safetensors.
#pragma once

#include <string_view>

namespace maestro::plan {

/// optimizer.safetensors: no component may have this name.
inline constexpr std::string_view kOptimizerFile = "optimizer";
/// <component>.ema.safetensors: no component has a '.' in its name.
inline constexpr std::string_view kAveragesSuffix = ".ema";

} // namespace maestro::plan
