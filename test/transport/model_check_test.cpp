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
  static constexpr uint64_t creditFor(uint64_t sequence, uint64_t slots) {
    return sequence <= slots ? 0 : sequence - slots;
  }
};

struct CreditJumpsOverGaps : Correct {
  struct Releases {
    explicit Releases(uint64_t) {}
    std::optional<uint64_t> release(uint64_t sequence) {
      uint64_t before = released;
      released = sequence + 1 > before ? sequence + 1 : before;
      return released - before;
    }
    uint64_t released = 0;
  };
};

struct CountsFromZeroAgain : Correct {
  struct Arrivals : protocol::Arrivals {
    using protocol::Arrivals::Arrivals;
    std::optional<uint64_t> expect(uint64_t sequence, uint64_t posts) {
      return protocol::Arrivals::expect(sequence, posts) ? std::optional(posts) : std::nullopt;
    }
  };
};

struct CountsBeforeItWrites : Correct {
  static constexpr bool kWritesFirst = false;
};

struct CreditIsForgotten : Correct {
  struct Releases : protocol::Releases {
    using protocol::Releases::Releases;
    std::optional<uint64_t> release(uint64_t sequence) {
      std::optional<uint64_t> more = protocol::Releases::release(sequence);
      return more && sequence == 0 ? 0 : more;
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
  struct Signal : protocol::Signal {
    using protocol::Signal::Signal;
    template <class Word, class WaitPort> void step(Word &word, WaitPort &port) {
      if (at == At::Count) {
        at = At::Notify;
      } else if (at == At::Notify) {
        protocol::Signal::step(word, port);
        if (done())
          word.add(more);
      }
    }
  };
};

struct WakesOne : Correct {
  static constexpr bool kWakesAll = false;
};

template <class Protocol> std::string faultOf(const Setup &setup) { return Checker<Protocol>(setup).explore().fault; }

TEST(ModelCheck, WrongProtocolsAreCaught) {
  EXPECT_THAT(faultOf<OneSlotTooMany>({2, 2, 4}), testing::HasSubstr("overwrites"));
  EXPECT_THAT(faultOf<CreditJumpsOverGaps>({1, 2, 4}), testing::HasSubstr("overwrites"));
  EXPECT_THAT(faultOf<CountsFromZeroAgain>({2, 2, 4}), testing::HasSubstr("is delivered w"));
  EXPECT_THAT(faultOf<CountsBeforeItWrites>({2, 2, 4}), testing::HasSubstr("without the payload"));
  EXPECT_THAT(faultOf<CreditIsForgotten>({2, 1, 4}), testing::HasSubstr("deadlock"));
  EXPECT_THAT(faultOf<SleepsWithoutLookingAgain>({1, 1, 2}), testing::HasSubstr("deadlock"));
  EXPECT_THAT(faultOf<ReadsTheEpochLate>({1, 1, 2}), testing::HasSubstr("deadlock"));
  EXPECT_THAT(faultOf<NotifiesBeforeCounting>({1, 1, 2}), testing::HasSubstr("deadlock"));
  EXPECT_THAT(faultOf<WakesOne>({2, 1, 3}), testing::HasSubstr("deadlock"));
}

} // namespace
} // namespace maestro::transport::model
