// The sum of f32 vectors over the members of a group, in member order: ((m0 + m1) + m2) + …, so the bits depend on
// nothing but the values, not on timing, nor on how the vector is cut.
//
// Every member has a gradient memory that all ranks share and a list of segments in it. Lists have the same counts, in
// the same order; offsets may differ (replicas, tied parameters). The concatenated segments are cut into turns, and
// each turn into one piece per member, its owner. In a turn
//
//   scatter   writes each piece into its owner's staging (one-sided)
//             ... the owner waits for all members' writes                         awaitScattered
//   gather    sums the staged pieces in member order and writes the result to
//             its final place in every member
//             ... everybody waits for all owners                                  awaitGathered
//
// Staging has two halves, so one turn is scattered while the one before is summed; awaitStaging keeps a third out.
// Turns are counted from the start of the run: call c has turns [c · turns(), (c + 1) · turns()). From scatter of its
// first turn until awaitGathered of its last one, a member leaves its segments alone. One member has no turns.
//
//   for turn in call:   awaitStaging(turn), scatter(turn), awaitScattered(turn), gather(turn)
//   awaitGathered(last turn)
//
// All of it is queued on the member's device. Who is a member of several reductions may interleave their turns, if all
// do in the same order. Nothing allocates after creation.
#pragma once

#include "executor/device/device.h"
#include "transport/segments.h"

#include <cstdint>
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
  uint64_t stagingBytes = 8 << 20; ///< At most, per member.
};

class Reduction {
public:
  /// Reserves staging and words in each member's segment. Internal where members' lists differ, or what they list is
  /// not in their segments.
  static Result<Reduction> plan(transport::SegmentPlan &plan, const ReductionDescription &description);
  static uint64_t stagingBytesPerMember(const ReductionDescription &description);

  class Member {
  public:
    uint64_t turns() const;

    void awaitStaging(Queue queue, uint64_t turn);
    /// Internal where turns do not come in order; so does gather().
    Status scatter(Queue queue, uint64_t turn);
    void awaitScattered(Queue queue, uint64_t turn);
    Status gather(Queue queue, uint64_t turn);
    void awaitGathered(Queue queue, uint64_t turn);

    /// All of a call.
    Status reduce(Queue queue, uint64_t call);

  private:
    friend class Reduction;
    Member(std::shared_ptr<const struct ReductionState> state, uint32_t self, Device &device);
    Status open(const transport::Segments &segments);
    Address place(uint32_t member, size_t segment, uint64_t element) const;
    Address row(uint32_t owner, uint32_t from, uint64_t turn) const;
    const transport::WordTarget &scatteredWord(uint32_t member, uint64_t turn) const;
    const transport::WordTarget &gatheredWord(uint32_t member, uint64_t turn) const;
    void await(Queue queue, const transport::WordTarget &own, uint64_t atLeast, uint64_t turn);
    Status failure(uint64_t turn, const char *text) const;
    void sumBlock(Queue queue, uint64_t turn, size_t segment, uint64_t element, uint64_t position, uint64_t count);

    std::shared_ptr<const ReductionState> state;
    uint32_t self;
    Device *device;
    std::vector<Address> bases, staging;      ///< By member.
    std::vector<transport::WordTarget> words; ///< Member × its words.
    std::vector<Address> parts;               ///< Of the sum that is being queued.
    uint64_t scattered = 0, gathered = 0;     ///< Turns.
  };

  /// This rank's; the device must outlive it. It writes to all others.
  Result<Member> member(const transport::Segments &segments, uint32_t index, Device &device) const;

private:
  std::shared_ptr<const ReductionState> state;
};

} // namespace maestro::executor
