#include "planner/emit/storages.h"

#include "planner/emit/arena.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace maestro::planner {
namespace {

namespace fb = plan::fb;

/// Rings follow.
constexpr std::array<fb::RegionKind, 7> kRegionOrder = {
    fb::RegionKind::Parameters, fb::RegionKind::Gradients, fb::RegionKind::OptimizerState, fb::RegionKind::Constants,
    fb::RegionKind::Step,       fb::RegionKind::Slot,      fb::RegionKind::Workspace};

uint64_t aligned(uint64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

} // namespace

uint32_t StorageTable::add(const Storage &storage) {
  storages.push_back(storage);
  return storages.size() - 1;
}

uint32_t StorageTable::addFixed(fb::RegionKind region, uint64_t bytes) {
  Storage storage;
  storage.place = Storage::Place::Region;
  storage.region = region;
  storage.offset = bytesOf[region];
  storage.bytes = bytes;
  bytesOf[region] += aligned(bytes);
  return add(storage);
}

uint32_t StorageTable::addSlot(uint64_t bytes) {
  uint32_t index = addFixed(fb::RegionKind::Slot, bytes);
  storages[index].place = Storage::Place::Slot;
  return index;
}

uint32_t StorageTable::addRing(uint32_t edge, bool gradient, uint64_t bytes, uint32_t copies) {
  Storage storage;
  storage.place = Storage::Place::Channel;
  storage.region = fb::RegionKind::Channel;
  storage.channel = rings.size();
  storage.bytes = bytes;
  rings.push_back({edge, gradient, aligned(bytes), copies});
  return add(storage);
}

uint32_t StorageTable::addTransient(uint32_t timeline, uint32_t first, uint32_t last, uint64_t bytes) {
  Storage storage;
  storage.bytes = bytes;
  storage.timeline = timeline;
  storage.first = first;
  storage.last = last;
  return add(storage);
}

uint32_t StorageTable::addRange(fb::RegionKind region, uint64_t offset, uint64_t bytes) {
  Storage storage;
  storage.place = Storage::Place::Region;
  storage.region = region;
  storage.offset = offset;
  storage.bytes = bytes;
  return add(storage);
}

/// Packs the storages into a region from `base` on; returns where they end.
uint64_t StorageTable::packInto(fb::RegionKind region, const std::vector<uint32_t> &members, uint64_t base) {
  std::vector<Lifetime> lifetimes;
  for (uint32_t s : members)
    lifetimes.push_back({storages[s].first, storages[s].last, storages[s].bytes});
  ArenaLayout layout = packArena(lifetimes);
  for (size_t i = 0; i < members.size(); ++i) {
    storages[members[i]].region = region;
    storages[members[i]].offset = base + layout.offsets[i];
  }
  if (layout.bytes > arenaBytes)
    arenaBytes = layout.bytes, arenaBound = liveBytesBound(lifetimes);
  return base + layout.bytes;
}

void StorageTable::pack(uint32_t slots, const std::vector<uint32_t> &taskEnds) {
  auto taskAt = [&](uint32_t time) {
    return std::upper_bound(taskEnds.begin(), taskEnds.end(), time) - taskEnds.begin();
  };
  std::map<std::pair<uint32_t, ptrdiff_t>, std::vector<uint32_t>> scratch; // (timeline, task)
  std::vector<uint32_t> kept;
  bool several = slots > 1;
  for (uint32_t s = 0; s < storages.size(); ++s) {
    const Storage &storage = storages[s];
    if (storage.place != Storage::Place::Arena)
      continue;
    bool crosses = storage.timeline == kTraining && (!several || taskAt(storage.first) != taskAt(storage.last));
    if (crosses)
      kept.push_back(s);
    else
      scratch[{storage.timeline, storage.timeline == kTraining ? taskAt(storage.first) : 0}].push_back(s);
  }
  uint64_t slotBase = bytesOf[fb::RegionKind::Slot], scratchBase = bytesOf[fb::RegionKind::Workspace];
  uint64_t slotEnd = packInto(fb::RegionKind::Slot, kept, slotBase), scratchEnd = scratchBase;
  // Counting and evaluation may use what training keeps for itself: one slot is free then.
  bool inSlot = !several;
  uint64_t otherEnd = slotBase;
  for (auto &[key, members] : scratch) {
    if (inSlot)
      otherEnd = std::max(otherEnd, packInto(fb::RegionKind::Slot, members, slotBase));
    else
      scratchEnd = std::max(scratchEnd, packInto(fb::RegionKind::Workspace, members, scratchBase));
  }
  bytesOf[fb::RegionKind::Slot] = aligned(std::max(slotEnd, otherEnd));
  bytesOf[fb::RegionKind::Workspace] = aligned(scratchEnd);
}

uint32_t StorageTable::regionOf(const Storage &storage) const {
  if (storage.place == Storage::Place::Channel)
    return kRegionOrder.size() + storage.channel;
  return std::find(kRegionOrder.begin(), kRegionOrder.end(), storage.region) - kRegionOrder.begin();
}

void StorageTable::addRegions(fb::ExecutableT &executable, uint32_t slots) {
  for (fb::RegionKind kind : kRegionOrder) {
    auto region = std::make_unique<fb::RegionT>();
    region->kind = kind;
    region->bytes = bytesOf[kind];
    region->copies = kind == fb::RegionKind::Slot ? slots : 1;
    executable.regions.push_back(std::move(region));
  }
  for (const Ring &ring : rings) {
    auto region = std::make_unique<fb::RegionT>();
    region->kind = fb::RegionKind::Channel;
    region->bytes = ring.bytes;
    region->copies = ring.copies;
    region->edge = ring.edge;
    region->gradient = ring.gradient;
    executable.regions.push_back(std::move(region));
  }
}

} // namespace maestro::planner
