#include "transport/verbs/verbs.h"

#include "transport/network/network_fabric.h"
#include "transport/network/sources.h"
#include "transport/verbs/endpoint.h"
#include "transport/verbs/functions.h"
#include "transport/verbs/owned.h"
#include "transport/verbs/port.h"
#include "transport/verbs/queue_pair.h"
#include "transport/verbs/regions.h"
#include "transport/verbs/statuses.h"
#include "transport/verbs/troubles.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <thread>
#include <utility>

namespace maestro::transport {
namespace {

constexpr uint32_t kChain = 16;      ///< Posted at once; more gained nothing in other systems.
constexpr uint32_t kReceives = 4096; ///< Counts that may arrive before this process looks.
constexpr size_t kCompletionsAtOnce = 32;

constexpr uint64_t kArmsALook = 16; ///< At what the device tells of itself, which costs a system call.
constexpr auto kProbePatience = std::chrono::seconds(30);
constexpr auto kFlushPatience = std::chrono::seconds(1);
constexpr uint64_t kReceiveId = ~uint64_t{0};

class Implementation : public NetworkFabric {
public:
  Implementation(const Segments &segments, const VerbsOptions &options, const Abort &abort,
                 const VerbsFunctions &functions)
      : NetworkFabric(segments, abort), options(options), functions(functions) {}

  ~Implementation() override { stop(); }

  Status open() {
    MAESTRO_TRY(openQueues().withContext("verbs"));
    MAESTRO_ASSIGN(port, openVerbsPort(functions, options.device, options.address, options.onlyAddress, options.share));
    troublesBefore = readTroubles(port.device, port.number);
    MAESTRO_TRY(
        make(domain, functions.allocDomain(port.context.get()), functions.deallocDomain, "a protection domain"));
    MAESTRO_TRY(
        make(channel, functions.createChannel(port.context.get()), functions.destroyChannel, "a completion channel"));
    for (int descriptor : {channel->fd, port.context->async_fd})
      if (::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK) != 0)
        return unavailable("a completion channel");
    uint32_t receives = std::min<uint32_t>(kReceives, static_cast<uint32_t>(port.limits.max_srq_wr));
    uint64_t wanted = receives + uint64_t{QueuePair::kDepth} * options.peers.size();
    auto entries = static_cast<uint32_t>(std::min<uint64_t>(wanted, static_cast<uint64_t>(port.limits.max_cqe)));
    if (entries <= receives)
      receives = entries / 2;
    mostSignalled = entries - receives;
    MAESTRO_TRY(
        make(completions,
             functions.createCompletions(port.context.get(), static_cast<int>(entries), nullptr, channel.get(), 0),
             functions.destroyCompletions, "a completion queue"));
    ibv_srq_init_attr attributes{};
    attributes.attr.max_wr = receives;
    attributes.attr.max_sge = 1;
    MAESTRO_TRY(make(pendingReceives, functions.createReceives(domain.get(), &attributes), functions.destroyReceives,
                     "a shared receive queue"));
    MAESTRO_TRY(postReceives(receives));
    QueuePair::Shared shared{domain.get(), completions.get(), pendingReceives.get()};
    for (const RankRange &ranks : options.peers) {
      MAESTRO_ASSIGN(auto queue, QueuePair::create(functions, port, shared, ranks).withContext(name()));
      queues.push_back(std::move(queue));
    }
    return registerSegments();
  }

  std::string name() const override { return "verbs over " + port.text(); }
  std::string troubles() const override {
    return troublesSince(troublesBefore, readTroubles(port.device, port.number));
  }

