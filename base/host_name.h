// What this machine is called.
#pragma once

#include <string>

namespace maestro {

std::string hostName();

} // namespace maestro
