#include "executor/core/cluster_ways.h"

#include "base/bytes.h"
#include "transport/libfabric/libfabric.h"
#include "transport/verbs/verbs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <unistd.h>
#include <utility>

namespace maestro::executor {
namespace {

using transport::NetworkFabric;
using Records = std::vector<std::vector<std::byte>>;

std::string textOf(const Status &status) { return std::string(status.message()); }

/// Memory, between processes of one machine.
class Neighbours {
public:
  Neighbours(transport::Control &control, const PeerRanks &peers, World &world)
      : control(control), peers(peers), world(world) {}

  /// A pair shares memory where each can open the other's.
  Status find() {
    transport::NeighbourCard own = world.neighbourCard();
    MAESTRO_ASSIGN(Records cards, control.gather(encode(own)));
    for (const auto &[process, ranks] : peers)
      MAESTRO_TRY(open(process, ranks, own, cards[process]));
    ByteWriter writer;
    writer.number(static_cast<uint32_t>(peers.size())).text(refusal).number(static_cast<uint32_t>(opened.size()));
    for (const auto &[process, neighbour] : opened)
      writer.number(process);
    MAESTRO_ASSIGN(Records records, control.gather(writer.take()));
    std::vector<std::set<uint32_t>> opens(records.size());
    std::vector<uint32_t> peersOf(records.size());
    refusal.clear();
    for (uint32_t p = 0; p < records.size(); ++p) {
      ByteReader reader(records[p]);
      peersOf[p] = reader.number<uint32_t>();
      if (std::string why = reader.text(); refusal.empty())
        refusal = std::move(why);
      for (uint32_t left = reader.number<uint32_t>(); left > 0 && reader.isOk(); --left)
        opens[p].insert(reader.number<uint32_t>());
    }
    for (uint32_t p = 0; p < records.size(); ++p) {
      auto pairs = std::count_if(opens[p].begin(), opens[p].end(),
                                 [&, p](uint32_t other) { return other < opens.size() && opens[other].contains(p); });
      pairsOfAll += pairs;
      othersOfAll += peersOf[p] - pairs;
    }
    for (auto &[process, neighbour] : opened)
      if (opens[process].contains(control.process())) {
        world.adopt(neighbour.card, std::move(neighbour.memory));
        shared.insert(process);
      }
    return Status();
  }

  /// Those that are to be reached otherwise.
  PeerRanks others() const {
    PeerRanks left = peers;
    std::erase_if(left, [&](const auto &peer) { return shared.contains(peer.first); });
    return left;
  }
  bool hasPairs() const { return pairsOfAll > 0; }   ///< Anywhere.
  bool hasOthers() const { return othersOfAll > 0; } ///< Anywhere.
  const std::string &why() const { return refusal; } ///< Why neighbours do not share memory; empty: all do.

private:
  struct Neighbour {
    transport::NeighbourCard card;
    std::unique_ptr<transport::SharedMemory> memory;
  };

  Status open(uint32_t process, transport::RankRange ranks, const transport::NeighbourCard &own,
              std::span<const std::byte> bytes) {
    auto card = transport::decodeNeighbourCard(bytes);
    if (!card)
      return Status(card.status().code(), control.nameOf(process) + ": " + textOf(card.status()));
    if (card->machine != own.machine)
      return Status();
    auto memory = transport::openNeighbour(*card, ranks, world.reach());
    if (memory)
      opened.emplace(process, Neighbour{std::move(*card), std::move(*memory)});
    else if (memory.status().code() == StatusCode::InvalidInput)
      return Status(StatusCode::InvalidInput, control.nameOf(process) + ": " + textOf(memory.status()));
    else if (refusal.empty())
      refusal =
          fmt::format("process {} with {}: {}", control.process(), control.nameOf(process), memory.status().message());
    return Status();
  }

  transport::Control &control;
  const PeerRanks &peers;
  World &world;
  std::map<uint32_t, Neighbour> opened;
  std::set<uint32_t> shared; ///< Processes.
  uint64_t pairsOfAll = 0, othersOfAll = 0;
  std::string refusal;
};

/// A network, between those that share none.
class Networks {
public:
  Networks(transport::Control &control, const PeerRanks &peers, const World &world)
      : control(control), peers(peers), segments(world.reach()), abort(world.abort()) {}

  /// False where one of the processes cannot, and why() is the first that says so.
  Result<bool> verbs() {
    transport::VerbsOptions options;
    options.address = control.address();
    if (const char *device = std::getenv("MAESTRO_IB_DEVICE"))
      options.device = device;
    if (const char *gid = std::getenv("MAESTRO_IB_GID_INDEX")) // DEVICE:PORT:GID, of which each may be left out.
      options.device += (options.device.find(':') == std::string::npos ? "::" : ":") + std::string(gid);
    const char *interface = std::getenv("MAESTRO_INTERFACE");
    options.onlyAddress = interface && *interface;
    for (const auto &[process, ranks] : peers)
      options.peers.push_back(ranks);
    return open([&] { return transport::openVerbs(segments, options, abort); });
  }