  Status probe() override {
    isProbing = true;
    for (const auto &peer : peers) {
      QueuePair &queue = *ways[peer->number];
      queue.taken[queue.posted % QueuePair::kDepth] = nullptr;
      ibv_send_wr nothing{};
      nothing.opcode = IBV_WR_RDMA_WRITE;
      const FabricCard::Segment &segment = remote[options.rail.firstOf(peer->ranks)];
      nothing.wr.rdma.remote_addr = segment.base;
      nothing.wr.rdma.rkey = static_cast<uint32_t>(segment.key);
      works[0] = nothing;
      send(*peer, queue, 1);
    }
    auto deadline = std::chrono::steady_clock::now() + kProbePatience;
    while (underWay > 0 && trouble.empty() && std::chrono::steady_clock::now() < deadline)
      if (!collect())
        std::this_thread::sleep_for(std::chrono::microseconds(200));
    isProbing = false;
    if (underWay > 0 && trouble.empty())
      trouble = "no completion";
    return trouble.empty() ? Status() : Status::unavailable(name() + ": " + trouble);
  }

  // ---- memory of devices

  Status tryDevice(const DeviceMemory &memory) override {
    MAESTRO_TRY(knowsDevices(functions, domain.get()).withContext(name()));
    return registerDevice(functions, domain.get(), memory, kWritable).takeStatus().withContext(name());
  }
  Status placeBulk(uint32_t rank, const DeviceMemory &memory) override {
    if (!options.rail.carries(rank, segments.ranksHere()))
      return Status();
    MAESTRO_ASSIGN(auto region, registerDevice(functions, domain.get(), memory, kWritable).withContext(name()));
    noteBulk(rank, FabricCard::Bulk{rank, reinterpret_cast<uintptr_t>(memory.memory.data()), region->rkey},
             memory.flush);
    placed[rank] = memory.memory;
    sources.add(memory.memory, std::move(region));
    return Status();
  }
  Status placeHostBulk(uint32_t rank) override {
    std::span<const std::byte> bulk = segments.bulkPart(rank);
    if (!options.bulkLater || bulk.empty() || placed.contains(rank) ||
        !options.rail.carries(rank, segments.ranksHere()))
      return Status();
    MAESTRO_ASSIGN(auto region, registerHost(functions, domain.get(), bulk, kWritable).withContext(name()));
    noteBulk(rank, FabricCard::Bulk{rank, reinterpret_cast<uintptr_t>(bulk.data()), region->rkey}, {});
    sources.remove(bulk);
    sources.add(bulk, std::move(region));
    return Status();
  }
  void removeBulk(uint32_t rank) override {
    if (auto found = placed.extract(rank)) {
      noteBulk(rank, std::nullopt, {});
      sources.remove(found.mapped());
    }
  }

  // ---- by any thread

  Status addDeviceSource(const DeviceMemory &memory) override {
    MAESTRO_ASSIGN(auto region, registerDevice(functions, domain.get(), memory, kReadable).withContext(name()));
    sources.add(memory.memory, std::move(region));
    return Status();
  }
  void addSource(std::span<const std::byte> memory) override { sources.add(memory); }
  void removeSource(std::span<const std::byte> memory) override { sources.remove(memory); }

private:
  template <typename T> Status make(Owned<T> &to, T *object, int (*destroy)(T *), const char *what) {
    if (!object)
      return unavailable(what);
    to = Owned<T>(object, destroy);
    return Status();
  }

  Status unavailable(const std::string &what, int error = errno) const {
    return Status::unavailable(name() + ": " + what + ": " + std::strerror(error));
  }

  Status registerSegments() {
    RankRange here = segments.ranksHere();
    for (uint32_t rank = here.first; rank < here.end; ++rank) {
      std::span<const std::byte> segment = options.bulkLater ? segments.hostPart(rank) : segments.segment(rank);
      Owned<ibv_mr> region;
      if (!segment.empty() && options.rail.carries(rank, here)) {
        MAESTRO_ASSIGN(region, registerHost(functions, domain.get(), segment, kWritable).withContext(name()));
      }
      segmentKeys.push_back(region ? region->rkey : 0);
      if (!segment.empty())
        sources.add(segment, std::move(region));
      if (options.bulkLater && segments.bulkBytes(rank) > 0)
        sources.add(segments.bulkPart(rank));
    }
    return Status();
  }

