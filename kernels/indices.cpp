// The message about an index out of range, the same from every library.
#include "kernels/indices.h"

#include <fmt/format.h>

namespace maestro::kernels {

Status indexError(std::string_view kernel, int64_t index, int64_t position, int64_t low, int64_t limit) {
  return Status::invalidInput(
      fmt::format("{}: index {} at position {} is outside [{}, {})", kernel, index, position, low, limit));
}

} // namespace maestro::kernels
