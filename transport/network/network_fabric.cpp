#include "transport/network/network_fabric.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace maestro::transport {
namespace {

/// The control connection knows better why a peer has gone, and is given so long to say it.
constexpr auto kPatience = std::chrono::milliseconds(1000);
constexpr auto kLook = std::chrono::milliseconds(10);

Status badCard(RankRange ranks, const std::string &text) {
  return Status::invalidInput("the address of ranks " + std::to_string(ranks.first) + " to " +
                              std::to_string(ranks.end - 1) + " " + text);
}

} // namespace

NetworkFabric::~NetworkFabric() {
  if (wakeDescriptor >= 0)
    ::close(wakeDescriptor);
}

Status NetworkFabric::openQueues() {
  RankRange here = segments.ranksHere();
  uint64_t words = 0;
  for (uint32_t rank = here.first; rank < here.end; ++rank) {
    firstWords.push_back(static_cast<uint32_t>(words));
    words += segments.words(rank);
  }
  if (words > kMostWords)
    return Status::unavailable(std::to_string(words) + " counters in one process; at most " +
                               std::to_string(kMostWords) + ": start more processes");
  remote.resize(segments.ranks());
  peerOf.resize(segments.ranks(), kNoPeer);
  flushes = std::vector<Flush>(here.count());
  wakeDescriptor = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  return wakeDescriptor < 0 ? Status::unavailable(std::string("eventfd: ") + std::strerror(errno)) : Status();
}

std::vector<std::byte> NetworkFabric::card() const {
  FabricCard card;
  card.endpoint = endpoint();
  RankRange here = segments.ranksHere();
  for (uint32_t rank = here.first; rank < here.end; ++rank) {
    FabricCard::Segment segment = segmentCard(rank);
    segment.rank = rank;
    segment.bytes = segments.bytes(rank);
    segment.firstWord = firstWords[rank - here.first];
    card.segments.push_back(segment);
  }
  return encode(card);
}

Status NetworkFabric::connect(RankRange ranks, const std::string &name, std::span<const std::byte> bytes) {
  MAESTRO_ASSIGN(FabricCard card, decodeCard(bytes));
  if (card.segments.size() != ranks.count())
    return badCard(ranks, "is of " + std::to_string(card.segments.size()) + " ranks");
  for (const FabricCard::Segment &segment : card.segments) {
    if (!ranks.has(segment.rank))
      return badCard(ranks, "is of rank " + std::to_string(segment.rank));
    if (segment.bytes != segments.bytes(segment.rank))
      return badCard(ranks, "has a segment of " + std::to_string(segment.bytes) + " bytes for rank " +
                                std::to_string(segment.rank) + " instead of " +
                                std::to_string(segments.bytes(segment.rank)));
    static_cast<FabricCard::Segment &>(remote[segment.rank]) = segment;
    remote[segment.rank].bulkOffset = segments.bytes(segment.rank) - segments.bulkBytes(segment.rank);
    peerOf[segment.rank] = static_cast<uint32_t>(peers.size());
  }
  auto peer = std::make_unique<Peer>();
  peer->number = static_cast<uint32_t>(peers.size());
  peer->ranks = ranks;
  peer->name = name;
  peers.push_back(std::move(peer));
  return connectPeer(*peers.back(), card.endpoint);
}

void NetworkFabric::noteBulk(uint32_t rank, const std::optional<FabricCard::Bulk> &bulk,
                             const std::function<Status()> &flush) {
  Flush &own = flushes[rank - segments.ranksHere().first];
  std::lock_guard lock(own.mutex);
  own.isNeeded = false;
  std::erase_if(bulks, [rank](const FabricCard::Bulk &each) { return each.rank == rank; });
  if (!bulk)
    return;
  bulks.push_back(*bulk);
  own.call = flush;
  own.isNeeded = static_cast<bool>(flush); // Nobody knows yet where to write.
}

Status NetworkFabric::connectBulk(RankRange ranks, std::span<const std::byte> card) {
  MAESTRO_ASSIGN(auto theirs, decodeBulks(card));
  for (const FabricCard::Bulk &bulk : theirs) {
    if (!ranks.has(bulk.rank))
      return badCard(ranks, "tells of memory of rank " + std::to_string(bulk.rank));
    remote[bulk.rank].bulk = bulk;
  }
  return Status();
}

Status NetworkFabric::start() {
  thread = std::thread([this] { serve(); });
  return Status();
}

void NetworkFabric::stop() {
  stopping = true;
  if (!thread.joinable())
    return;
  wake();
  thread.join();
}

void NetworkFabric::awaitIdle() {
  while (hasWork() && !isOver)
    std::this_thread::sleep_for(std::chrono::microseconds(20));
}

Traffic NetworkFabric::traffic() const {
  int64_t since = busySinceNs.load(std::memory_order_relaxed);
  return {writtenBytes.load(std::memory_order_relaxed),
          busyNs.load(std::memory_order_relaxed) + (since > 0 ? nowNs() - since : 0)};
}

// ---- by any thread

void NetworkFabric::write(const Place &to, const std::byte *from, uint64_t bytes, Word *taken) {
  Result<uint64_t> key = sourceKey({from, bytes}).withContext(name());
  if (!key)
    return abort.raise(segments.ranksHere().first, key.status());
  Operation operation;
  operation.kind = Operation::Kind::Write;
  operation.rank = to.rank;
  operation.offset = to.offset;
  operation.bytes = bytes;
  operation.from = from;
  operation.sourceKey = *key;
  operation.taken = taken;
  writtenBytes.fetch_add(bytes, std::memory_order_relaxed);
  give(operation);
}

