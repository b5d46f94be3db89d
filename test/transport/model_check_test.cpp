// No interleaving of a small ring overwrites a slot in use, delivers twice or without a payload, or deadlocks; and the
// checker is one that notices: protocols with one step wrong are caught, each for its own reason.
#include "test/transport/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maestro::transport::model {
namespace {

std::string describe(const Outcome &outcome) {
  std::string text = outcome.fault + "; agents:";
  for (uint8_t agent : outcome.trace)
    text += " " + std::to_string(agent);
  return text;
}

void expectNoFault(const char *what, const Setup &setup) {
  Outcome outcome = Checker<Correct>(setup).explore();
  EXPECT_EQ(outcome.fault, "") << what << ": " << describe(outcome);
  EXPECT_GT(outcome.ends, 0u) << what;
  std::printf("%-52s %9lu states, %lu ends\n", what, static_cast<unsigned long>(outcome.states),
              static_cast<unsigned long>(outcome.ends));
}

TEST(ModelCheck, NoInterleavingBreaksTheProtocol) {
  expectNoFault("2 producers, 2 slots, 4 sequences", {2, 2, 4});
  expectNoFault("2 producers, 1 slot, 4 sequences", {2, 1, 4});
  expectNoFault("1 producer, 3 slots, 7 sequences", {1, 3, 7});
}

TEST(ModelCheck, OrdersWithinTheWindowAreFree) {
  expectNoFault("producers in orders of their own", {2, 2, 4, {{1, 0, 3, 2}, {0, 1, 2, 3}}});
  expectNoFault("consumer awaits in another order", {2, 2, 4, {}, {1, 0, 3, 2}});
  expectNoFault("1 producer, 3 slots, all orders mixed", {1, 3, 6, {{2, 0, 1, 4, 5, 3}}, {1, 2, 0, 3, 5, 4}});
}

TEST(ModelCheck, SequencesWithoutPosts) {
  expectNoFault("nothing is posted to sequence 1, 2 slots", {2, 2, 3, {}, {}, 0b010});
  expectNoFault("nothing is posted to sequences 1 and 2, 1 slot", {2, 1, 4, {}, {}, 0b0110});
}

TEST(ModelCheck, AbortAtAnyMomentEndsEveryWait) {
  expectNoFault("abort, 2 producers, 1 slot, 2 sequences", {2, 1, 2, {}, {}, 0, true});
  expectNoFault("abort, 1 producer, 2 slots, 4 sequences", {1, 2, 4, {}, {}, 0, true});
}

// Wrong protocols. Each differs from the right one in one point.

struct OneSlotTooMany : Correct {
  struct CreditCondition : protocol::CreditCondition {
    template <class Ring> protocol::Verdict step(Ring &ring) {
      return sequence <= ring.released() + ring.slots() ? protocol::Verdict::Yes : protocol::Verdict::No;
    }
  };
};

struct CreditJumpsOverGaps : Correct {
  struct Release : protocol::Release {
    template <class Ring> void step(Ring &ring, uint64_t sequence) {
      if (at == At::Scan) {
        released = sequence + 1 > before ? sequence + 1 : before;
        at = released > before ? At::Publish : At::NotifyArrival;
      } else {
        protocol::Release::step(ring, sequence);
      }
    }
  };
};

struct CountsClearedLast : Correct {
  struct Release : protocol::Release {
    template <class Ring> void step(Ring &ring, uint64_t sequence) {
      if (at == At::ClearCount && !cleared) { // Skips clearing now, and does it when the credit is out.
        at = At::MoveOccupant;
      } else if (at == At::NotifyArrival && !cleared) {
        cleared = true;
        ring.clearArrivals(protocol::slotOf(sequence, ring.slots()));
      } else {
        protocol::Release::step(ring, sequence);
      }
    }
    bool cleared = false;
  };
};

struct OccupantIgnored : Correct {
  struct ArrivalCondition : protocol::ArrivalCondition {
    template <class Ring> protocol::Verdict step(Ring &ring) {
      return ring.arrivals(protocol::slotOf(sequence, ring.slots())) >= expected ? protocol::Verdict::Yes
                                                                                 : protocol::Verdict::No;
    }
  };
};

struct SleepsWithoutLookingAgain : Correct {
  struct Await : protocol::Await {
    template <class WaitPort, class Ring, class Condition, class Flag>
    void step(WaitPort &port, Ring &ring, Condition &condition, const Flag &flag) {
      bool sleptBefore = slept;
      slept |= at == At::Sleep;
      protocol::Await::step(port, ring, condition, flag);
      if (at == At::Recheck && !sleptBefore && !slept)
        at = At::Sleep;
    }
    bool slept = false;
  };
};

struct ReadsTheEpochLate : Correct {
  struct Await : protocol::Await {
    template <class WaitPort, class Ring, class Condition, class Flag>
    void step(WaitPort &port, Ring &ring, Condition &condition, const Flag &flag) {
      if (at == At::Sleep)
        epoch = port.epoch();
      protocol::Await::step(port, ring, condition, flag);
    }
  };
};

struct NotifiesBeforeCounting : Correct {
  struct Post : protocol::Post {
    template <class Ring> void step(Ring &ring, uint64_t sequence) {
      if (at == At::Count) {
        at = At::Notify;
      } else if (at == At::Notify) {
        protocol::Post::step(ring, sequence);
        if (done())
          ring.addArrival(protocol::slotOf(sequence, ring.slots()));
      }
    }
  };
};

struct WakesOne : Correct {
  static constexpr bool kWakesAll = false;
};

struct ConsumerNotToldOfItsSlot : Correct {
  struct Release : protocol::Release {
    template <class Ring> void step(Ring &ring, uint64_t sequence) {
      protocol::Release::step(ring, sequence);
      if (at == At::NotifyArrival)
        at = At::Done;
    }
  };
};

template <class Protocol> std::string faultOf(const Setup &setup) { return Checker<Protocol>(setup).explore().fault; }

TEST(ModelCheck, WrongProtocolsAreCaught) {
  EXPECT_THAT(faultOf<OneSlotTooMany>({2, 2, 4}), testing::HasSubstr("overwrites"));
  EXPECT_THAT(faultOf<CreditJumpsOverGaps>({1, 2, 4}), testing::HasSubstr("overwrites"));
  EXPECT_NE(faultOf<CountsClearedLast>({1, 1, 3}), "");
  EXPECT_THAT(faultOf<OccupantIgnored>({2, 2, 4}), testing::HasSubstr("without the payload"));
  EXPECT_THAT(faultOf<SleepsWithoutLookingAgain>({1, 1, 2}), testing::HasSubstr("deadlock"));
  EXPECT_THAT(faultOf<ReadsTheEpochLate>({1, 1, 2}), testing::HasSubstr("deadlock"));
  EXPECT_THAT(faultOf<NotifiesBeforeCounting>({1, 1, 2}), testing::HasSubstr("deadlock"));
  EXPECT_THAT(faultOf<WakesOne>({2, 1, 3}), testing::HasSubstr("deadlock"));
  EXPECT_THAT(faultOf<ConsumerNotToldOfItsSlot>({1, 1, 3, {}, {}, 0b110}), testing::HasSubstr("deadlock"));
}

} // namespace
} // namespace maestro::transport::model
