// Where things of a problem lie: dense numbers for stages of sections, replicas and stations, and the edges at each
// stage.
#pragma once

#include "wavefront/problem.h"

#include <span>

namespace maestro::wavefront {

constexpr uint32_t kNone = UINT32_MAX;

/// Lists of numbers, one list after the other; refilled without allocating.
struct Lists {
  std::vector<uint32_t> offsets, items;

  std::span<const uint32_t> operator[](size_t list) const {
    return {items.data() + offsets[list], items.data() + offsets[list + 1]};
  }
  size_t size() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  void clear() {
    offsets.assign(1, 0);
    items.clear();
  }
  void close() { offsets.push_back(static_cast<uint32_t>(items.size())); }

  /// `count` items spread over `lists` lists by listOf(item), in order.
  template <typename ListOf> void fill(size_t lists, size_t count, ListOf listOf) {
    offsets.assign(lists + 2, 0);
    for (size_t i = 0; i < count; ++i)
      ++offsets[listOf(i) + 2];
    for (size_t list = 2; list < lists + 2; ++list)
      offsets[list] += offsets[list - 1];
    items.resize(count);
    for (size_t i = 0; i < count; ++i)
      items[offsets[listOf(i) + 1]++] = static_cast<uint32_t>(i);
    offsets.pop_back();
  }
};

/// What the hot loops need of an Edge.
struct EdgeFacts {
  uint32_t producer, consumer, producerStage, consumerStage;
  uint32_t pair; ///< ProblemIndex.pairs; none inside a section.
  uint32_t depth, gradientDepth;
  bool gradient;
  bool held; ///< The ring's slot is read until the consumer's last backward task.
};

/// A stage has a number (its id) of its own over all sections; a station is a stage of one replica.
struct ProblemIndex {
  std::vector<uint32_t> firstStage;   ///< By section; one more at the end.
  std::vector<uint32_t> firstReplica; ///< By section; one more at the end.
  std::vector<uint32_t> firstStation; ///< By section; one more at the end.
  std::vector<uint32_t> sectionOfStage;
  std::vector<uint8_t> costsAsBefore; ///< By stage id: whether its tasks take as long as those of the stage before.
  std::vector<uint32_t> stationDevice, stationStage, stationReplica;
  Lists deviceStations;
  Lists edgesOut, edgesIn; ///< By stage id.
  std::vector<EdgeFacts> edges;
  struct Pair {
    uint32_t producer, consumer;
  };
  std::vector<Pair> pairs;

  uint32_t stageId(uint32_t section, uint32_t stage) const { return firstStage[section] + stage; }
  uint32_t replica(uint32_t section, uint32_t replica) const { return firstReplica[section] + replica; }
  uint32_t station(const Problem &problem, uint32_t section, uint32_t replica, uint32_t stage) const {
    return firstStation[section] + replica * static_cast<uint32_t>(problem.sections[section].stages.size()) + stage;
  }
  void build(const Problem &problem);
};

} // namespace maestro::wavefront
