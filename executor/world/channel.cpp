#include "executor/world/channel.h"

#include "executor/world/channel_state.h"
#include "executor/world/words.h"

#include <fmt/format.h>

#include <cstring>

namespace maestro::executor {
namespace {

using transport::alignBlock;

Status check(const ChannelDescription &description) {
  if (description.slots == 0 || description.slotBytes == 0 || description.producerRanks.empty() ||
      description.postsPerProducer == 0)
    return Status::internal(fmt::format("channel '{}': slots ({}), slot bytes ({}), producers ({}) and posts per "
                                        "producer ({}) must be positive",
                                        description.name, description.slots, description.slotBytes,
                                        description.producerRanks.size(), description.postsPerProducer));
  if (description.slotBytes > (uint64_t{1} << 46) / description.slots)
    return Status::internal(fmt::format("channel '{}': {} slots of {} bytes exceed 64 TiB", description.name,
                                        description.slots, description.slotBytes));
  return {};
}

uint64_t cellCount(const ChannelDescription &description) {
  return uint64_t{description.slots} * description.producerRanks.size() * description.postsPerProducer;
}

} // namespace

uint64_t checksumOf(const Header &header) {
  uint64_t words[7], sum = 0x9e3779b97f4a7c15;
  std::memcpy(words, &header, sizeof words);
  for (uint64_t word : words) {
    sum = (sum ^ word) * 0xff51afd7ed558ccd;
    sum ^= sum >> 32;
  }
  return sum;
}

uint64_t Channel::bytesNeeded(const ChannelDescription &description) {
  return wordBytes(description.slots) + wordBytes(description.producerRanks.size()) +
         alignBlock(description.name.size() + 1) + description.slots * alignBlock(description.slotBytes) +
         cellCount(description) * sizeof(Header);
}

Result<Channel> Channel::create(transport::SharedMemory &memory, const transport::Abort &abort,
                                const ChannelDescription &description) {
  MAESTRO_TRY(check(description));
  std::string purpose = "channel '" + description.name + "': ";
  auto state = std::make_shared<ChannelState>();
  state->description = description;
  state->slotStride = alignBlock(description.slotBytes);
  MAESTRO_ASSIGN(state->name, memory.name(description.name));
  MAESTRO_ASSIGN(state->arrivals, makeWords(memory, abort, description.slots, purpose + "arrivals"));
  MAESTRO_ASSIGN(state->credit, makeWords(memory, abort, description.producerRanks.size(), purpose + "credit"));
  MAESTRO_ASSIGN(state->headers, memory.make<Header>(cellCount(description), purpose + "headers"));
  MAESTRO_ASSIGN(void *payload, memory.allocate(description.slots * state->slotStride, purpose + "payload"));
  state->payload = static_cast<std::byte *>(payload);
  Channel channel;
  channel.state = std::move(state);
  return channel;
}

Result<std::unique_ptr<Sender>> Channel::sender(uint32_t producer, Device &device) const {
  auto sender = std::make_unique<Sender>(state, producer, device);
  MAESTRO_TRY(sender->open());
  return sender;
}

Result<std::unique_ptr<Receiver>> Channel::receiver(Device &device) const {
  auto receiver = std::make_unique<Receiver>(state, device);
  MAESTRO_TRY(receiver->open());
  return receiver;
}

} // namespace maestro::executor
