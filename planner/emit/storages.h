// Where the tensors of an executable lie: at fixed places of its regions, in the rings of its edges, or wherever
// packing puts what lives for a while only.
//
//   add…() while functions are lowered ─▶ pack() ─▶ every storage has a region and an offset
//
// No MLIR.
#pragma once

#include "plan/plan_generated.h"

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace maestro::planner {

/// Where the bytes of one or several values (reshapes of each other) lie.
struct Storage {
  enum class Place : uint8_t {
    Arena,   ///< Packed by lifetime into the slot region.
    Slot,    ///< In the slot region for as long as the micro-batch is in flight (fields, loss sums).
    Channel, ///< In the ring of an edge's end.
    Region   ///< At a fixed offset of another region.
  };
  Place place = Place::Arena;
  plan::fb::RegionKind region = plan::fb::RegionKind::Slot;
  uint32_t channel = 0; ///< Which ring.
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t timeline = 0, first = 0, last = 0;
};

/// Programs run one after the other on a timeline of their own; Forward, Backward and WeightGradient share one.
enum Timeline : uint32_t { kCounting = 0, kTraining = 1, kEvaluation = 2 };

class StorageTable {
public:
  /// At the next free place of the region.
  uint32_t addFixed(plan::fb::RegionKind region, uint64_t bytes);
  /// In the slot, for as long as the micro-batch is in flight.
  uint32_t addSlot(uint64_t bytes);
  /// The ring of an edge's end, of `copies` slots.
  uint32_t addRing(uint32_t edge, bool gradient, uint64_t bytes, uint32_t copies);
  /// Lives on its timeline from time `first` to time `last`; packed.
  uint32_t addTransient(uint32_t timeline, uint32_t first, uint32_t last, uint64_t bytes);
  /// `bytes` of a region from `offset` on, over what lies there.
  uint32_t addRange(plan::fb::RegionKind region, uint64_t offset, uint64_t bytes);

  Storage &operator[](uint32_t index) { return storages[index]; }
  const Storage &operator[](uint32_t index) const { return storages[index]; }
  uint64_t regionBytes(plan::fb::RegionKind kind) { return bytesOf[kind]; }

  /// Gives transient storages their places. Programs run one after the other and share memory. With one slot, a
  /// micro-batch's tasks are one timeline in it; with several, what crosses from a task to another (the first ends at
  /// the first of `taskEnds`, and so on) is the slot's, the rest of each program is scratch.
  void pack(uint32_t slots, const std::vector<uint32_t> &taskEnds);
  uint64_t packedBytes() const { return arenaBytes; }      ///< What packing achieved …
  uint64_t packedBytesBound() const { return arenaBound; } ///< … and what no packing can beat.

  /// Index of the storage's region in what addRegions() appends.
  uint32_t regionOf(const Storage &storage) const;
  void addRegions(plan::fb::ExecutableT &executable, uint32_t slots);

private:
  struct Ring {
    uint32_t edge = 0;
    bool gradient = false;
    uint64_t bytes = 0;
    uint32_t copies = 1;
  };

  uint32_t add(const Storage &storage);
  uint64_t packInto(plan::fb::RegionKind region, const std::vector<uint32_t> &members, uint64_t base);

  std::vector<Storage> storages;
  std::map<plan::fb::RegionKind, uint64_t> bytesOf;
  std::vector<Ring> rings;
  uint64_t arenaBytes = 0, arenaBound = 0;
};

} // namespace maestro::planner
