#include "test/transport/faulty_backend.h"

#include "transport/local/channel_ends.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

namespace maestro::transport::test {
namespace {

using local::Ring;

/// One message on its way: copies of what was written, and the header.
struct Packet {
  uint64_t sequence = 0;
  std::vector<std::vector<char>> payloads;
  std::vector<Box> boxes; ///< Sources into payloads.
  Header header;
  bool isCopy = false;
};

/// The box with its source packed into memory of the packet's own.
void pack(Packet &packet, const Box &box) {
  Box packed = box;
  auto bytes = static_cast<int64_t>(box.elementBytes);
  for (uint32_t dim = box.rank; dim-- > 0; bytes *= static_cast<int64_t>(box.extents[dim]))
    packed.sourceStrides[dim] = bytes;
  Box copy = box;
  copy.destination = 0;
  copy.destinationStrides = packed.sourceStrides;
  packet.payloads.emplace_back(static_cast<size_t>(bytes));
  copyBox(copy, packet.payloads.back().data());
  packed.source = packet.payloads.back().data();
  packet.boxes.push_back(packed);
}

/// Delivers one sender's packets from a thread of its own, which starts with the first packet: after fork().
class Wire {
public:
  Wire(const Ring &ring, const Faults &faults, uint64_t seed) : ring(ring), faults(faults), random(seed) {}
  ~Wire() {
    {
      std::lock_guard lock(mutex);
      closing = true;
    }
    changed.notify_all();
    if (thread.joinable())
      thread.join();
  }

  void send(Packet packet) {
    std::lock_guard lock(mutex);
    if (!thread.joinable())
      thread = std::thread([this] { deliverAll(); });
    if (hits(faults.drops))
      return;
    if (hits(faults.damagedHeaders))
      packet.header.rows ^= 4;
    if (hits(faults.staleEpochs)) {
      packet.header.epoch -= 1;
      packet.header.checksum = checksumOf(packet.header);
    }
    queue.push_back(std::move(packet));
    changed.notify_all();
  }

private:
  bool hits(uint32_t oneIn) { return oneIn && random() % oneIn == 0; }

  void deliverAll() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return closing || !queue.empty(); });
      if (queue.empty())
        return;
      size_t index = faults.reorders ? random() % queue.size() : 0;
      uint64_t delayUs = faults.mostDelayUs ? random() % faults.mostDelayUs : 0;
      lock.unlock(); // Others may come meanwhile; the chosen one stays where it is.
      std::this_thread::sleep_for(std::chrono::microseconds(delayUs));
      lock.lock();
      Packet packet = std::move(queue[index]);
      queue.erase(queue.begin() + static_cast<long>(index));
      deliver(packet);
      if (!packet.isCopy && hits(faults.duplicates)) {
        packet.isCopy = true;
        queue.push_back(std::move(packet));
      }
    }
  }

  void deliver(const Packet &packet) {
    uint64_t slot = protocol::slotOf(packet.sequence, ring.slots());
    for (const Box &box : packet.boxes)
      copyBox(box, ring.payload(slot));
    ring.cell(slot, packet.header.producer, packet.header.post) = packet.header;
    for (protocol::Post machine; !machine.done();)
      machine.step(ring, packet.sequence);
  }

  Ring ring;
  Faults faults;
  std::mt19937_64 random;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Packet> queue;
  bool closing = false;
  std::thread thread;
};

class FaultySender : public Sender {
public:
  FaultySender(const Ring &ring, const ChannelDescription &description, uint32_t producer, const Faults &faults)
      : ring(ring), checked(ring, description, producer), slotBytes(description.slotBytes), edge(description.edge),
        epoch(description.epoch), producer(producer), postsPerProducer(description.postsPerProducer),
        open(description.slots), wire(ring, faults, faults.seed * 1000 + producer) {}

  bool hasCredit(uint64_t sequence) const override { return checked.hasCredit(sequence); }
  Status awaitCredit(uint64_t sequence, const Abort &abort) override { return checked.awaitCredit(sequence, abort); }
  void *direct(uint64_t) override { return nullptr; }

  Status write(uint64_t sequence, std::span<const Box> boxes) override {
    MAESTRO_TRY(checked.write(sequence, {})); // The local sender's check of the credit.
    for (const Box &box : boxes) {
      MAESTRO_TRY(checkBox(box, slotBytes));
      pack(openFor(sequence).packet, box);
    }
    return {};
  }

  Status post(uint64_t sequence, const Message &message) override {
    MAESTRO_TRY(checked.write(sequence, {}));
    Open &mine = openFor(sequence);
    if (mine.posts == postsPerProducer)
      return Status::internal("posts more than " + std::to_string(postsPerProducer) + " times");
    Header header{kHeaderVersion,     edge,         sequence,     message.step,  epoch, producer,
                  message.microBatch, mine.posts++, message.rows, message.bytes, 0};
    header.checksum = checksumOf(header);
    mine.packet.sequence = sequence;
    mine.packet.header = header;
    wire.send(std::move(mine.packet));
    mine.packet = {};
    return {};
  }

private:
  struct Open {
    uint64_t sequence = 0;
    uint32_t posts = 0;
    Packet packet;
  };
  Open &openFor(uint64_t sequence) {
    Open &mine = open[protocol::slotOf(sequence, ring.slots())];
    if (mine.sequence != sequence)
      mine = {sequence, 0, {}};
    return mine;
  }

  Ring ring;
  local::LocalSender checked;
  uint64_t slotBytes;
  uint32_t edge, epoch, producer, postsPerProducer;
  std::vector<Open> open;
  Wire wire;
};

class FaultyBackend : public Backend {
public:
  FaultyBackend(SharedMemory &memory, const Abort &abort, const Faults &faults)
      : memory(memory), abort(abort), faults(faults) {}

  std::string_view name() const override { return "faulty"; }
  Status available() const override { return {}; }
  Result<Channel> createChannel(const ChannelDescription &description) override {
    MAESTRO_ASSIGN(Ring ring, Ring::create(memory, abort, description));
    Channel channel;
    for (uint32_t producer = 0; producer < description.producerRanks.size(); ++producer)
      channel.senders.push_back(std::make_unique<FaultySender>(ring, description, producer, faults));
    channel.receiver = std::make_unique<local::LocalReceiver>(ring, description);
    return channel;
  }

private:
  SharedMemory &memory;
  const Abort &abort;
  Faults faults;
};

} // namespace

std::unique_ptr<Backend> createFaultyBackend(SharedMemory &memory, const Abort &abort, const Faults &faults) {
  return std::make_unique<FaultyBackend>(memory, abort, faults);
}

} // namespace maestro::transport::test
