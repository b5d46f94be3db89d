#include "transport/wait.h"

#include <algorithm>
#include <thread>

namespace maestro::transport {
namespace {

// More than two wake-ups cost (some 45 µs each in a virtual machine): where both sides of an exchange sleep, each sees
// the other answer after as long, and must be able to find back to spinning.
constexpr int64_t kMostNs = 200'000;
constexpr int64_t kLeastNs = 1'000;
constexpr int64_t kLookAroundNs = 250'000'000;

} // namespace

// On one core, who spins keeps the answer from being computed.
Spin::Spin() : most(std::thread::hardware_concurrency() > 1 ? kMostNs : 0), limit(most / 4) {}

void Spin::waited(int64_t elapsedNs) {
  int64_t wanted = elapsedNs <= kMostNs ? elapsedNs * 2 : kLeastNs;
  limit = std::clamp(limit + (wanted - limit) / 4, std::min(kLeastNs, most), most);
}

void Spin::pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

Sleeper::Sleeper(WaitPoint &point, const Abort &abort, const WaitNote &note) : point(point), abort(abort), note(note) {
  if (!note.isWatched)
    return;
  before = abort.progress().state(note.rank, note.lane);
  abort.progress().report(note.rank, note.lane, note.activity, note.what, note.index);
}

Sleeper::~Sleeper() {
  if (note.isWatched)
    abort.progress().report(note.rank, note.lane, before.activity, before.what, before.index);
}

void Sleeper::sleep(uint32_t seen) { point.sleep(seen, kLookAroundNs); }

} // namespace maestro::transport
