#include "plan/capacity.h"

#include "plan/dims.h"
#include "plan/plan_generated.h"

#include <algorithm>
#include <optional>
#include <utility>

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

namespace {

/// Numbers of rows that share a corner.
struct Rows {
  int64_t least, last;
};

/// The corners' rows, ascending; none where there are no areas.
class Staircase {
public:
  explicit Staircase(const Capacity &capacity) {
    if (capacity.areas.empty())
      return;
    most = capacity.bounds[capacity.areas.front().rows];
    int64_t first = most; // So many of the longest samples are within all areas.
    for (const Capacity::Area &area : capacity.areas)
      first = std::min(first, area.value / std::max<int64_t>(1, capacity.bounds[area.padded]));
    next = std::max<int64_t>(1, first);
  }

  std::optional<Rows> step() {
    if (next > most)
      return std::nullopt;
    int64_t last = next <= kExactRows ? next : std::min(most, next + next / kPartOfRows);
    return Rows{std::exchange(next, last + 1), last};
  }

private:
  int64_t next = 1, most = 0;
};

} // namespace

size_t countLargestMicroBatches(const Capacity &capacity) {
  size_t count = capacity.areas.empty();
  for (Staircase rows(capacity); rows.step();)
    ++count;
  return count;
}

Status forEachLargestMicroBatch(const Capacity &capacity,
                                const std::function<Status(std::span<const int64_t>)> &visit) {
  if (capacity.areas.empty())
    return visit(capacity.bounds);
  std::vector<int64_t> corner = capacity.bounds;
  Staircase stairs(capacity);
  while (auto rows = stairs.step()) {
    corner[capacity.areas.front().rows] = rows->last;
    for (const Capacity::Area &area : capacity.areas) {
      int64_t multiple = std::max<int64_t>(1, capacity.multiples[area.padded]);
      int64_t padded = area.value / rows->least / multiple * multiple;
      corner[area.padded] = std::min(capacity.bounds[area.padded], std::max(padded, multiple));
    }
    MAESTRO_TRY(visit(corner));
  }
  return Status();
}

std::vector<std::vector<int64_t>> largestMicroBatches(const Capacity &capacity) {
  std::vector<std::vector<int64_t>> corners;
  (void)forEachLargestMicroBatch(capacity, [&](std::span<const int64_t> sizes) {
    corners.emplace_back(sizes.begin(), sizes.end());
    return Status();
  });
  return corners;
}

} // namespace maestro::plan
