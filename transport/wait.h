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
  const char *what; ///< As Progress::report() wants it.
  uint64_t index;
  LaneKind lane = LaneKind::Host; ///< Whose thread waits.
  bool isWatched = true;          ///< Else the wait is not reported: another thread has the lane.
};

/// How long one waiter spins before it sleeps. Spinning pays where the answer comes sooner than a wake-up takes, and
/// takes a core from whoever computes the answer where it comes later: the limit follows what was seen.
class Spin {
public:
  static constexpr uint32_t kRoundsPerLook = 16; ///< At the clock.
  Spin();
  int64_t limitNs() const { return limit; }
  /// After a wait that did not end in the first look around.
  void waited(int64_t elapsedNs);
  static void pause();

private:
  int64_t most, limit;
};

/// The spinning part of await(): true while there is time to look once more.
class Spinning {
public:
  explicit Spinning(Spin &spin) : spin(spin) {}
  bool again() {
    Spin::pause();
    if (++round % Spin::kRoundsPerLook != 0)
      return true;
    if (startNs == 0)
      startNs = nowNs();
    return elapsedNs() < spin.limitNs();
  }
  /// The wait is over, after spinning alone or after sleeping too.
  void ended() {
    if (startNs != 0)
      spin.waited(elapsedNs());
  }
  int64_t elapsedNs() const { return nowNs() - startNs; }

private:
  Spin &spin;
  uint32_t round = 0;
  int64_t startNs = 0; ///< 0: not worth a look at the clock yet.
};

/// The sleeping part of await(): reports, sleeps, looks around four times a second.
class Sleeper {
public:
  Sleeper(WaitPoint &point, const Abort &abort, const WaitNote &note);
  ~Sleeper();

  // The port of protocol::Await.
  void addWaiter() {
    point.addWaiter();
    abort.beginSleep(point, note.rank);
  }
  void removeWaiter() {
    abort.endSleep(point, note.rank);
    point.removeWaiter();
  }
  uint32_t epoch() const { return point.epoch(); }
  void sleep(uint32_t seen);

private:
  WaitPoint &point;
  const Abort &abort;
  const WaitNote &note;
  Progress::State before;
};

/// Returns when `condition` (of protocol::Await) holds for `ring`, or with the cause when the job is aborted first.
template <class Ring, class Condition>
Status await(WaitPoint &point, Ring &ring, Condition condition, const Abort &abort, Spin &spin, const WaitNote &note) {
  Spinning spinning(spin);
  do {
    protocol::Verdict verdict;
    while ((verdict = condition.step(ring)) == protocol::Verdict::Open)
      ;
    condition.reset();
    if (verdict == protocol::Verdict::Yes || abort.isRaised()) {
      spinning.ended();
      return abort.status();
    }
  } while (spinning.again());
  Sleeper sleeper(point, abort, note);
  for (protocol::Await machine; !machine.done();)
    machine.step(sleeper, ring, condition, abort);
  spinning.ended();
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
