// How this machine's processor multiplies bf16.
#pragma once

#include "base/status.h"
#include "cost_models/device_rates.h"

namespace maestro::profile {

/// As the kernels' library does it here: asked for the scratch memory of a product.
Result<cost_models::Bf16Products> bf16Products();

} // namespace maestro::profile
