// What the devices that share a section's tensors tell each other inside a program: sums and gathers of tensors whose
// place and size change from call to call. In a turn every member writes its bytes into every other's staging
// (one-sided), counts that, waits for the others' counts, and reads what they wrote. The result of a sum is
// ((m0 + m1) + m2) + …, in member order, whatever the timing.
//
// Staging has two halves. A member that begins turn n + 2 has seen everybody's turn n + 1 written, and whoever writes
// it has read turn n: a half is never overwritten under a reader, and nobody waits twice in a turn. Larger tensors take
// several turns; all members make the same calls in the same order.
//
// One write to each other member is right for few members on one machine; for many, scatter and gather in pieces as
// reduction.h does. All of it is queued on the member's device. Nothing allocates after creation.
#pragma once

#include "executor/device/device.h"
#include "transport/segments.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace maestro::executor {

struct ExchangeDescription {
  std::string name;             ///< For errors.
  std::vector<uint32_t> ranks;  ///< By member; at least two.
  uint64_t turnBytes = 1 << 20; ///< Of one member in one turn, at most: a multiple of 64.
};

class Exchange {
public:
  /// Reserves staging and words in each member's segment.
  static Result<Exchange> plan(transport::SegmentPlan &plan, const ExchangeDescription &description);

  class Member {
  public:
    /// The sum over members of `count` floats each, to every member's `result`, which may be `own`.
    void sum(Queue queue, Address own, Address result, uint64_t count);
    /// Every member has `runs` runs of `runBytes`; each result run is the members' runs, one after the other.
    void gather(Queue queue, Address own, Address result, uint64_t runs, uint64_t runBytes);

    uint32_t index() const { return self; }
    uint32_t members() const;

  private:
    friend class Exchange;
    Member(std::shared_ptr<const struct ExchangeState> state, uint32_t self, Device &device);
    Status open(const transport::Segments &segments);
    void turn(Queue queue, Address own, uint64_t bytes);
    void placeRuns(Queue queue, Address own, Address result, uint64_t runs, uint64_t runBytes, uint64_t stride);
    Address row(uint32_t at, uint32_t from, uint64_t turn) const;
    Address part(uint32_t member, Address own) const;

    std::shared_ptr<const ExchangeState> state;
    uint32_t self;
    Device *device;
    std::vector<Address> staging;             ///< By member.
    std::vector<transport::WordTarget> words; ///< Member × half.
    std::vector<Address> parts;               ///< Of the sum that is being queued.
    uint64_t turns = 0;                       ///< Queued.
  };

  /// This rank's; the device must outlive it.
  Result<Member> member(const transport::Segments &segments, uint32_t index, Device &device) const;

private:
  std::shared_ptr<const ExchangeState> state;
};

} // namespace maestro::executor
