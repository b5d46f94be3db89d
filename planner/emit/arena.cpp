#include "planner/emit/arena.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace maestro::planner {
namespace {

uint64_t rounded(uint64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

bool overlapInTime(const Lifetime &a, const Lifetime &b) { return a.first <= b.last && b.first <= a.last; }

/// Placed buffers, bucketed by time so that only those that may overlap are looked at.
class Placement {
public:
  explicit Placement(std::span<const Lifetime> lifetimes) : lifetimes(lifetimes) {
    layout.offsets.resize(lifetimes.size());
  }

  void place(uint32_t index) {
    const Lifetime &life = lifetimes[index];
    busy.clear();
    for (uint32_t other : placed)
      if (overlapInTime(life, lifetimes[other]))
        busy.push_back(other);
    // `placed` is kept sorted by offset, so `busy` is too: the first gap that is large enough wins.
    uint64_t offset = 0, size = rounded(life.bytes);
    for (uint32_t other : busy) {
      if (layout.offsets[other] >= offset + size)
        break;
      offset = std::max(offset, layout.offsets[other] + rounded(lifetimes[other].bytes));
    }
    layout.offsets[index] = offset;
    layout.bytes = std::max(layout.bytes, offset + size);
    auto position = std::lower_bound(placed.begin(), placed.end(), offset,
                                     [&](uint32_t a, uint64_t b) { return layout.offsets[a] < b; });
    placed.insert(position, index);
  }

  uint64_t bytes() const { return layout.bytes; }
  ArenaLayout take() { return std::move(layout); }

private:
  std::span<const Lifetime> lifetimes;
  std::vector<uint32_t> placed, busy;
  ArenaLayout layout;
};

using Score = double (*)(const Lifetime &);
double bySize(const Lifetime &l) { return static_cast<double>(l.bytes); }
double byDuration(const Lifetime &l) { return static_cast<double>(l.last) - l.first + 1; }
double byArea(const Lifetime &l) { return bySize(l) * byDuration(l); }
double byStart(const Lifetime &l) { return -static_cast<double>(l.first); }

} // namespace

uint64_t liveBytesBound(std::span<const Lifetime> lifetimes) {
  struct Change {
    uint32_t time;
    bool starts;
    uint64_t bytes;
  };
  std::vector<Change> changes;
  for (const Lifetime &life : lifetimes) {
    changes.push_back({life.first, true, rounded(life.bytes)});
    changes.push_back({life.last + 1, false, rounded(life.bytes)});
  }
  std::sort(changes.begin(), changes.end(), [](const Change &a, const Change &b) {
    return a.time != b.time ? a.time < b.time : a.starts < b.starts; // Ends come before starts.
  });
  uint64_t live = 0, most = 0;
  for (const Change &change : changes) {
    live = change.starts ? live + change.bytes : live - change.bytes;
    most = std::max(most, live);
  }
  return most;
}

ArenaLayout packArena(std::span<const Lifetime> lifetimes) {
  uint64_t bound = liveBytesBound(lifetimes);
  ArenaLayout best;
  bool found = false;
  for (Score score : {bySize, byArea, byDuration, byStart}) {
    std::vector<uint32_t> order(lifetimes.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      double x = score(lifetimes[a]), y = score(lifetimes[b]);
      return x != y ? x > y : lifetimes[a].bytes > lifetimes[b].bytes;
    });
    Placement placement(lifetimes);
    for (uint32_t index : order)
      placement.place(index);
    if (!found || placement.bytes() < best.bytes) {
      best = placement.take();
      found = true;
    }
    if (best.bytes <= bound)
      break;
  }
  return best;
}

Status verify(std::span<const Lifetime> lifetimes, const ArenaLayout &layout) {
  if (layout.offsets.size() != lifetimes.size())
    return Status::internal("arena: " + std::to_string(layout.offsets.size()) + " offsets for " +
                            std::to_string(lifetimes.size()) + " buffers");
  std::vector<uint32_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return layout.offsets[a] < layout.offsets[b]; });
  for (size_t i = 0; i < order.size(); ++i) {
    uint32_t a = order[i];
    uint64_t end = layout.offsets[a] + lifetimes[a].bytes;
    if (layout.offsets[a] % kArenaAlignment != 0 || end > layout.bytes)
      return Status::internal("arena: buffer " + std::to_string(a) + " is misaligned or outside");
    for (size_t j = i + 1; j < order.size() && layout.offsets[order[j]] < end; ++j)
      if (lifetimes[a].bytes > 0 && lifetimes[order[j]].bytes > 0 && overlapInTime(lifetimes[a], lifetimes[order[j]]))
        return Status::internal("arena: buffers " + std::to_string(a) + " and " + std::to_string(order[j]) +
                                " overlap");
  }
  return Status();
}

} // namespace maestro::planner
