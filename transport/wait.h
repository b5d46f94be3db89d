// How a rank waits: spin a little while, adaptively, then sleep; end at once when the job is aborted.
#pragma once

#include "transport/abort.h"
#include "transport/protocol.h"

#include <cstdint>

namespace maestro::transport {

/// What a waiter tells the watcher.
struct WaitNote {
  uint32_t rank;
  Activity activity;
  const char *what; ///< SharedMemory::name() or a literal.
  uint64_t index;
};

/// How long one waiter spins before it sleeps. Spinning pays when the answer comes sooner than a wake-up takes, and
/// only takes a core from whoever computes the answer otherwise: the limit follows what was seen.
class Spin {
public:
  Spin();
  uint32_t rounds() const { return limit; }
  void ended(uint32_t round);
  void slept(int64_t elapsedNs);
  static void pause();

private:
  uint32_t most, limit;
};

/// The sleeping part of await(): reports, sleeps, looks around four times a second.
class Sleeper {
public:
  Sleeper(WaitPoint &point, const Abort &abort, const WaitNote &note);
  ~Sleeper();
  int64_t elapsedNs() const { return nowNs() - startNs; }

  // The port of protocol::Await.
  void addWaiter() { point.addWaiter(); }
  void removeWaiter() { point.removeWaiter(); }
  uint32_t epoch() const { return point.epoch(); }
  void sleep(uint32_t seen);

private:
  WaitPoint &point;
  const Abort &abort;
  const WaitNote &note;
  Progress::State before;
  int64_t startNs;
};

/// Returns when `condition` (of protocol::Await) holds for `ring`, or with the cause when the job is aborted first.
template <class Ring, class Condition>
Status await(WaitPoint &point, Ring &ring, Condition condition, const Abort &abort, Spin &spin, const WaitNote &note) {
  for (uint32_t round = 0; round <= spin.rounds(); ++round) {
    protocol::Verdict verdict;
    while ((verdict = condition.step(ring)) == protocol::Verdict::Open)
      ;
    condition.reset();
    if (verdict == protocol::Verdict::Yes || abort.isRaised()) {
      spin.ended(round);
      return abort.status();
    }
    Spin::pause();
  }
  Sleeper sleeper(point, abort, note);
  for (protocol::Await machine; !machine.done();)
    machine.step(sleeper, ring, condition, abort);
  spin.slept(sleeper.elapsedNs());
  return abort.status();
}

/// The same for a plain predicate.
template <class Ready>
Status awaitUntil(WaitPoint &point, Ready ready, const Abort &abort, Spin &spin, const WaitNote &note) {
  struct Condition {
    Ready &ready;
    void reset() {}
    protocol::Verdict step(Ready &) { return ready() ? protocol::Verdict::Yes : protocol::Verdict::No; }
  };
  return await(point, ready, Condition{ready}, abort, spin, note);
}

/// After a change of what others wait for at `point`.
inline void notify(WaitPoint &point) {
  for (protocol::Notify machine; !machine.done();)
    machine.step(point);
}

} // namespace maestro::transport
