// The memory of each rank that others may write: one segment a rank, in which every protocol has its places.
//
// Where a place lies follows from the plan alone: every rank reserves the same places in the same order, so nobody has
// to tell offsets. Only where a segment itself is, is told: as an address in memory that ranks share, by a descriptor
// to processes of the same machine, and between machines by the fabric.
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

/// Reserves places.
class SegmentPlan {
public:
  explicit SegmentPlan(uint32_t ranks) : segments(ranks) {}
  Place reserve(uint32_t rank, uint64_t bytes) {
    Place place{rank, segments[rank].bytes};
    segments[rank].bytes += alignBlock(bytes);
    return place;
  }
  /// One behind the other.
  WordPlace reserveWords(uint32_t rank, uint32_t count) {
    WordPlace first{reserve(rank, count * sizeof(Word)), static_cast<uint32_t>(segments[rank].words.size())};
    for (uint32_t i = 0; i < count; ++i)
      segments[rank].words.push_back((first + i).offset);
    return first;
  }
  uint64_t bytes(uint32_t rank) const { return segments[rank].bytes; }
  uint32_t ranks() const { return static_cast<uint32_t>(segments.size()); }
  /// Offsets of the rank's words, by index.
  const std::vector<uint64_t> &words(uint32_t rank) const { return segments[rank].words; }

private:
  struct Segment {
    uint64_t bytes = 0;
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
      segments.all[rank] = {nullptr, plan.bytes(rank), plan.words(rank)};
    for (uint32_t rank = here.first; rank < here.end; ++rank) {
      MAESTRO_ASSIGN(void *base, memory.allocate(plan.bytes(rank), "rank " + std::to_string(rank) + "'s segment"));
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

  RankRange ranksHere() const { return here; }
  uint32_t ranks() const { return static_cast<uint32_t>(all.size()); }
  uint64_t bytes(uint32_t rank) const { return all[rank].bytes; }
  uint32_t words(uint32_t rank) const { return static_cast<uint32_t>(all[rank].words.size()); }
  Target target(const Place &place) const { return {memoryOf(place), fabric, place}; }
  WordTarget target(const WordPlace &place) const { return {reinterpret_cast<Word *>(memoryOf(place)), fabric, place}; }

  // ---- of ranks whose segments are mapped

  std::byte *at(const Place &place) const { return memoryOf(place); }
  template <typename T> T *as(const Place &place) const { return reinterpret_cast<T *>(at(place)); }
  Word *word(const WordPlace &place) const { return as<Word>(place); }
  std::span<std::byte> segment(uint32_t rank) const { return {all[rank].base, all[rank].bytes}; }
  /// Null where the rank has no such word.
  Word *word(uint32_t rank, uint32_t index) const {
    const Segment &own = all[rank];
    return index < own.words.size() ? reinterpret_cast<Word *>(own.base + own.words[index]) : nullptr;
  }

private:
  struct Segment {
    std::byte *base = nullptr; ///< Null: not mapped.
    uint64_t bytes = 0;
    std::vector<uint64_t> words; ///< Offsets, by index.
  };
  std::byte *memoryOf(const Place &place) const {
    std::byte *base = all[place.rank].base;
    return base ? base + place.offset : nullptr;
  }

  RankRange here;
  std::vector<Segment> all; ///< By rank.
  Fabric *fabric = nullptr;
};

} // namespace maestro::transport
