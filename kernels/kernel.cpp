// Tensor types and attribute look-ups.
#include "kernels/kernel.h"

#include <algorithm>
#include <cassert>

namespace maestro::kernels {

TensorType::TensorType(DType dtype, std::span<const int64_t> shape)
    : present(true), dtype(dtype), rank(static_cast<int>(shape.size())) {
  assert(shape.size() <= static_cast<size_t>(kMaxRank) && "a tensor has at most kMaxRank dims");
  std::copy(shape.begin(), shape.end(), dims.begin());
}

int64_t TensorType::elements() const {
  int64_t count = 1;
  for (int64_t dim : shape())
    count *= dim;
  return count;
}

const Attribute *Attributes::find(std::string_view name) const {
  for (const Attribute &item : items)
    if (item.name == name)
      return &item;
  return nullptr;
}

int64_t Attributes::getInt(std::string_view name, int64_t fallback) const {
  const Attribute *item = find(name);
  return item && !item->ints.empty() ? item->ints[0] : fallback;
}

double Attributes::getFloat(std::string_view name, double fallback) const {
  const Attribute *item = find(name);
  return item && !item->floats.empty() ? item->floats[0] : fallback;
}

std::string_view Attributes::getText(std::string_view name, std::string_view fallback) const {
  const Attribute *item = find(name);
  return item && item->kind == Attribute::Kind::Text ? std::string_view(item->text) : fallback;
}

std::span<const int64_t> Attributes::getInts(std::string_view name) const {
  const Attribute *item = find(name);
  return item ? std::span<const int64_t>(item->ints) : std::span<const int64_t>();
}

} // namespace maestro::kernels
