#include "executor/world/channel.h"

#include "executor/world/channel_state.h"

#include <fmt/format.h>

#include <cstring>

namespace maestro::executor {
namespace {

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

Result<Channel> Channel::plan(transport::SegmentPlan &plan, const ChannelDescription &description) {
  MAESTRO_TRY(check(description));
  auto state = std::make_shared<ChannelState>();
  state->description = description;
  state->slotStride = transport::alignBlock(description.slotBytes);
  uint32_t consumer = description.consumerRank;
  state->arrivals = plan.reserveWords(consumer, description.slots);
  state->headers = plan.reserve(consumer, state->headerBytes());
  state->payload = plan.reserveBulk(consumer, state->payloadBytes());
  for (uint32_t producer : description.producerRanks)
    state->credit.push_back(plan.reserveWords(producer, 1));
  Channel channel;
  channel.state = std::move(state);
  return channel;
}

Result<std::unique_ptr<Sender>> Channel::sender(const transport::Segments &segments, uint32_t producer,
                                                Device &device) const {
  std::unique_ptr<Sender> sender(new Sender(state, segments, producer, device));
  MAESTRO_TRY(sender->open(segments));
  return sender;
}

Result<std::unique_ptr<Receiver>> Channel::receiver(const transport::Segments &segments, Device &device) const {
  std::unique_ptr<Receiver> receiver(new Receiver(state, segments, device));
  MAESTRO_TRY(receiver->open(segments));
  return receiver;
}

} // namespace maestro::executor
