// A fabric between processes over a network: what its implementations (libfabric/, verbs/) share.
//
//   any thread: write, put, signal ─▶ a ring a peer ─▶ the fabric's thread: post() ─▶ the peer's segment
//                                                                          collect() counts at `taken`
//   the peer's thread: collect(): a count has arrived ─▶ the word in its segment, who waits wakes
//
// A count travels as 32 bits beside or behind what was written before: the word's number in its process and how much.
// An implementation opens what it uses, posts what a ring holds, in order, and collects what has left and arrived.
#pragma once

#include "base/status.h"
#include "transport/abort.h"
#include "transport/network/card.h"
#include "transport/network/network.h"
#include "transport/network/ring.h"
#include "transport/segments.h"
#include "transport/wait.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace maestro::transport {

class NetworkFabric : public Network {
public:
  NetworkFabric(const NetworkFabric &) = delete;
  ~NetworkFabric() override;

  std::vector<std::byte> card() const final;
  Status connect(RankRange ranks, const std::string &name, std::span<const std::byte> card) final;
  Status start() final;
  void write(const Place &to, const std::byte *from, uint64_t bytes, Word *taken) final;
  void put(const Place &to, std::span<const std::byte> bytes) final;
  void signal(const WordPlace &word, uint64_t more) final;
  void awaitIdle() final;
  Traffic traffic() const final;
  bool readsDevices() const final { return hasDevices; }
  std::vector<std::byte> bulkCard() const final { return encode(bulks); }
  Status connectBulk(RankRange ranks, std::span<const std::byte> card) final;
  void readDevices() final { hasDevices = true; }

protected:
  struct Peer {
    uint32_t number = 0; ///< In order of connect().
    RankRange ranks;
    std::string name;
    OperationRing ring;
  };

  NetworkFabric(const Segments &segments, const Abort &abort) : segments(segments), abort(abort) {}

  /// Numbers the words of the ranks that are here, and what wakes the thread.
  Status openQueues();
  /// By the destructor of an implementation: the thread has ended.
  void stop();

  // ---- of an implementation

  /// Of this process, as connectPeer() of the others wants it.
  virtual std::vector<std::byte> endpoint() const = 0;
  /// Where the segment of a rank that is here is, as the others' writes name it.
  virtual FabricCard::Segment segmentCard(uint32_t rank) const = 0;
  virtual Status connectPeer(const Peer &peer, std::span<const std::byte> endpoint) = 0;
  /// What write() must know of the memory that it is given. An error ends the job.
  virtual Result<uint64_t> sourceKey(std::span<const std::byte>) { return uint64_t{0}; }

  // ---- by the fabric's thread

  /// Posts what is next in the peer's ring, which is not empty, and pops what has gone as a whole; false: not now. What
  /// is to be collected yet is counted in `underWay` before.
  virtual bool post(Peer &peer) = 0;
  /// Whether anything had arrived or left.
  virtual bool collect() = 0;
  /// The descriptor that becomes readable when there is something to collect; −1 where there already may be.
  virtual int arm() = 0;
  /// Who must be called to make progress looks around so often while something is under way.
  virtual int busyPollMs() const { return kIdlePollMs; }
  /// The job has ended: what is under way is given up, and touches no memory any more.
  virtual void giveUp() {}

  /// 32 bits for the peer: which word, and how much.
  uint32_t dataOf(const Operation &signal) const {
    return (remote[signal.rank].firstWord + signal.word) << kCountBits | static_cast<uint32_t>(signal.bytes);
  }
  /// Counts have come, and with each of them all that was written before it.
  void arrived(std::span<const uint32_t> counts);
  /// Where a rank that is here has its bulk; nothing: behind the host part of its segment.
  void noteBulk(uint32_t rank, const std::optional<FabricCard::Bulk> &bulk, const std::function<Status()> &flush);
  /// Where what is written to a rank goes.
  struct Destination {
    uint64_t address = 0;
    uint64_t key = 0;
  };
  Destination destinationOf(const Operation &operation) const {
    const Remote &to = remote[operation.rank];
    if (to.bulk && operation.offset >= to.bulkOffset)
      return {to.bulk->base + (operation.offset - to.bulkOffset), to.bulk->key};
    return {to.base + operation.offset, to.key};
  }
  /// The job ends; null where it is not about one peer.
  void fail(const Peer *peer, const std::string &text);
  bool hasFailed() const { return failed; }

  static constexpr int kIdlePollMs = 250;

  const Segments &segments;
  const Abort &abort;
  struct Remote : FabricCard::Segment {
    std::optional<FabricCard::Bulk> bulk; ///< Where it is apart; from this offset on.
    uint64_t bulkOffset = 0;
  };
  std::vector<Remote> remote; ///< By rank.
  std::vector<std::unique_ptr<Peer>> peers;
  std::atomic<uint64_t> underWay{0}; ///< Of all peers.

private:
  // A count in 32 bits, which all networks carry.
  static constexpr uint32_t kCountBits = 8, kMostCount = (1u << kCountBits) - 1;
  static constexpr uint32_t kMostWords = 1u << (32 - kCountBits);

  void give(const Operation &operation);
  void serve();
  bool postAll();
  void sleep();
  void wake();
  void noteBusy(bool isBusy);
  bool hasQueued() const;
  bool hasWork() const { return underWay > 0 || hasQueued(); }

  std::vector<uint32_t> firstWords;    ///< By rank that is here: the number of its first word in this process.
  std::vector<FabricCard::Bulk> bulks; ///< Of ranks that are here.
  struct Flush {
    std::atomic<bool> isNeeded{false};
    std::mutex mutex; ///< Of what is called, and that it goes.
    std::function<Status()> call;
  };
  std::vector<Flush> flushes;          ///< By rank that is here.
  std::atomic<bool> hasDevices{false}; ///< write() takes addresses of devices.
  static constexpr uint32_t kNoPeer = ~uint32_t{0};
  std::vector<uint32_t> peerOf; ///< By rank.
  int wakeDescriptor = -1;
  std::thread thread;
  std::atomic<bool> stopping{false}, isSleeping{false}, failed{false};
  std::atomic<bool> isOver{false}; ///< The thread does nothing any more.
  std::atomic<uint64_t> writtenBytes{0};
  std::atomic<int64_t> busyNs{0}, busySinceNs{0}; ///< Up to the last time; 0: not now.
  Spin spin;
  bool isStuck = false; ///< Something is to be posted that the network does not take now.
};

} // namespace maestro::transport
