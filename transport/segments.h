// The memory of each rank that others may write: one segment a rank, in which every protocol has its places.
//
// Where a place lies follows from the plan alone: every rank reserves the same places in the same order, so nobody has
// to tell offsets. Only where a segment itself is, is told: as an address in memory that ranks share, by a descriptor
// to processes of the same machine, and between machines by the fabric.
//
//   host part   words, headers, records: what hosts read and write, too
//   bulk        rings, staging, gradients: what devices alone touch. Behind the host part, or in memory of the rank's
//               own device, where all that write to it reach that
#pragma once

#include "base/status.h"
#include "transport/fabric.h"
#include "transport/rank_range.h"
#include "transport/shared_memory.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace maestro::transport {

/// Reserves places. Both parts of a segment are whole pages.
class SegmentPlan {
public:
  explicit SegmentPlan(uint32_t ranks) : segments(ranks) {}
  Place reserve(uint32_t rank, uint64_t bytes) {
    Place place{rank, segments[rank].bytes};
    segments[rank].bytes += alignBlock(bytes);
    return place;
  }
  Place reserveBulk(uint32_t rank, uint64_t bytes) {
    Place place{rank, segments[rank].bulkBytes, true};
    segments[rank].bulkBytes += (bytes + kBulkAlignment - 1) / kBulkAlignment * kBulkAlignment;
    return place;
  }
  /// One behind the other.
  WordPlace reserveWords(uint32_t rank, uint32_t count) {
    WordPlace first{reserve(rank, count * sizeof(Word)), static_cast<uint32_t>(segments[rank].words.size())};
    for (uint32_t i = 0; i < count; ++i)
      segments[rank].words.push_back((first + i).offset);
    return first;
  }
  /// Both parts.
  uint64_t bytes(uint32_t rank) const { return hostBytes(rank) + bulkBytes(rank); }
  uint64_t hostBytes(uint32_t rank) const { return alignPage(segments[rank].bytes); }
  uint64_t bulkBytes(uint32_t rank) const { return alignPage(segments[rank].bulkBytes); }
  /// Behind the place, in its part.
  uint64_t room(const Place &place) const {
    const Segment &own = segments[place.rank];
    return (place.isBulk ? own.bulkBytes : own.bytes) - place.offset;
  }
  uint32_t ranks() const { return static_cast<uint32_t>(segments.size()); }
  /// Offsets of the rank's words, by index.
  const std::vector<uint64_t> &words(uint32_t rank) const { return segments[rank].words; }

private:
  static constexpr uint64_t kBulkAlignment = 256; ///< As kernels of GPUs like it.
  struct Segment {
    uint64_t bytes = 0, bulkBytes = 0;
    std::vector<uint64_t> words;
  };
  std::vector<Segment> segments; ///< By rank.
};

/// Segments as this process reaches them; those in its memory are all zero at first.
class Segments {
public:
  /// Makes the segments of ranks that are here, threads of this process or processes that it will fork, in one mapping,
  /// before ranks start.
  static Result<Segments> create(SharedMemory &memory, const SegmentPlan &plan, RankRange here) {
    Segments segments;
    segments.here = here;
    segments.all.resize(plan.ranks());
    for (uint32_t rank = 0; rank < plan.ranks(); ++rank)
      segments.all[rank] = {nullptr, plan.hostBytes(rank), plan.bulkBytes(rank), plan.words(rank)};
    for (uint32_t rank = here.first; rank < here.end; ++rank) {
      MAESTRO_ASSIGN(void *base,
                     memory.allocate(plan.bytes(rank), "rank " + std::to_string(rank) + "'s segment", kPageBytes));
      segments.all[rank].base = static_cast<std::byte *>(base);
    }
    return segments;
  }
  static Result<Segments> create(SharedMemory &memory, const SegmentPlan &plan) {
    return create(memory, plan, {0, plan.ranks()});
  }
  /// Where the segment of another process's rank is mapped here; it must outlive every end that is made.
  void map(uint32_t rank, std::byte *base) { all[rank].base = base; }
  /// The way to all others; likewise.
  void connect(Fabric &way) { fabric = &way; }
  /// The rank's bulk lies in memory of its device, which this process's devices have at this address.
  void placeBulk(uint32_t rank, std::byte *address) { all[rank].bulkOnDevice = address; }
  /// The rank's bulk is reached by a fabric of its own; it outlives every end that is made.
  void reachBulkBy(uint32_t rank, Fabric &way) { all[rank].bulkFabric = &way; }

