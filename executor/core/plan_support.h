// What a plan may ask for and this executor does not do.
#pragma once

#include "base/status.h"
#include "plan/plan.h"

namespace maestro::executor {

/// InvalidInput with the first such thing, its value and the remedy. The rest of the executor relies on it as it does
/// on the verifier.
Status checkSupported(const plan::Plan &plan);

} // namespace maestro::executor
