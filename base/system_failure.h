// What the operating system refused, as a Status for people.
#pragma once

#include "base/status.h"

#include <string_view>

namespace maestro {

/// "cannot write 'run/x': No space left on device; free space there, or …": Unavailable, with the remedy that `error`
/// (an errno) suggests.
Status systemFailure(std::string_view action, std::string_view path, int error);

} // namespace maestro
