#include "plan/capacity.h"

#include "plan/dims.h"
#include "plan/plan_generated.h"

#include <algorithm>

namespace maestro::plan {

/// Rows up to which each number of them has a corner of its own; beyond, steps are of so much of the rows.
static constexpr int64_t kExactRows = 64, kPartOfRows = 32;

Capacity capacityOf(const fb::Plan &plan, const fb::Executable &executable) {
  Capacity capacity;
  capacity.bounds.assign(plan.symbols()->size(), DimTable::kUndefined);
  for (const fb::Symbol *symbol : *plan.symbols())
    capacity.multiples.push_back(symbol->multiple_of());
  for (const fb::Bound *bound : *executable.bounds())
    capacity.bounds[bound->symbol()] = bound->value();
  for (uint32_t i = 0; executable.areas() && i < executable.areas()->size(); ++i) {
    const fb::Area &area = *executable.areas()->Get(i);
    capacity.areas.push_back({area.rows(), area.padded(), area.value()});
  }
  return capacity;
}

std::vector<std::vector<int64_t>> largestMicroBatches(const Capacity &capacity) {
  if (capacity.areas.empty())
    return {capacity.bounds};
  uint32_t rows = capacity.areas.front().rows;
  int64_t most = capacity.bounds[rows];
  int64_t first = most; // So many of the longest samples are within all areas.
  for (const Capacity::Area &area : capacity.areas)
    first = std::min(first, area.value / std::max<int64_t>(1, capacity.bounds[area.padded]));
  std::vector<std::vector<int64_t>> corners;
  for (int64_t least = std::max<int64_t>(1, first), last; least <= most; least = last + 1) {
    last = least <= kExactRows ? least : std::min(most, least + least / kPartOfRows);
    std::vector<int64_t> &corner = corners.emplace_back(capacity.bounds);
    corner[rows] = last;
    for (const Capacity::Area &area : capacity.areas) {
      int64_t multiple = std::max<int64_t>(1, capacity.multiples[area.padded]);
      int64_t padded = area.value / least / multiple * multiple;
      corner[area.padded] = std::min(capacity.bounds[area.padded], std::max(padded, multiple));
    }
  }
  return corners;
}

} // namespace maestro::plan
