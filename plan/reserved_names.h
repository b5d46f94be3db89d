// Names that a component may not have, since files of a checkpoint have them.
#pragma once

#include <string_view>

namespace maestro::plan {

/// optimizer.safetensors lies beside <component>.safetensors.
inline constexpr std::string_view kOptimizerFile = "optimizer";

} // namespace maestro::plan