  Result<uint64_t> sourceKey(std::span<const std::byte> bytes) override {
    return sources.find(
        bytes,
        [this](std::span<const std::byte> source) { return registerHost(functions, domain.get(), source, kReadable); },
        [](const Owned<ibv_mr> &region) -> uint64_t { return region->lkey; });
  }

  // ---- connecting

  std::vector<std::byte> endpoint() const override {
    VerbsEndpoint own;
    own.isEthernet = port.isEthernet;
    own.lid = port.lid;
    own.mtu = static_cast<uint8_t>(port.mtu);
    std::memcpy(own.gid.data(), port.gid.raw, own.gid.size());
    for (const auto &queue : queues)
      own.queues.push_back({queue->ranks.first, queue->pair->qp_num, queue->firstPacket});
    return encode(own);
  }

  FabricCard::Segment segmentCard(uint32_t rank) const override {
    FabricCard::Segment segment;
    segment.base = reinterpret_cast<uint64_t>(segments.segment(rank).data());
    segment.key = segmentKeys[rank - segments.ranksHere().first];
    return segment;
  }

  Status connectPeer(const Peer &peer, std::span<const std::byte> bytes) override {
    MAESTRO_ASSIGN(VerbsEndpoint theirs, decodeEndpoint(bytes));
    auto own = std::find_if(queues.begin(), queues.end(),
                            [&](const auto &queue) { return queue->ranks.first == peer.ranks.first; });
    auto other = std::find_if(theirs.queues.begin(), theirs.queues.end(), [&](const VerbsEndpoint::Queue &queue) {
      return queue.firstRank == segments.ranksHere().first;
    });
    if (own == queues.end() || other == theirs.queues.end())
      return Status::invalidInput("the address of " + peer.name + " has no queue pair for this process");
    if (theirs.isEthernet != port.isEthernet)
      return Status::unavailable(name() + " does not reach " + peer.name + ", which has " +
                                 (theirs.isEthernet ? "RoCE" : "InfiniBand"));
    ways.push_back(own->get());
    return (*own)->connect(functions, port, theirs, *other).withContext(name() + ": no way to " + peer.name);
  }

  // ---- the fabric's thread

  bool post(Peer &peer) override {
    QueuePair &queue = *ways[peer.number];
    uint64_t room = signalled < mostSignalled ? QueuePair::kDepth - (queue.posted - queue.completed) : 0;
    room = std::min<uint64_t>(room, kChain);
    uint32_t count = 0;
    size_t gone = 0, waiting = peer.ring.size();
    for (; count < room && gone < waiting; ++count) {
      bool counts = gone + 1 < waiting && peer.ring.at(gone + 1).kind == Operation::Kind::Signal &&
                    peer.ring.at(gone + 1).rank == peer.ring.at(gone).rank;
      gone += prepare(queue, count, peer.ring.at(gone), counts ? &peer.ring.at(gone + 1) : nullptr);
    }
    if (count > 0)
      send(peer, queue, count);
    peer.ring.pop(gone);
    return count > 0;
  }

  /// Fills a work request; how many operations are done with it.
  size_t prepare(QueuePair &queue, uint32_t number, const Operation &next, const Operation *countBehind) {
    Destination to = destinationOf(next);
    ibv_send_wr &work = works[number];
    ibv_sge &part = parts[number];
    work = {};
    work.opcode = IBV_WR_RDMA_WRITE;
    work.wr.rdma.remote_addr = to.address;
    work.wr.rdma.rkey = static_cast<uint32_t>(to.key);
    work.sg_list = &part;
    work.num_sge = 1;
    Word *&taken = queue.taken[(queue.posted + number) % QueuePair::kDepth];
    taken = nullptr;
    switch (next.kind) {
    case Operation::Kind::Signal:
      work.num_sge = 0;
      setCount(work, next);
      return 1;
    case Operation::Kind::Put:
      work.send_flags = IBV_SEND_INLINE;
      part = {reinterpret_cast<uintptr_t>(next.inlined.data()), static_cast<uint32_t>(next.bytes), 0};
      if (countBehind)
        setCount(work, *countBehind);
      return countBehind ? 2 : 1;
    case Operation::Kind::Write:
      break;
    }
    uint64_t bytes = std::min<uint64_t>(next.bytes - queue.sentOfFirst, port.maxMessageBytes);
    part = {reinterpret_cast<uintptr_t>(next.from + queue.sentOfFirst), static_cast<uint32_t>(bytes),
            static_cast<uint32_t>(next.sourceKey)};
    work.wr.rdma.remote_addr += queue.sentOfFirst;
    queue.sentOfFirst += bytes;
    if (queue.sentOfFirst < next.bytes)
      return 0;
    queue.sentOfFirst = 0;
    taken = next.taken;
    return 1;
  }

