#include "transport/control/messages.h"

#include <algorithm>

namespace maestro::transport {
namespace {

constexpr size_t kKeptBytes = size_t{1} << 20; ///< Of frames that were taken; then they go.

template <size_t count> void read(ByteReader &reader, std::array<std::byte, count> &into) {
  std::span<const std::byte> bytes = reader.raw(count);
  std::copy(bytes.begin(), bytes.end(), into.begin());
}

template <typename Message> Result<Message> whole(const ByteReader &reader, Message message, const char *name) {
  if (!reader.isWhole())
    return Status::invalidInput(std::string(name) + " is cut off, or has bytes behind its end");
  return message;
}

ByteWriter &write(ByteWriter &writer, const Introduction &message) {
  return writer.number(message.process)
      .number(message.processes)
      .number(message.pid)
      .text(message.host)
      .text(message.version)
      .text(message.plan)
      .text(message.flags)
      .raw(message.nonce);
}

ByteWriter &write(ByteWriter &writer, const Verdict &message) {
  return writer.number(static_cast<uint8_t>(message.welcome)).text(message.reason);
}

} // namespace

std::vector<std::byte> frame(MessageKind kind, std::span<const std::byte> body) {
  ByteWriter writer;
  return writer.number(static_cast<uint32_t>(body.size() + 1)).number(static_cast<uint8_t>(kind)).raw(body).take();
}

Result<std::optional<Frame>> FrameReader::next(size_t most) {
  std::span<const std::byte> left = std::span(received).subspan(taken);
  if (left.size() < kFrameHeaderBytes)
    return std::optional<Frame>();
  auto length = ByteReader(left).number<uint32_t>();
  if (length == 0 || length > most)
    return Status::invalidInput("a message of " + std::to_string(length) + " bytes; at most " + std::to_string(most) +
                                " are expected");
  if (left.size() - sizeof length < length)
    return std::optional<Frame>();
  std::span<const std::byte> body = left.subspan(kFrameHeaderBytes, length - 1);
  Frame frame{static_cast<MessageKind>(left[sizeof length]), {body.begin(), body.end()}};
  taken += sizeof length + length;
  if (taken == received.size() || taken > kKeptBytes) {
    received.erase(received.begin(), received.begin() + static_cast<ptrdiff_t>(taken));
    taken = 0;
  }
  return std::optional(std::move(frame));
}

std::vector<std::byte> encode(const Challenge &message) {
  ByteWriter writer;
  return writer.number(message.protocol).raw(message.nonce).take();
}

std::vector<std::byte> encode(const Introduction &message) {
  ByteWriter writer;
  return write(writer, message).raw(message.proof).take();
}

std::vector<std::byte> encode(const Verdict &message) {
  ByteWriter writer;
  return write(writer, message).raw(message.proof).take();
}

std::vector<std::byte> encode(const Seat &message) {
  ByteWriter writer;
  return writer.number(message.process).number(message.processes).number(message.lostMachines).take();
}

std::vector<std::byte> encode(const Stop &message) {
  ByteWriter writer;
  return writer.number(message.rank).number(message.code).text(message.text).take();
}

std::vector<std::byte> encode(const Beat &message) {
  const ClockStamps &stamps = message.stamps;
  ByteWriter writer;
  return writer.number(stamps.sentNs).number(stamps.echoNs).number(stamps.echoReceivedNs).block(message.ranks).take();
}

Result<Challenge> decodeChallenge(std::span<const std::byte> body) {
  ByteReader reader(body);
  Challenge message;
  message.protocol = reader.number<uint32_t>();
  if (reader.isOk() && message.protocol != kControlProtocol)
    return Status::invalidInput("process 0 speaks control protocol " + std::to_string(message.protocol) +
                                ", this one " + std::to_string(kControlProtocol) +
                                "; install the same Maestro everywhere");
  read(reader, message.nonce);
  return whole(reader, std::move(message), "the challenge");
}

Result<Introduction> decodeIntroduction(std::span<const std::byte> body) {
  ByteReader reader(body);
  Introduction message;
  message.process = reader.number<uint32_t>();
  message.processes = reader.number<uint32_t>();
  message.pid = reader.number<uint32_t>();
  message.host = reader.text();
  message.version = reader.text();
  message.plan = reader.text();
  message.flags = reader.text();
  read(reader, message.nonce);
  read(reader, message.proof);
  return whole(reader, std::move(message), "the introduction");
}

Result<Verdict> decodeVerdict(std::span<const std::byte> body) {
  ByteReader reader(body);
  Verdict message;
  message.welcome = reader.number<uint8_t>() != 0;
  message.reason = reader.text();
  read(reader, message.proof);
  return whole(reader, std::move(message), "the verdict");
}

Result<Seat> decodeSeat(std::span<const std::byte> body) {
  ByteReader reader(body);
  Seat message;
  message.process = reader.number<uint32_t>();
  message.processes = reader.number<uint32_t>();
  message.lostMachines = reader.number<uint32_t>();
  return whole(reader, message, "the seat");
}

Result<Stop> decodeStop(std::span<const std::byte> body) {
  ByteReader reader(body);
  Stop message;
  message.rank = reader.number<uint32_t>();
  message.code = reader.number<uint32_t>();
  message.text = reader.text();
  return whole(reader, std::move(message), "the cause of the end");
}

Result<Beat> decodeBeat(std::span<const std::byte> body) {
  ByteReader reader(body);
  Beat message;
  message.stamps.sentNs = reader.number<int64_t>();
  message.stamps.echoNs = reader.number<int64_t>();
  message.stamps.echoReceivedNs = reader.number<int64_t>();
  message.ranks = reader.block();
  return whole(reader, std::move(message), "a sign of life");
}

Proof proofOf(const Introduction &message, const Nonce &challenge, std::string_view secret) {
  ByteWriter writer;
  writer.text("introduction").raw(challenge);
  return prove(secret, write(writer, message).take());
}

Proof proofOf(const Verdict &message, const Introduction &answered, const Nonce &challenge, std::string_view secret) {
  ByteWriter writer;
  writer.text("verdict").raw(challenge).raw(answered.nonce);
  return prove(secret, write(writer, message).take());
}

} // namespace maestro::transport
