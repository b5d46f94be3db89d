#include "executor/data/dims.h"

#include <string_view>

namespace maestro::data {

int64_t Dims::elements() const {
  int64_t product = 1;
  for (int64_t size : shape())
    product *= size;
  return product;
}

Dims withRows(const Dims &dims, int rank, int rows) {
  if (dims.rank == rank)
    return dims;
  Dims full;
  for (int d = 0, from = 0; d < rank; ++d)
    full.append(d == rows ? 1 : dims[from++]);
  return full;
}

std::string toString(const Dims &dims) {
  std::string text = "[";
  for (std::string_view separator = ""; int64_t size : dims.shape()) {
    text.append(separator).append(std::to_string(size));
    separator = ", ";
  }
  return text + "]";
}

} // namespace maestro::data
