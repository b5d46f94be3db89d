// The channel's protocol as pure state transitions: the local backend runs them on atomics, the model check
// (test/transport/model_check_test.cpp) runs the very same code on plain integers in every possible interleaving.
//
// Every operation is a small machine whose step() makes at most one access to memory that others touch. A backend
// loops until step() is done; the checker lets others run between any two steps. All shared words are sequentially
// consistent atomics in the backend, so interleavings are all that can happen.
//
// A ring of `slots` serves sequences 0, 1, 2, …; sequence k uses slot k % slots. Its words:
//   released       how many sequences have been released, counted without gaps: the producers' credit
//   occupant[slot] the sequence that the slot serves now; only the consumer writes it
//   arrivals[slot] posts counted for the occupant
// and two wait points: `credit` for producers, `arrival` for the consumer.
#pragma once

#include <cstdint>

namespace maestro::transport::protocol {

constexpr uint64_t slotOf(uint64_t sequence, uint64_t slots) { return sequence % slots; }

/// A producer may write sequence k once k - slots has been released, and everything before it.
constexpr bool mayWrite(uint64_t sequence, uint64_t released, uint64_t slots) { return sequence < released + slots; }

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

/// Producer: may `sequence` be written?
struct CreditCondition {
  uint64_t sequence = 0;

  void reset() {}
  template <class Ring> Verdict step(Ring &ring) {
    return mayWrite(sequence, ring.released(), ring.slots()) ? Verdict::Yes : Verdict::No;
  }
};

/// Consumer: has `sequence` its slot, and have `expected` posts been counted there? The occupant is read first: while
/// it is `sequence`, the count can only belong to it.
struct ArrivalCondition {
  uint64_t sequence = 0;
  uint32_t expected = 0;
  bool hasSlot = false;

  void reset() { hasSlot = false; }
  template <class Ring> Verdict step(Ring &ring) {
    uint64_t slot = slotOf(sequence, ring.slots());
    if (!hasSlot) {
      hasSlot = ring.occupant(slot) == sequence;
      return hasSlot ? Verdict::Open : Verdict::No;
    }
    return ring.arrivals(slot) >= expected ? Verdict::Yes : Verdict::No;
  }
};

/// Producer: counts one arrival. Payload and header are in place already.
struct Post {
  enum class At : uint8_t { Count, Notify, Done } at = At::Count;
  protocol::Notify notify;

  template <class Ring> void step(Ring &ring, uint64_t sequence) {
    if (at == At::Count) {
      ring.addArrival(slotOf(sequence, ring.slots()));
      at = At::Notify;
    } else if (at == At::Notify) {
      notify.step(ring.arrivalWait());
      at = notify.done() ? At::Done : At::Notify;
    }
  }
  bool done() const { return at == At::Done; }
};

/// Consumer: gives the slot of `sequence` to sequence + slots. Out of order is fine: credit moves when the gap closes.
/// One thread at a time releases. The count goes first: with the new occupant a reader may believe it, and with the
/// credit a producer may add to it.
struct Release {
  enum class At : uint8_t { ClearCount, MoveOccupant, ReadReleased, Scan, Publish, NotifyCredit, NotifyArrival, Done };
  At at = At::ClearCount;
  uint64_t released = 0, before = 0;
  protocol::Notify notify;

  template <class Ring> void step(Ring &ring, uint64_t sequence) {
    uint64_t slots = ring.slots(), slot = slotOf(sequence, slots);
    switch (at) {
    case At::ClearCount:
      ring.clearArrivals(slot);
      at = At::MoveOccupant;
      return;
    case At::MoveOccupant:
      ring.setOccupant(slot, sequence + slots);
      at = At::ReadReleased;
      return;
    case At::ReadReleased:
      released = before = ring.released();
      at = At::Scan;
      return;
    case At::Scan: // A slot that serves a later sequence than the next one has released that one already.
      if (ring.occupant(slotOf(released, slots)) > released)
        ++released;
      else
        at = released > before ? At::Publish : At::NotifyArrival;
      return;
    case At::Publish:
      ring.setReleased(released);
      at = At::NotifyCredit;
      return;
    case At::NotifyCredit:
      notify.step(ring.creditWait());
      if (notify.done()) {
        notify = {};
        at = At::NotifyArrival;
      }
      return;
    case At::NotifyArrival: // The consumer itself may wait for the slot of sequence + slots.
      notify.step(ring.arrivalWait());
      at = notify.done() ? At::Done : At::NotifyArrival;
      return;
    case At::Done:
      return;
    }
  }
  bool done() const { return at == At::Done; }
};

} // namespace maestro::transport::protocol
