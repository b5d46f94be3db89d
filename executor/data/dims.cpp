#include "executor/data/dims.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace maestro::data {

int64_t Dims::elements() const {
  int64_t product = 1;
  for (int64_t size : shape())
    product *= size;
  return product;
}

std::string toString(const Dims &dims) {
  return fmt::format("[{}]", fmt::join(dims.shape(), ", "));
}

} // namespace maestro::data