void NetworkFabric::put(const Place &to, std::span<const std::byte> bytes) {
  Operation operation;
  operation.kind = Operation::Kind::Put;
  operation.rank = to.rank;
  operation.offset = to.offset;
  operation.bytes = std::min(bytes.size(), kMostPutBytes);
  std::copy_n(bytes.begin(), operation.bytes, operation.inlined.begin());
  give(operation);
}

void NetworkFabric::signal(const WordPlace &word, uint64_t more) {
  Operation operation;
  operation.kind = Operation::Kind::Signal;
  operation.rank = word.rank;
  operation.offset = word.offset;
  operation.word = word.index;
  for (; more > 0; more -= operation.bytes) {
    operation.bytes = std::min<uint64_t>(more, kMostCount);
    give(operation);
  }
}

void NetworkFabric::give(const Operation &operation) {
  uint32_t number = peerOf[operation.rank];
  if (number == kNoPeer) {
    abort.raise(operation.rank, "something is written to it, and its process is no peer of this one");
    return;
  }
  Peer &peer = *peers[number];
  while (!peer.ring.push(operation)) {
    if (abort.isRaised())
      return;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  if (isSleeping.load())
    wake();
}

void NetworkFabric::wake() {
  uint64_t one = 1;
  (void)!::write(wakeDescriptor, &one, sizeof one);
}

bool NetworkFabric::hasQueued() const {
  return std::any_of(peers.begin(), peers.end(), [](const auto &peer) { return peer->ring.size() > 0; });
}

// ---- the fabric's thread

void NetworkFabric::serve() {
  ::prctl(PR_SET_NAME, "fabric");
  while ((!stopping || hasWork()) && !failed && !abort.isRaised()) {
    Spinning spinning(spin);
    bool works;
    do {
      bool sends = postAll();
      noteBusy(underWay > 0);
      works = collect() || sends;
      noteBusy(underWay > 0);
    } while (!works && !failed && !stopping && spinning.again());
    if (!works && !stopping)
      sleep();
    spinning.ended();
  }
  if (hasWork())
    giveUp();
  isOver = true;
}

void NetworkFabric::noteBusy(bool isBusy) {
  int64_t since = busySinceNs.load(std::memory_order_relaxed);
  if (isBusy == (since > 0))
    return;
  int64_t now = nowNs();
  if (!isBusy)
    busyNs.fetch_add(now - since, std::memory_order_relaxed);
  busySinceNs.store(isBusy ? now : 0, std::memory_order_relaxed);
}

/// Whether anything could be posted.
bool NetworkFabric::postAll() {
  bool any = false;
  isStuck = false;
  for (const auto &peer : peers)
    while (!failed && peer->ring.size() > 0) {
      if (!post(*peer)) {
        isStuck = true;
        break;
      }
      any = true;
    }
  return any;
}

void NetworkFabric::sleep() {
  isSleeping = true;
  if (!hasQueued() || isStuck) {
    if (int descriptor = arm(); descriptor >= 0) {
      pollfd descriptors[] = {{descriptor, POLLIN, 0}, {wakeDescriptor, POLLIN, 0}};
      (void)::poll(descriptors, 2, hasWork() ? busyPollMs() : kIdlePollMs);
      uint64_t count;
      if (descriptors[1].revents)
        (void)!::read(wakeDescriptor, &count, sizeof count);
    }
  }
  isSleeping = false;
}

void NetworkFabric::arrived(std::span<const uint32_t> counts) {
  constexpr uint32_t kNone = ~uint32_t{0};
  uint32_t flushed = kNone;
  for (uint32_t data : counts) {
    uint32_t number = data >> kCountBits;
    auto above = std::upper_bound(firstWords.begin(), firstWords.end(), number) - 1;
    auto index = static_cast<uint32_t>(above - firstWords.begin());
    Word *word = segments.word(segments.ranksHere().first + index, number - *above);
    if (!word)
      return fail(nullptr, "a count for word " + std::to_string(number) + ", which does not exist");
    if (Flush &flush = flushes[index]; index != flushed && flush.isNeeded) { // Once for all of these.
      std::lock_guard lock(flush.mutex);
      if (Status status = flush.isNeeded ? flush.call() : Status(); !status.isOk())
        return fail(nullptr, std::string(status.message()));
      flushed = index;
    }
    transport::signal(*word, data & kMostCount);
  }
}

void NetworkFabric::fail(const Peer *peer, const std::string &text) {
  if (failed.exchange(true))
    return;
  for (auto waited = std::chrono::milliseconds(0); waited < kPatience && !abort.isRaised() && !stopping;
       waited += kLook)
    std::this_thread::sleep_for(kLook);
  if (stopping)
    return;
  std::string to = peer ? "writing to " + peer->name + " (ranks " + std::to_string(peer->ranks.first) + " to " +
                              std::to_string(peer->ranks.end - 1) + ")"
                        : "receiving";
  abort.raise(segments.ranksHere().first, this->name() + ": " + to + ": " + text);
}

} // namespace maestro::transport
