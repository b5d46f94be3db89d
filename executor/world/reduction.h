// The sum of f32 vectors over the members of a group, in a fixed order, so the bits depend on nothing but the values
// and the stages: not on timing, nor on how the vector is cut. In one stage it is that of the members,
// ((m0 + m1) + m2) + …; in several (plan/sum_turns.h), groups add up their members in this way, then groups of groups.
//
// Every member has a gradient memory that all ranks share and a list of segments in it. Lists have the same counts, in
// the same order; offsets may differ (replicas, tied parameters). The concatenated segments are cut into turns, and
// each turn into one piece per member, its owner. A turn has two phases for each of k stages:
//
//   0           scatter: writes, to each peer of stage 0, the pieces that are left to it, in its staging (one-sided)
//   1 … k − 1   adds up the staged pieces where its own are; scatters them among the peers of the next stage
//   k           adds up its piece and writes the sum to its final place in every peer of the last stage
//   … 2 k − 1   writes what it then has of sums to its peers of the stage before, as far as stage 0
//
// and waits before each for what the peers did in the phase before. Phases of different turns are interleaved, so that
// writing and waiting overlap:
//
//   for tick in 0 … turns + phases − 2:   for phase in phases:   await(phase, tick − phase), work(phase, tick − phase)
//   awaitSum(last turn)
//
// Staging has a slot for each turn under way. Turns are counted from the start of the run: call c has turns
// [c · turns(), (c + 1) · turns()). From phase 0 of its first turn until awaitSum of its last one, a member leaves its
// segments alone. One member has no turns.
//
// All of it is queued on the member's device. Who is a member of several reductions may interleave them tick by tick
// and phase by phase, if all do in the same order. Nothing allocates after creation.
#pragma once

#include "executor/device/device.h"
#include "plan/sum_turns.h"
#include "transport/segments.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace maestro::executor {

struct ReductionSegment {
  uint64_t offset = 0; ///< In bytes from the member's base.
  uint64_t count = 0;  ///< Of floats.
};

struct ReductionMember {
  transport::Place base; ///< In the member's segment.
  std::vector<ReductionSegment> segments;
};

struct ReductionDescription {
  std::string name; ///< For errors.
  std::vector<ReductionMember> members;
  std::vector<uint32_t> degrees = {}; ///< Of stages; their product is the number of members. Empty: one stage.
  uint64_t stagingBytes = plan::kSumStagingBytes; ///< At most, per member.
  uint64_t blockFloats = 64 << 10; ///< Summed and then written to peers, so that they stay in a processor's cache.
};

class Reduction {
public:
  /// Reserves staging and words in each member's segment. Internal where members' lists differ, what they list is not
  /// in their segments, or degrees do not fit.
  static Result<Reduction> plan(transport::SegmentPlan &plan, const ReductionDescription &description);

  /// What each member stages.
  uint64_t stagingBytes() const;
  /// Members that write to each other, group by group.
  void forEachGroup(const std::function<void(const std::vector<uint32_t> &members)> &visit) const;

  class Member {
  public:
    uint64_t turns() const;
    uint32_t phases() const;

    void await(Queue queue, uint32_t phase, uint64_t turn);
    /// Internal where turns do not come in order, or a phase before the one that it follows.
    Status work(Queue queue, uint32_t phase, uint64_t turn);
    void awaitSum(Queue queue, uint64_t turn);

    /// All of a call.
    Status reduce(Queue queue, uint64_t call);

  private:
    friend class Reduction;
    Member(std::shared_ptr<const struct ReductionState> state, uint32_t self, Device &device);
    Status open(const transport::Segments &segments);
    /// Of a stage's group: a peer, or this member.
    struct Peer {
      uint32_t member = 0;
      Address base, staging;
      std::vector<transport::WordTarget> scattered, gathered; ///< By slot: at which it waits in this stage.
    };
    const Peer &own(uint32_t stage) const;
    Address place(const Peer &peer, size_t segment, uint64_t element) const;
    void awaitCount(Queue queue, const transport::WordTarget &own, uint64_t atLeast, uint64_t turn);
    void scatter(Queue queue, uint32_t stage, uint64_t turn);
    void add(Queue queue, uint32_t stage, uint64_t turn);
    void addBlock(Queue queue, uint32_t stage, uint64_t turn, Address sum, uint64_t position, uint64_t count);
    void tell(Queue queue, uint32_t stage, size_t segment, uint64_t element, uint64_t count);
    void gather(Queue queue, uint32_t stage, uint64_t turn);
    void signalGathered(Queue queue, uint32_t stage, uint64_t turn);

    std::shared_ptr<const ReductionState> state;
    uint32_t self;
    Device *device;
    std::vector<std::vector<Peer>> groups; ///< By stage, then by number.
    std::vector<Address> parts;            ///< Of the sum that is being queued.
    std::vector<uint64_t> done;            ///< Turns, by phase.
  };

  /// This rank's; the device must outlive it. It writes to its peers.
  Result<Member> member(const transport::Segments &segments, uint32_t index, Device &device) const;

private:
  std::shared_ptr<const ReductionState> state;
};

} // namespace maestro::executor
