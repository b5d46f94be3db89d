// Reads the input as a stream of frames in pieces, every body as the message of its kind, and as what travels in
// records; what can be read is written again, and must be the same bytes.
#include "transport/control/messages.h"
#include "transport/control/progress_record.h"
#include "transport/local/neighbour.h"
#include "transport/network/card.h"
#include "transport/verbs/endpoint.h"

#include <algorithm>
#include <cstdlib>

using namespace maestro;
using namespace maestro::transport;

namespace {

template <typename Message> void check(const Result<Message> &message, const std::vector<std::byte> &body) {
  if (message && encode(*message) != body && body.size() < kMostFrameBytes)
    std::abort();
}

void read(const Frame &frame) {
  switch (frame.kind) {
  case MessageKind::Challenge:
    return check(decodeChallenge(frame.body), frame.body);
  case MessageKind::Introduction:
    return check(decodeIntroduction(frame.body), frame.body);
  case MessageKind::Verdict: {
    auto verdict = decodeVerdict(frame.body);
    return frame.body.empty() || frame.body[0] > std::byte{1} ? void() : check(verdict, frame.body);
  }
  case MessageKind::Seat:
    return check(decodeSeat(frame.body), frame.body);
  case MessageKind::Stop:
    return check(decodeStop(frame.body), frame.body);
  case MessageKind::Beat: {
    static auto memory = std::move(*SharedMemory::create(1 << 16));
    static Progress progress = *Progress::create(*memory, 2);
    static ProgressReceiver receiver(progress);
    static PeerClock clock;
    auto beat = decodeBeat(frame.body);
    if (!beat)
      return;
    check(beat, frame.body);
    clock.received(beat->stamps, beat->stamps.echoReceivedNs);
    if (receiver.enter({0, 2}, beat->ranks).isOk())
      (void)progress.describe(1, nowNs());
    return;
  }
  default:
    check(decodeEndpoint(frame.body), frame.body);
    check(decodeNeighbourCard(frame.body), frame.body);
    return check(decodeCard(frame.body), frame.body);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  constexpr size_t kPiece = 100;
  FrameReader frames;
  for (size_t at = 0; at < size; at += kPiece) {
    frames.add(std::as_bytes(std::span(bytes + at, std::min(kPiece, size - at))));
    while (true) {
      auto next = frames.next(kMostGreetingBytes);
      if (!next || !*next)
        break;
      read(**next);
    }
  }
  return 0;
}