  RankRange ranksHere() const { return here; }
  uint32_t ranks() const { return static_cast<uint32_t>(all.size()); }
  /// Of the memory of hosts, where all of it is there.
  uint64_t bytes(uint32_t rank) const { return all[rank].hostBytes + all[rank].bulkBytes; }
  uint64_t bulkBytes(uint32_t rank) const { return all[rank].bulkBytes; }
  bool isMapped(uint32_t rank) const { return all[rank].base != nullptr; }
  bool isBulkApart(uint32_t rank) const { return all[rank].bulkFabric != nullptr; }
  uint32_t words(uint32_t rank) const { return static_cast<uint32_t>(all[rank].words.size()); }
  Target target(const Place &place) const {
    const Segment &theirs = all[place.rank];
    if (place.isBulk && theirs.bulkFabric)
      return {nullptr, theirs.bulkFabric, place};
    if (place.isBulk && theirs.bulkOnDevice)
      return Target::onDevice(theirs.bulkOnDevice + place.offset);
    return {memoryOf(place), fabric, inSegment(place)};
  }
  /// A count comes behind what was written to the rank's bulk before.
  WordTarget target(const WordPlace &place) const {
    if (Fabric *bulkFabric = all[place.rank].bulkFabric)
      return {nullptr, bulkFabric, place};
    return directTarget(place);
  }
  /// The same, but on the way of the host part.
  WordTarget directTarget(const WordPlace &place) const {
    return {reinterpret_cast<Word *>(memoryOf(place)), fabric, place};
  }

  // ---- of ranks whose segments are mapped

  /// Not of bulk that lies on a device.
  std::byte *at(const Place &place) const { return memoryOf(place); }
  template <typename T> T *as(const Place &place) const { return reinterpret_cast<T *>(at(place)); }
  Word *word(const WordPlace &place) const { return as<Word>(place); }
  std::span<std::byte> segment(uint32_t rank) const { return {all[rank].base, bytes(rank)}; }
  std::span<std::byte> hostPart(uint32_t rank) const { return {all[rank].base, all[rank].hostBytes}; }
  std::span<std::byte> bulkPart(uint32_t rank) const { return segment(rank).subspan(all[rank].hostBytes); }
  /// Null where the rank has no such word.
  Word *word(uint32_t rank, uint32_t index) const {
    const Segment &own = all[rank];
    return index < own.words.size() ? reinterpret_cast<Word *>(own.base + own.words[index]) : nullptr;
  }

private:
  struct Segment {
    std::byte *base = nullptr; ///< Null: not mapped.
    uint64_t hostBytes = 0, bulkBytes = 0;
    std::vector<uint64_t> words;       ///< Offsets, by index.
    std::byte *bulkOnDevice = nullptr; ///< Null: behind the host part.
    Fabric *bulkFabric = nullptr;      ///< Null: it is reached as the host part is.
  };
  Place inSegment(const Place &place) const {
    return {place.rank, place.offset + (place.isBulk ? all[place.rank].hostBytes : 0)};
  }
  std::byte *memoryOf(const Place &place) const {
    std::byte *base = all[place.rank].base;
    return base ? base + inSegment(place).offset : nullptr;
  }

  RankRange here;
  std::vector<Segment> all; ///< By rank.
  Fabric *fabric = nullptr;
};

} // namespace maestro::transport
