// Shapes near a shape: one change away, or small enough where it does not fit.
#include "planner/search/shapes.h"

#include <algorithm>
#include <cstdlib>

namespace maestro::planner {
namespace {

/// Neighbours have up to so many stages more or fewer.
constexpr int64_t kNearStages = 4;

} // namespace

/// One section otherwise: its size of micro-batches, its cut, fewer replicas.
void Shapes::addSections(const Shape &shape, uint32_t section, uint32_t devices, std::vector<Shape> &found) const {
  const SearchPins &pins = problem.pins[section];
  const ShapeOption &own = shape.options[section];
  auto add = [&](const ShapeOption &option) {
    Shape next = shape;
    next.options[section] = option;
    found.push_back(std::move(next));
  };
  for (uint32_t m = 0; !pins.microBatch && m < problem.model.microBatches.size(); ++m)
    if (m + 1 == own.microBatch || m == own.microBatch + 1)
      add({own.cut, m, own.replicas});
  auto now = static_cast<int64_t>(cuts.of(section)[own.cut].cut.stages());
  for (uint32_t cut = 0; cut < cuts.of(section).size(); ++cut) {
    auto stages = static_cast<uint32_t>(cuts.of(section)[cut].cut.stages());
    uint32_t replicas = replicasOf(section, stages, devices);
    if (cut != own.cut && replicas > 0 && std::abs(static_cast<int64_t>(stages) - now) <= kNearStages)
      add({cut, own.microBatch, replicas});
  }
  if (own.replicas > 1 && !pins.dataParallel)
    add({own.cut, own.microBatch, own.replicas - std::max(1u, own.replicas / 8)});
}

/// Some devices from one group to another, or that none has; the groups then run as is best there.
void Shapes::addMoves(const Shape &shape, uint32_t stride, std::vector<Shape> &found) {
  size_t groups = shape.groups.size();
  uint32_t free = problem.machine.devices;
  for (const ShapeGroup &group : shape.groups)
    free -= std::min(free, group.devices);
  for (size_t from = 0; from <= groups; ++from)
    for (size_t to = 0; to < groups; ++to)
      for (uint32_t times : {1u, 2u, 3u, 4u, 6u, 8u}) {
        uint32_t moved = stride * times;
        bool isThere =
            from < groups ? shape.groups[from].pinned.empty() && moved < shape.groups[from].devices : moved <= free;
        if (from == to || !isThere || !shape.groups[to].pinned.empty())
          continue;
        Shape next = shape;
        next.groups[to].devices += moved;
        bool possible = refit(next, to);
        if (from < groups) {
          next.groups[from].devices -= moved;
          possible = possible && refit(next, from);
        }
        if (possible)
          found.push_back(std::move(next));
      }
}

/// The best options of a group on the devices that it has.
bool Shapes::refit(Shape &shape, size_t group) {
  const ShapeGroup &own = shape.groups[group];
  std::vector<const std::vector<Estimate> *> lists;
  for (uint32_t section : own.sections)
    lists.push_back(&tabled(section, own.devices));
  GroupEstimate fitted = fit(lists);
  for (size_t i = 0; i < fitted.chosen.size(); ++i)
    shape.options[own.sections[i]] = fitted.chosen[i].option;
  return !fitted.chosen.empty();
}

std::vector<Shape> Shapes::neighbours(const Shape &shape, uint32_t stride, bool keepsGroups) {
  std::vector<Shape> found;
  for (const ShapeGroup &group : shape.groups)
    for (uint32_t section : group.sections)
      addSections(shape, section, group.devices, found);
  if (!keepsGroups)
    addMoves(shape, stride, found);
  found.push_back(shape);
  found.back().byStage = !shape.byStage;
  for (Shape &next : found)
    evaluate(next);
  std::stable_sort(found.begin(), found.end(), [](const Shape &a, const Shape &b) { return a.seconds < b.seconds; });
  return found;
}

bool Shapes::shrink(Shape &shape, const std::vector<uint32_t> &sections, uint64_t excess) const {
  std::optional<Shape> best;
  for (const ShapeGroup &group : shape.groups)
    for (uint32_t section : group.sections) {
      uint64_t now = bytesIn(shape, section, shape.options[section]);
      if (std::find(sections.begin(), sections.end(), section) == sections.end() || now <= excess)
        continue;
      for (const ShapeOption &option : fastestWithin(shape, section, group.devices, now - excess)) {
        Shape next = shape;
        next.options[section] = option;
        if (double seconds = evaluatePlaced(next); !best || seconds < best->seconds)
          best = std::move(next);
      }
    }
  if (best)
    shape = std::move(*best);
  return best.has_value();
}

} // namespace maestro::planner
