#include "transport/local/local.h"

#include "transport/local/channel_ends.h"

namespace maestro::transport::local {
namespace {

class LocalBackend : public Backend {
public:
  LocalBackend(SharedMemory &memory, const Abort &abort) : memory(memory), abort(abort) {}

  std::string_view name() const override { return "local"; }
  Status available() const override { return {}; }

  Result<Channel> createChannel(const ChannelDescription &description) override {
    MAESTRO_ASSIGN(Ring ring, Ring::create(memory, abort, description));
    Channel channel;
    for (uint32_t producer = 0; producer < description.producerRanks.size(); ++producer)
      channel.senders.push_back(std::make_unique<LocalSender>(ring, description, producer));
    channel.receiver = std::make_unique<LocalReceiver>(ring, description);
    return channel;
  }

private:
  SharedMemory &memory;
  const Abort &abort;
};

} // namespace

std::unique_ptr<Backend> create(SharedMemory &memory, const Abort &abort) {
  return std::make_unique<LocalBackend>(memory, abort);
}

uint64_t channelBytes(const ChannelDescription &description) { return Ring::bytesNeeded(description); }

} // namespace maestro::transport::local