  void setCount(ibv_send_wr &work, const Operation &signal) {
    work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    work.imm_data = ::htonl(dataOf(signal));
  }

  /// Posts the first works; the end of the last stands for all.
  void send(const Peer &peer, QueuePair &queue, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      works[i].wr_id = uint64_t{peer.number} << 32 | static_cast<uint32_t>(queue.posted + i);
      works[i].next = i + 1 < count ? &works[i + 1] : nullptr;
    }
    works[count - 1].send_flags |= IBV_SEND_SIGNALED;
    queue.posted += count;
    underWay += count;
    ++signalled;
    ibv_send_wr *bad = nullptr;
    int error = ::ibv_post_send(queue.pair.get(), works.data(), &bad);
    if (error)
      report(&peer, std::string("posting: ") + std::strerror(error));
  }

  bool collect() override {
    ibv_wc ends[kCompletionsAtOnce];
    int count = ::ibv_poll_cq(completions.get(), kCompletionsAtOnce, ends);
    if (count < 0)
      report(nullptr, "the completion queue cannot be read");
    uint32_t received = 0;
    std::array<uint32_t, kCompletionsAtOnce> counts;
    size_t counted = 0;
    for (int i = 0; i < count; ++i) {
      const ibv_wc &end = ends[i];
      if (end.wr_id == kReceiveId)
        ++received;
      if (end.status != IBV_WC_SUCCESS) // Then no other field is valid but wr_id.
        broken(end);
      else if (end.wr_id == kReceiveId)
        counts[counted++] = ::ntohl(end.imm_data);
      else
        left(*ways[end.wr_id >> 32], ways[end.wr_id >> 32]->upTo(end.wr_id));
    }
    arrived({counts.data(), counted});
    if (received > 0)
      if (Status status = postReceives(received); !status.isOk())
        report(nullptr, std::string(status.message()));
    return count != 0;
  }

