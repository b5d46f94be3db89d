// What ranks tell each other, as pure state transitions: `local` runs them on atomics, the model check
// (test/transport/model_check_test.cpp) runs the very same code on plain integers in every possible interleaving.
//
// Every operation is a small machine whose step() makes at most one access to memory that others touch. Whoever runs
// it loops until it is done; the checker lets others run between any two steps. All shared words are sequentially
// consistent atomics, so interleavings are all that can happen.
//
// All that is shared is words that only grow, and places to sleep. A ring of `slots` serves sequences 0, 1, 2, …;
// sequence k uses slot k % slots. Its words:
//   arrivals[slot]    posts into the slot since the run began: all producers count, the consumer waits
//   credit[producer]  sequences released so far, counted without gaps: the consumer counts, the producer waits
// What the consumer must wait for (Arrivals) and may count (Releases) it knows by itself.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace maestro::transport::protocol {

constexpr uint64_t slotOf(uint64_t sequence, uint64_t slots) { return sequence % slots; }

/// The credit with which a producer may write a sequence: the slot's last one has been released, and all before it.
constexpr uint64_t creditFor(uint64_t sequence, uint64_t slots) { return sequence < slots ? 0 : sequence - slots + 1; }

/// Wakes who sleeps at a wait point, after the state it waits for was changed. A waiter registers before it looks a
/// last time, so either it sees the change or it is seen here.
struct Notify {
  enum class At : uint8_t { Look, Bump, Wake, Done } at = At::Look;

  template <class WaitPort> void step(WaitPort &port) {
    switch (at) {
    case At::Look:
      at = port.waiters() ? At::Bump : At::Done;
      return;
    case At::Bump:
      port.bumpEpoch();
      at = At::Wake;
      return;
    case At::Wake:
      port.wake();
      at = At::Done;
      return;
    case At::Done:
      return;
    }
  }
  bool done() const { return at == At::Done; }
};

/// What a condition found out so far.
enum class Verdict : uint8_t { Open, No, Yes };

/// Sleeps until a condition holds or the job is aborted. Condition: reset(), and Verdict step(ring), Open while it has
/// more to read. Flag: isRaised(); who raises it bumps and wakes every wait point afterwards, waiters or not.
struct Await {
  enum class At : uint8_t { Check, CheckAbort, Register, ReadEpoch, Recheck, RecheckAbort, Sleep, Leave, Done };
  At at = At::Check;
  uint32_t epoch = 0;

  template <class WaitPort, class Ring, class Condition, class Flag>
  void step(WaitPort &port, Ring &ring, Condition &condition, const Flag &flag) {
    switch (at) {
    case At::Check:
      return decide(condition.step(ring), condition, At::Done, At::CheckAbort);
    case At::CheckAbort:
      at = flag.isRaised() ? At::Done : At::Register;
      return;
    case At::Register:
      port.addWaiter();
      at = At::ReadEpoch;
      return;
    case At::ReadEpoch:
      epoch = port.epoch();
      at = At::Recheck;
      return;
    case At::Recheck:
      return decide(condition.step(ring), condition, At::Leave, At::RecheckAbort);
    case At::RecheckAbort:
      at = flag.isRaised() ? At::Leave : At::Sleep;
      return;
    case At::Sleep: // Returns at once when the epoch has moved on.
      port.sleep(epoch);
      at = At::ReadEpoch;
      return;
    case At::Leave:
      port.removeWaiter();
      at = At::Done;
      return;
    case At::Done:
      return;
    }
  }
  bool done() const { return at == At::Done; }

private:
  template <class Condition> void decide(Verdict verdict, Condition &condition, At yes, At no) {
    if (verdict == Verdict::Open)
      return;
    at = verdict == Verdict::Yes ? yes : no;
    condition.reset();
  }
};

/// Has a word been counted up to `atLeast`?
struct CountCondition {
  uint64_t atLeast = 0;

  void reset() {}
  template <class Word> Verdict step(const Word &word) const {
    return word.count() >= atLeast ? Verdict::Yes : Verdict::No;
  }
};

/// Counts `more`. What this tells of is in place already.
struct Signal {
  explicit Signal(uint64_t more) : more(more) {}
  enum class At : uint8_t { Count, Notify, Done } at = At::Count;
  uint64_t more;
  protocol::Notify notify;

  template <class Word, class WaitPort> void step(Word &word, WaitPort &port) {
    if (at == At::Count) {
      word.add(more);
      at = At::Notify;
    } else if (at == At::Notify) {
      notify.step(port);
      at = notify.done() ? At::Done : At::Notify;
    }
  }
  bool done() const { return at == At::Done; }
};

/// The consumer's own: how many posts a slot must have seen before a sequence may be read.
class Arrivals {
public:
  explicit Arrivals(uint64_t slots) : expected(slots), next(slots) {
    for (uint64_t slot = 0; slot < slots; ++slot)
      next[slot] = slot;
  }

  /// What arrivals[slot] must reach. Nothing where the sequences of a slot do not come in turn.
  std::optional<uint64_t> expect(uint64_t sequence, uint64_t posts) {
    uint64_t slots = expected.size(), slot = slotOf(sequence, slots);
    if (next[slot] != sequence)
      return std::nullopt;
    next[slot] += slots;
    return expected[slot] += posts;
  }
  /// Whether expect() had the sequence.
  bool hasSeen(uint64_t sequence) const { return next[slotOf(sequence, next.size())] > sequence; }

private:
  std::vector<uint64_t> expected, next; ///< By slot: posts so far; the sequence that comes.
};

/// The consumer's own: slots are given back in any order, and counted without gaps.
class Releases {
public:
  explicit Releases(uint64_t slots) : isReleased(slots) {}

  /// How many more sequences producers may now count on. Nothing where the slot is not the sequence's, or no longer.
  std::optional<uint64_t> release(uint64_t sequence) {
    uint64_t slots = isReleased.size(), before = released;
    if (sequence < released || sequence >= released + slots || isReleased[slotOf(sequence, slots)])
      return std::nullopt;
    isReleased[slotOf(sequence, slots)] = true;
    for (; isReleased[slotOf(released, slots)]; ++released)
      isReleased[slotOf(released, slots)] = false;
    return released - before;
  }

private:
  uint64_t released = 0;
  std::vector<bool> isReleased; ///< By slot: of the sequences from `released` on.
};

} // namespace maestro::transport::protocol
