// How far another machine's clock is ahead of this one's, from stamps on messages that both sides send anyway, as NTP
// does it (RFC 5905, section 8):
//
//   here     sent ─────────┐                      ┌──▶ received
//   there                  └▶ echoReceived   sent ┘
//
// What is known is as good as half of the fastest round trip so far, less the time between there.
#pragma once

#include <cstdint>
#include <limits>

namespace maestro::transport {

/// On a message: when it was sent, and which one of the other side was received last, and when. Each by the clock of
/// the side where it happened, in nanoseconds; echoNs is 0 where there was none.
struct ClockStamps {
  int64_t sentNs = 0, echoNs = 0, echoReceivedNs = 0;
};

class PeerClock {
public:
  /// For a message that is sent now.
  ClockStamps stamps(int64_t nowNs) const { return {nowNs, theirSentNs, receivedNs}; }

  /// Of a message that has come. Any numbers will do.
  void received(const ClockStamps &theirs, int64_t nowNs) {
    theirSentNs = theirs.sentNs;
    receivedNs = nowNs;
    if (theirs.echoNs == 0)
      return;
    int64_t trip = minus(minus(nowNs, theirs.echoNs), minus(theirs.sentNs, theirs.echoReceivedNs));
    if (trip < 0 || trip >= fastestNs)
      return;
    fastestNs = trip;
    ahead = minus(theirs.echoReceivedNs, theirs.echoNs) / 2 + minus(theirs.sentNs, nowNs) / 2;
  }

  /// 0 until a round trip is over.
  int64_t aheadNs() const { return ahead; }

private:
  /// Wraps around, for what an enemy may send.
  static int64_t minus(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  }

  int64_t theirSentNs = 0, receivedNs = 0;
  int64_t fastestNs = std::numeric_limits<int64_t>::max();
  int64_t ahead = 0;
};

} // namespace maestro::transport