  Result<bool> libfabric() {
    transport::LibfabricOptions options;
    options.address = control.address();
    return open([&] { return transport::openLibfabric(segments, options, abort); });
  }

  const Status &why() const { return refusal; }
  /// Null where this process has nobody to reach; and what it is called by the first that has.
  std::unique_ptr<NetworkFabric> take() { return std::move(fabric); }
  const std::string &name() const { return firstName; }

private:
  template <typename Open> Result<bool> open(const Open &openOne) {
    Status own;
    fabric.reset();
    if (!peers.empty()) {
      auto opened = openOne();
      if (opened)
        fabric = std::move(*opened);
      else
        own = Status(opened.status().code(), textOf(opened.status()));
    }
    MAESTRO_ASSIGN(bool isOpen, agree(own));
    if (!isOpen)
      return false;
    MAESTRO_ASSIGN(Records cards, control.gather(fabric ? fabric->card() : std::vector<std::byte>()));
    MAESTRO_ASSIGN(bool isConnected, agree(connect(cards)));
    if (!isConnected)
      return false;
    return agree(fabric ? fabric->probe() : Status());
  }

  Status connect(const Records &cards) const {
    for (const auto &[process, ranks] : peers)
      MAESTRO_TRY(fabric->connect(ranks, control.nameOf(process), cards[process]));
    return Status();
  }

  /// Whether all can go on; the first that cannot, and why, is the refusal, the same in all processes.
  Result<bool> agree(const Status &own) {
    char host[256] = "";
    (void)::gethostname(host, sizeof host - 1);
    ByteWriter writer;
    writer.number(static_cast<uint32_t>(own.code()));
    writer.text(own.isOk() ? fabric ? fabric->name() : ""
                           : fmt::format("process {} ({}): {}", control.process(), host, own.message()));
    MAESTRO_ASSIGN(Records records, control.gather(writer.take()));
    firstName.clear();
    for (const auto &record : records) {
      ByteReader reader(record);
      auto code = static_cast<StatusCode>(reader.number<uint32_t>());
      std::string text = reader.text();
      if (code != StatusCode::Ok) {
        refusal = Status(code, std::move(text));
        fabric.reset();
        return false;
      }
      if (firstName.empty())
        firstName = std::move(text);
    }
    return true;
  }

  transport::Control &control;
  const PeerRanks &peers;
  const transport::Segments &segments;
  const transport::Abort &abort;
  std::unique_ptr<NetworkFabric> fabric;
  std::string firstName;
  Status refusal;
};

} // namespace

Result<ClusterWays> openWays(TransportChoice choice, transport::Control &control, const PeerRanks &peers,
                             World &world) {
  Neighbours neighbours(control, peers, world);
  if (choice == TransportChoice::Auto || choice == TransportChoice::Local)
    MAESTRO_TRY(neighbours.find());
  if (choice == TransportChoice::Local && neighbours.hasOthers())
    return Status::unavailable("--transport local: " +
                               (neighbours.why().empty()
                                    ? "not all processes that write to each other are on one machine"
                                    : neighbours.why()));
  bool isForced = choice == TransportChoice::Verbs || choice == TransportChoice::Libfabric;
  if (!isForced && !neighbours.hasOthers())
    return ClusterWays{nullptr, "shared memory"};

  PeerRanks others = neighbours.others();
  Networks networks(control, others, world);
  std::string notes = neighbours.why().empty() ? "" : "; not shared memory: " + neighbours.why();
  bool isOpen = false;
  if (choice != TransportChoice::Libfabric) {
    MAESTRO_ASSIGN(isOpen, networks.verbs());
    if (!isOpen) {
      std::string why = textOf(networks.why());
      if (networks.why().code() == StatusCode::InvalidInput)
        return Status::invalidInput(why);
      if (choice == TransportChoice::Verbs)
        return Status::unavailable("--transport verbs: " + why + "; --transport auto uses TCP where there is no RDMA");
      notes = "; not verbs: " + why + notes;
    }
  }
  if (!isOpen) {
    MAESTRO_ASSIGN(isOpen, networks.libfabric());
    if (!isOpen)
      return Status(networks.why().code(), textOf(networks.why()));
  }
  std::string text = networks.name();
  if (neighbours.hasPairs())
    text = "shared memory within a machine, else " + text;
  return ClusterWays{networks.take(), text + notes};
}

} // namespace maestro::executor
