// What processes of a job tell each other over control connections: framed messages, written and read here alone.
//
//   process 0                                      process p
//   Challenge{protocol, nonce}          ─────────▶
//                                       ◀─────────  Introduction{who it is, nonce, proof}
//   Verdict{welcome or why not, proof}  ─────────▶
//   Seat{its place in the job}          ─────────▶   when all have come
//   then both ways: Beat, Stop, Finish; to process 0 Record, from it Answer
//
// Proofs are over both nonces and all that the message says, with the job's secret: who replays has the wrong nonce.
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "transport/control/peer_clock.h"
#include "transport/control/secret.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maestro::transport {

inline constexpr uint32_t kControlProtocol = 3;

enum class MessageKind : uint8_t { Challenge = 1, Introduction, Verdict, Record, Answer, Beat, Stop, Finish, Seat };

/// A frame: 4 bytes of length, of what follows; 1 of kind; the body.
inline constexpr size_t kFrameHeaderBytes = 5;
inline constexpr size_t kMostGreetingBytes = 4096;         ///< Of a frame before its sender has proven who it is.
inline constexpr size_t kMostFrameBytes = size_t{1} << 28; ///< Records of all processes.

std::vector<std::byte> frame(MessageKind kind, std::span<const std::byte> body);

struct Frame {
  MessageKind kind;
  std::vector<std::byte> body;
};

/// Frames of a stream of bytes that comes in pieces.
class FrameReader {
public:
  void add(std::span<const std::byte> bytes) { received.insert(received.end(), bytes.begin(), bytes.end()); }
  /// The next whole one. InvalidInput where one is longer than `most` or empty.
  Result<std::optional<Frame>> next(size_t most);

private:
  std::vector<std::byte> received;
  size_t taken = 0;
};

struct Challenge {
  uint32_t protocol = kControlProtocol;
  Nonce nonce{};
};

/// Who a process is. What the job needs alike everywhere is compared before anything else.
struct Introduction {
  uint32_t process = 0, processes = 0;
  uint32_t pid = 0;
  std::string host;
  std::string version; ///< Of Maestro.
  std::string plan;    ///< Its hash.
  std::string flags;   ///< Those that change what is computed.
  Nonce nonce{};
  Proof proof{};
};

struct Verdict {
  bool welcome = false;
  std::string reason; ///< Why not.
  Proof proof{};
};

/// Which process of how many it is in what the job has become.
struct Seat {
  uint32_t process = 0, processes = 0;
  uint32_t lostMachines = 0;
};

/// Why the job ends.
struct Stop {
  uint32_t rank = 0;
  uint32_t code = 0; ///< A StatusCode.
  std::string text;
};

/// A sign of life.
struct Beat {
  ClockStamps stamps;
  std::span<const std::byte> ranks = {}; ///< What they do: progress_record.h. Of the message's bytes.
};

std::vector<std::byte> encode(const Challenge &message);
std::vector<std::byte> encode(const Introduction &message);
std::vector<std::byte> encode(const Verdict &message);
std::vector<std::byte> encode(const Seat &message);
std::vector<std::byte> encode(const Stop &message);
std::vector<std::byte> encode(const Beat &message);

// InvalidInput where the bytes are not one whole message.
Result<Challenge> decodeChallenge(std::span<const std::byte> body);
Result<Introduction> decodeIntroduction(std::span<const std::byte> body);
Result<Verdict> decodeVerdict(std::span<const std::byte> body);
Result<Seat> decodeSeat(std::span<const std::byte> body);
Result<Stop> decodeStop(std::span<const std::byte> body);
Result<Beat> decodeBeat(std::span<const std::byte> body);

Proof proofOf(const Introduction &message, const Nonce &challenge, std::string_view secret);
Proof proofOf(const Verdict &message, const Introduction &answered, const Nonce &challenge, std::string_view secret);

} // namespace maestro::transport
