#include "transport/wait.h"

#include <algorithm>
#include <thread>

namespace maestro::transport {
namespace {

constexpr uint32_t kMostRounds = 1000; // Some 20 to 50 µs: about what sleeping and waking costs.
constexpr uint32_t kFewestRounds = 8;
constexpr int64_t kWorthSpinningNs = 50'000;
constexpr int64_t kLookAroundNs = 250'000'000;

} // namespace

// On one core, who spins keeps the answer from being computed.
Spin::Spin() : most(std::thread::hardware_concurrency() > 1 ? kMostRounds : kFewestRounds), limit(most / 4) {}

void Spin::ended(uint32_t round) {
  if (round == 0) // It was there already: nothing was learnt.
    return;
  int64_t wanted = std::clamp<int64_t>(int64_t{round} * 4, kFewestRounds, most);
  limit = static_cast<uint32_t>(limit + (wanted - limit) / 8);
}

void Spin::slept(int64_t elapsedNs) {
  limit = elapsedNs < kWorthSpinningNs ? std::min(limit * 2 + kFewestRounds, most) : std::max(limit / 2, kFewestRounds);
}

void Spin::pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

Sleeper::Sleeper(WaitPoint &point, const Abort &abort, const WaitNote &note)
    : point(point), abort(abort), note(note), before(abort.progress().state(note.rank, LaneKind::Host)), startNs(nowNs()) {
  abort.progress().report(note.rank, LaneKind::Host, note.activity, note.what, note.index);
}

Sleeper::~Sleeper() { abort.progress().report(note.rank, LaneKind::Host, before.activity, before.what, before.index); }

void Sleeper::sleep(uint32_t seen) {
  point.sleep(seen, kLookAroundNs);
  abort.progress().beat(note.rank, LaneKind::Host);
}

} // namespace maestro::transport
