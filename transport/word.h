// A counter that ranks share: some count on it what they have done, one waits until they have counted far enough.
//
// It lies in the segment of the one who waits, with a place to sleep. It only grows, so nobody has to set it back, and
// "at least" is all that anybody asks. All zeros is a word at its beginning.
#pragma once

#include "transport/wait.h"
#include "transport/wait_point.h"

#include <atomic>
#include <cstdint>

namespace maestro::transport {

struct alignas(64) Word {
  std::atomic<uint64_t> value{0};
  WaitPoint point;

  // The port of protocol::Signal and protocol::CountCondition.
  uint64_t count() const { return value.load(); }
  void add(uint64_t more) { value.fetch_add(more); }
};

/// What was written before is visible to whoever sees the count.
inline void signal(Word &word, uint64_t more) {
  for (protocol::Signal machine{more}; !machine.done();)
    machine.step(word, word.point);
}

/// Until the word is `atLeast`; the cause when the job is aborted first.
inline Status awaitWord(Word &word, uint64_t atLeast, const Abort &abort, Spin &spin, const WaitNote &note) {
  return await(word.point, word, protocol::CountCondition{atLeast}, abort, spin, note);
}

} // namespace maestro::transport
