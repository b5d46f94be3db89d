#include "base/host_name.h"

#include <array>
#include <climits>
#include <unistd.h>

namespace maestro {

std::string hostName() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  (void)::gethostname(name.data(), name.size() - 1);
  return name.data();
}

} // namespace maestro