  void left(QueuePair &queue, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i, ++queue.completed)
      if (Word *taken = queue.taken[queue.completed % QueuePair::kDepth])
        transport::signal(*taken, 1);
    --signalled;
    underWay -= count;
  }

  void broken(const ibv_wc &end) {
    const Peer *peer = end.wr_id == kReceiveId ? nullptr : peers[end.wr_id >> 32].get();
    report(peer, std::string(functions.statusText(end.status)) + " (status " + std::to_string(end.status) +
                     ", the device's own " + std::to_string(end.vendor_err) + "): " + meaningOf(end.status));
  }

  /// The first trouble of a probe, else the end of the job.
  void report(const Peer *peer, const std::string &text) {
    if (isGivingUp || hasFailed())
      return;
    lookAtEvents();
    if (!isProbing)
      return fail(peer, lastEvent.empty() ? text : text + "; before that the device said: " + lastEvent);
    if (trouble.empty())
      trouble = peer ? "writing to " + peer->name + ": " + text : text;
  }

  Status postReceives(uint32_t count) {
    while (count > 0) {
      uint32_t now = std::min<uint32_t>(count, kCompletionsAtOnce);
      ibv_recv_wr works[kCompletionsAtOnce] = {};
      for (uint32_t i = 0; i < now; ++i) {
        works[i].wr_id = kReceiveId;
        works[i].next = i + 1 < now ? &works[i + 1] : nullptr;
      }
      ibv_recv_wr *bad = nullptr;
      if (int error = ::ibv_post_srq_recv(pendingReceives.get(), works, &bad))
        return unavailable("posting receives", error);
      count -= now;
    }
    return Status();
  }

  int arm() override {
    if (++armed % kArmsALook == 0)
      lookAtEvents();
    ibv_cq *queue = nullptr;
    void *context = nullptr;
    if (isNoticeAsked && functions.getEvent(channel.get(), &queue, &context) == 0) { // One for each that was asked for.
      functions.acknowledgeEvents(queue, 1);
      isNoticeAsked = false;
    }
    if (!isNoticeAsked) {
      if (int error = ::ibv_req_notify_cq(completions.get(), 0))
        report(nullptr, std::string("waiting: ") + std::strerror(error));
      isNoticeAsked = true;
    }
    return collect() ? -1 : channel->fd; // What came before the notice was asked for has none.
  }

  /// What the device tells of itself: where something fails, that may be why.
  void lookAtEvents() {
    ibv_async_event event;
    while (functions.getAsyncEvent(port.context.get(), &event) == 0) {
      lastEvent = functions.eventText(event.event_type);
      bool isFatal = event.event_type == IBV_EVENT_DEVICE_FATAL || event.event_type == IBV_EVENT_CQ_ERR ||
                     event.event_type == IBV_EVENT_SRQ_ERR;
      functions.acknowledgeAsyncEvent(&event);
      if (isFatal)
        report(nullptr, lastEvent);
    }
  }

  void giveUp() override {
    isGivingUp = true;
    for (const auto &queue : queues)
      queue->breakOff(functions);
    auto deadline = std::chrono::steady_clock::now() + kFlushPatience;
    auto hasLeft = [](const auto &queue) { return queue->completed == queue->posted; };
    while (!std::all_of(queues.begin(), queues.end(), hasLeft) && std::chrono::steady_clock::now() < deadline) {
      ibv_wc end;
      if (::ibv_poll_cq(completions.get(), 1, &end) < 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      else if (end.wr_id != kReceiveId) {
        QueuePair &queue = *ways[end.wr_id >> 32];
        queue.completed += queue.upTo(end.wr_id);
      }
    }
  }

  const VerbsOptions options;
  const VerbsFunctions &functions;

  // Each before what belongs to it.
  VerbsPort port;
  std::map<std::string, uint64_t> troublesBefore;
  Owned<ibv_pd> domain;
  Owned<ibv_comp_channel> channel;
  Owned<ibv_cq> completions;
  Owned<ibv_srq> pendingReceives;
  std::vector<std::unique_ptr<QueuePair>> queues; ///< In the order of the options' peers.
  std::vector<QueuePair *> ways;                  ///< By peer.
  Sources<Owned<ibv_mr>> sources;
  std::map<uint32_t, std::span<const std::byte>> placed; ///< Bulk on devices, by rank that is here.
  std::vector<uint32_t> segmentKeys; ///< By rank that is here; 0 where another rail carries what is written to it.

  std::array<ibv_send_wr, kChain> works{};
  std::array<ibv_sge, kChain> parts{};
  uint64_t signalled = 0, mostSignalled = 0; ///< Ends of writes in the completion queue, or to come there.
  uint64_t armed = 0;
  bool isNoticeAsked = false, isProbing = false, isGivingUp = false;
  std::string trouble;   ///< Of the probe.
  std::string lastEvent; ///< Of the device.
};

} // namespace

Result<uint32_t> countVerbsPorts(const VerbsOptions &options) {
  MAESTRO_ASSIGN(const VerbsFunctions *functions, loadVerbs());
  return countVerbsPorts(*functions, options.device, options.address, options.onlyAddress);
}

Result<std::unique_ptr<Network>> openVerbs(const Segments &segments, const VerbsOptions &options, const Abort &abort) {
  MAESTRO_ASSIGN(const VerbsFunctions *functions, loadVerbs());
  auto fabric = std::make_unique<Implementation>(segments, options, abort, *functions);
  MAESTRO_TRY(fabric->open());
  return std::unique_ptr<Network>(std::move(fabric));
}

} // namespace maestro::transport
