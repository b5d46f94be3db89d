// Micro-batches regrouped across the whole batch, and the order in which they should flow.
//
// The trunk's come first (trunk_flow.h). Every other section forms its own along them: whole trunk micro-batches
// together, or equal pieces of one, so that nothing waits in a circle.
#pragma once

#include "wavefront/groups.h"
#include "wavefront/replica_loads.h"
#include "wavefront/trunk_flow.h"

namespace maestro::wavefront {

/// Keeps its memory.
class Regrouper {
public:
  void prepare(const Problem &problem, const ProblemIndex &index);
  /// Forms groups, deals them to replicas, and gives each its place in the forward and in the backward flow.
  void form(const Problem &problem, const ProblemIndex &index, const Choice &choice, Groups &groups);

  /// All samples as the last form() has them: alike ones side by side, or as they flow.
  void listSamples(bool flowing, std::vector<uint32_t> &samples) const;
  int64_t theoryPerReplica(const Problem &problem, const ProblemIndex &index) {
    return sizes.theoryPerReplica(problem, index, work);
  }
  int64_t maxPerReplica() const { return work.maxPerReplica; }
  bool areAlike() const {
    return work.longestNs[work.trunk] * work.activeCount[work.trunk] == work.sectionNs[work.trunk];
  }

  std::vector<int64_t> forwardKey, backwardKey; ///< By group.
  size_t compared = 0; ///< In the last form(): micro-batches looked at for a sample or for their turn,
  size_t sorted = 0;   ///< and samples sorted.

private:
  /// What is added to a section's micro-batches at a time: samples of one trunk micro-batch, or one beside the trunk.
  struct Unit {
    std::vector<uint32_t> samples;
    const TrunkGroup *group = nullptr; ///< none: beside the trunk.
    int64_t time = 0, timePart = TrunkGroup::kFullTime;
  };

  void dealTrunk(const Problem &problem);
  void formTrunk(const Problem &problem, Groups &groups);
  template <typename Visit> void forEachUnit(uint32_t section, Visit visit);
  void formAlong(const Problem &problem, uint32_t section, Groups &groups);
  void addUnit(const Problem &problem, uint32_t section, Groups &groups);
  void cutUnit(const Problem &problem, uint32_t section, Groups &groups);
  bool joins(const Problem &problem, uint32_t section, std::span<const uint32_t> samples, const Groups &groups);
  int64_t timeLimit(uint32_t section) const;
  int64_t pieceCount(const Problem &problem, uint32_t section) const;
  int64_t unitNs(uint32_t section) const;
  void deal(const Problem &problem, uint32_t section, Groups &groups);

  SampleWork work;
  MicroBatchSizes sizes;
  TrunkFlow flow;
  ReplicaLoads loads;
  Unit unit;
  bool closed = true;             ///< The section's last micro-batch takes no further unit.
  std::vector<int64_t> reach;     ///< By trunk replica: the first trunk micro-batch in the section's last; -1: none.
  std::vector<int64_t> positions; ///< By trunk replica: how many it has.
  std::vector<int64_t> held;      ///< Dims that are being combined.
  std::vector<int64_t> groupNs;   ///< By micro-batch of the section that is dealt out.
};

} // namespace maestro::wavefront
