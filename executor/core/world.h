// How a rank sees the others: the way to stop together, its ends of edges, of sums of gradients, of exchanges and of
// agreements.
//
//   plan ─▶ descriptions ─▶ places in each rank's segment (the same for all who compute them) ─▶ segments ─▶ this
//   rank's ends
//
// Made before ranks start, from the plan alone. Each rank then makes its own ends, on its own device.
#pragma once

#include "executor/core/topology.h"
#include "executor/world/agreement.h"
#include "executor/world/channel.h"
#include "executor/world/exchange.h"
#include "executor/world/reduction.h"
#include "transport/abort.h"
#include "transport/local/neighbour.h"
#include "transport/local/post.h"
#include "transport/nccl/places.h"
#include "transport/segments.h"
#include "transport/shared_memory.h"

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace maestro::executor {

/// How a job that failed ends; beside the abort's cause, which carries text only.
struct SharedOutcome {
  std::atomic<int> code{0}; ///< StatusCode of the first failure.
};

/// What was done since the run began: those who do it add, the root reads.
struct SharedCounters {
  using Counter = std::atomic<int64_t>;
  Counter *stations = nullptr; ///< By Topology.stations: nanoseconds in tasks.
  Counter *devices = nullptr;  ///< By rank: nanoseconds in tasks, reductions and updates.
  Counter *rings = nullptr;    ///< By Topology.rings: bytes that have arrived.
  // By rank, of its process; of a process's ranks one has them.
  Counter *dataBytes = nullptr;                              ///< Of samples' values, read for its steps.
  Counter *networkBytes = nullptr, *networkBusyNs = nullptr; ///< transport::Traffic

  static uint64_t count(const Topology &topology) {
    return topology.stations.size() + topology.rings.size() + 4 * uint64_t{topology.ranks};
  }
  static SharedCounters of(Counter *all, const Topology &topology) {
    Counter *byRank = all + topology.stations.size() + topology.rings.size();
    return {all,
            byRank,
            all + topology.stations.size(),
            byRank + topology.ranks,
            byRank + 2 * uint64_t{topology.ranks},
            byRank + 3 * uint64_t{topology.ranks}};
  }
};

/// Of the ring of pieces of parameters on their way to the rank that takes them.
inline constexpr uint32_t kPieceSlots = 2;

struct WorldOptions {
  bool evaluates = false;
  uint64_t growth = 1;        ///< Of ring slots (--self-check).
  uint32_t epoch = 1;         ///< Of the run.
  bool processes = false;     ///< Ranks will not see each other's devices.
  bool adapts = false;        ///< All ranks agree on measured times in every step.
  bool gathersAtRoot = false; ///< The root takes parameters' buffers of all that train (Job::gatherAtRoot).
  /// Ranks whose memory this process makes; nothing: all.
  std::optional<transport::RankRange> here = {};
};

class World {
public:
  static Result<std::unique_ptr<World>> create(const plan::Plan &plan, const Topology &topology,
                                               const WorldOptions &options);

  const transport::Abort &abort() const { return *stop; }
  SharedOutcome &outcome() const { return *shared; }
  /// Ends the job for this cause, unless it has ended already.
  void raise(uint32_t rank, const Status &cause) const {
    int none = 0;
    if (!stop->isRaised())
      shared->code.compare_exchange_strong(none, static_cast<int>(cause.code()));
    stop->raise(rank, cause);
  }
  const SharedCounters &counters() const { return counted; }

  /// The host's memory in which ranks meet, as far as it is mapped here.
  std::vector<std::span<std::byte>> hostParts() const { return parts(&transport::Segments::hostPart); }
  /// The same, of what devices alone touch.
  std::vector<std::span<std::byte>> bulkParts() const { return parts(&transport::Segments::bulkPart); }
  /// Everybody's memory, as this process reaches it.
  const transport::Segments &reach() const { return *segments; }
  // Where ranks are several processes, before ends are made: those whose memory is mapped here, as they are on the same
  // machine, and the way to all others.
  transport::NeighbourCard neighbourCard() const {
    transport::NeighbourCard card = transport::NeighbourCard::of(*memory, *segments);
    if (auto own = posts.find(segments->ranksHere().first); own != posts.end())
      card.post = own->second->name();
    return card;
  }
  void adopt(const transport::NeighbourCard &card, std::unique_ptr<transport::SharedMemory> theirs) {
    transport::enter(card, *theirs, *segments);
    neighbours.push_back(std::move(theirs));
    postNames[card.segments.front().rank] = card.post;
  }
  /// How processes of this machine whose first ranks these are pass each other what only descriptors name. Null: no
  /// device has such things.
  transport::PostBox *post(uint32_t firstRank) const {
    auto own = posts.find(firstRank);
    return own == posts.end() ? nullptr : own->second.get();
  }
  const std::string &postName(uint32_t firstRank) const { return postNames.at(firstRank); }
  /// Where ranks with GPUs tell each other what NCCL moves; nowhere but between processes that an engine has started.
  const transport::NcclPlaces &ncclPlaces() const { return nccl; }
  /// Another rank's bulk is reached by a fabric of its own.
  void reachBulkBy(uint32_t rank, transport::Fabric &way) {
    bulkFabric = &way;
    segments->reachBulkBy(rank, way);
  }
  /// The rank's bulk is in memory of its device, which devices of this process have at this address.
  void placeBulk(uint32_t rank, std::byte *address) { segments->placeBulk(rank, address); }
  void connect(transport::Fabric &way) {
    fabric = &way;
    segments->connect(way);
  }
  /// Ranks elsewhere with which these have something to do: they write to each other.
  std::set<uint32_t> peersOf(transport::RankRange here) const { return peersOf(here, false); }
  /// Those of them that write to each other's bulk.
  std::set<uint32_t> bulkPeersOf(transport::RankRange here) const { return peersOf(here, true); }
  /// At which those processes count when they can write to this rank.
  const transport::WordPlace &greeting(uint32_t rank) const { return greetings[rank]; }
  /// At which the root counts for each rank that writes files of checkpoints: another one is begun. And at which those
  /// count for the root: theirs are written.
  const transport::WordPlace &checkpointBegun(uint32_t rank) const { return begun[rank]; }
  const transport::WordPlace &filesWritten() const { return written; }
  /// Tells the root, where it is another process, what the rank has done so far.
  void publishCounters(uint32_t rank) const;

  /// Those with losses, something to train or to save, which meet in every step.
  const std::vector<uint32_t> &trainingRanks() const { return training; }
  /// The rank that saves and tells: the first that trains.
  uint32_t root() const { return training.empty() ? 0 : training.front(); }

  // ---- a rank's ends; the device must outlive them

  /// Of a ring of Topology.rings.
  Result<std::unique_ptr<Sender>> sender(uint32_t ring, uint32_t index, Device &device) const {
    return channels[ring].sender(*segments, index, device);
  }
  Result<std::unique_ptr<Receiver>> receiver(uint32_t ring, Device &device) const {
    return channels[ring].receiver(*segments, device);
  }
  /// Between the ranks that share the station.
  Result<Exchange::Member> exchange(uint32_t station, Device &device) const;
  /// At a step's end, of all that train; nothing where the rank does not, or is the only one.
  std::optional<Agreement::Member> endAgreement(uint32_t rank) const { return memberOf(ends, rank); }
  /// On losses' counts, of those that count or scale losses; likewise.
  std::optional<Agreement::Member> countAgreement(uint32_t rank) const { return memberOf(counts, rank); }
  /// Where the gradients of a station of this process lie that others add to; nothing where nobody does.
  std::optional<transport::Target> gradients(uint32_t station) const;
  /// Sums of gradients that the plan asks for; between the first ranks of their stations, the second ranks, and so on.
  size_t gradientSums() const { return sums.size(); }
  /// Topology.stations that a sum has, in the order in which they are added up.
  std::span<const uint32_t> stationsOf(size_t sum) const { return sums[sum].stations; }
  Result<Reduction::Member> gradientSum(size_t sum, uint32_t member, Device &device) const {
    return sums[sum].reduction->member(*segments, member, device);
  }
  /// Where ranks are processes: of pieces of parameters, from the other ranks that share the taker's tensors, and to
  /// the root as WorldOptions say.
  Result<std::unique_ptr<Sender>> pieceSender(uint32_t taker, uint32_t rank, Device &device) const;
  Result<std::unique_ptr<Receiver>> pieceReceiver(uint32_t taker, Device &device) const;

private:
  friend class WorldBuilder;
  struct GradientSum {
    std::vector<uint32_t> stations;             ///< Topology.stations
    const plan::fb::GradientSum *sum = nullptr; ///< The plan's.
    std::optional<Reduction> reduction;
  };
  explicit World(const Topology &topology) : topology(topology) {}
  struct Agreed {
    std::vector<uint32_t> ranks;
    std::optional<Agreement> agreement; ///< Nothing where there are less than two.
  };
  std::vector<std::span<std::byte>> parts(std::span<std::byte> (transport::Segments::*of)(uint32_t) const) const {
    std::vector<std::span<std::byte>> all;
    for (uint32_t rank = 0; rank < segments->ranks(); ++rank)
      if (std::span<std::byte> part = segments->isMapped(rank) ? (*segments.*of)(rank) : std::span<std::byte>();
          !part.empty())
        all.push_back(part);
    return all;
  }
  std::optional<Agreement::Member> memberOf(const Agreed &agreed, uint32_t rank) const;

  const Topology topology;
  std::unique_ptr<transport::SharedMemory> memory;
  std::vector<std::unique_ptr<transport::SharedMemory>> neighbours; ///< Of processes of this machine.
  std::map<uint32_t, std::unique_ptr<transport::PostBox>> posts;    ///< By a process's first rank: of this process,
                                                                    ///< or of all that it will fork;
  std::map<uint32_t, std::string> postNames;                        ///< and of neighbours.
  std::optional<transport::Abort> stop;
  SharedOutcome *shared = nullptr;
  transport::Place countersPlace; ///< In the root's segment.
  SharedCounters counted;         ///< There, or where the root is elsewhere, what is known here.
  transport::Fabric *fabric = nullptr, *bulkFabric = nullptr; ///< Null: nobody is reached that way.
  /// Who writes to whom: each of the first to each of the others, or back.
  struct Meeting {
    std::vector<uint32_t> some, others;
    bool isBulk = false; ///< Devices do, to each other's memory.
  };
  std::set<uint32_t> peersOf(transport::RankRange here, bool bulkOnly) const;
  std::vector<Meeting> meetings;
  std::vector<transport::WordPlace> greetings, begun; ///< By rank.
  transport::WordPlace written;
  std::vector<uint32_t> training;
  transport::NcclPlaces nccl;
  std::optional<transport::Segments> segments;
  std::vector<Channel> channels;                                ///< By Topology.rings.
  std::vector<std::optional<transport::Place>> sharedGradients; ///< By Topology.stations.
  std::vector<GradientSum> sums;
  std::vector<std::optional<Exchange>> exchanges; ///< By the scheduler's device (Topology.deviceOf).
  Agreed ends, counts;
  struct Pieces {
    std::vector<uint32_t> senders; ///< Ranks.
    Channel channel;
  };
  std::map<uint32_t, Pieces> pieces; ///< By the rank that takes them.
};

} // namespace maestro::executor
