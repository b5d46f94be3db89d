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
using Bytes = transport::Control::Bytes;
using Records = std::vector<Bytes>;

std::string textOf(const Status &status) { return std::string(status.message()); }

/// Memory, between processes of one machine.
class Neighbours {
public:
  Neighbours(transport::Control &control, const PeerRanks &peers, World &world)
      : control(control), peers(peers), world(world) {}

  /// A pair shares memory where each can open the other's.
  Status find() {
    transport::NeighbourCard own = world.neighbourCard();
    ByteWriter card;
    card.text(own.machine).block(encode(own));
    std::map<std::string, std::vector<uint32_t>> byMachine; // In process 0.
    MAESTRO_ASSIGN(Bytes said, control.ask(card.take(), [&](const Records &records, uint32_t process) {
      auto machineOf = [&](uint32_t p) { return ByteReader(records[p]).text(); };
      for (uint32_t p = 0; process == 0 && p < records.size(); ++p)
        byMachine[machineOf(p)].push_back(p);
      ByteWriter writer;
      for (uint32_t p : byMachine[machineOf(process)]) {
        ByteReader reader(records[p]);
        (void)reader.text();
        writer.number(p).block(reader.block());
      }
      return writer.take();
    }));
    for (ByteReader reader(said); !reader.isWhole() && reader.isOk();) {
      auto process = reader.number<uint32_t>();
      std::span<const std::byte> bytes = reader.block();
      if (auto peer = peers.find(process); peer != peers.end())
        MAESTRO_TRY(open(process, peer->second, bytes));
    }
    return agree();
  }

  /// Those that are to be reached otherwise.
  PeerRanks others() const {
    PeerRanks left = peers;
    std::erase_if(left, [&](const auto &peer) { return shared.contains(peer.first); });
    return left;
  }
  bool hasPairs() const { return pairsAnywhere; }
  bool hasOthers() const { return othersAnywhere; }
  const std::string &why() const { return refusal; } ///< Why neighbours do not share memory; empty: all do.

private:
  struct Neighbour {
    transport::NeighbourCard card;
    std::unique_ptr<transport::SharedMemory> memory;
  };

  Status open(uint32_t process, transport::RankRange ranks, std::span<const std::byte> bytes) {
    auto card = transport::decodeNeighbourCard(bytes);
    if (!card)
      return Status(card.status().code(), control.nameOf(process) + ": " + textOf(card.status()));
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

  /// All opened their neighbours' memory as far as they can: which pairs use it, and what is left anywhere.
  Status agree() {
    ByteWriter found;
    found.number(static_cast<uint32_t>(peers.size())).text(refusal).number(static_cast<uint32_t>(opened.size()));
    for (const auto &[process, neighbour] : opened)
      found.number(process);
    Summary all; // In process 0.
    MAESTRO_ASSIGN(Bytes said, control.ask(found.take(), [&](const Records &records, uint32_t process) {
      if (process == 0)
        all = summarize(records);
      ByteWriter writer;
      writer.number<uint8_t>(all.hasPairs).number<uint8_t>(all.hasOthers).text(all.refusal);
      for (uint32_t other : all.shares[process])
        writer.number(other);
      return writer.take();
    }));
    ByteReader reader(said);
    pairsAnywhere = reader.number<uint8_t>() != 0;
    othersAnywhere = reader.number<uint8_t>() != 0;
    refusal = reader.text();
    while (!reader.isWhole() && reader.isOk())
      shared.insert(reader.number<uint32_t>());
    for (auto &[process, neighbour] : opened)
      if (shared.contains(process))
        world.adopt(neighbour.card, std::move(neighbour.memory));
    return Status();
  }

  struct Summary {
    bool hasPairs = false, hasOthers = false;
    std::string refusal;                       ///< The first.
    std::vector<std::vector<uint32_t>> shares; ///< By process.
  };
  static Summary summarize(const Records &records) {
    Summary all;
    std::vector<std::set<uint32_t>> opens(records.size());
    std::vector<uint32_t> peersOf(records.size());
    for (uint32_t p = 0; p < records.size(); ++p) {
      ByteReader reader(records[p]);
      peersOf[p] = reader.number<uint32_t>();
      if (std::string why = reader.text(); all.refusal.empty())
        all.refusal = std::move(why);
      for (uint32_t left = reader.number<uint32_t>(); left > 0 && reader.isOk(); --left)
        opens[p].insert(reader.number<uint32_t>());
    }
    for (uint32_t p = 0; p < records.size(); ++p) {
      std::vector<uint32_t> &shares = all.shares.emplace_back();
      for (uint32_t other : opens[p])
        if (other < opens.size() && opens[other].contains(p))
          shares.push_back(other);
      all.hasPairs |= !shares.empty();
      all.hasOthers |= shares.size() < peersOf[p];
    }
    return all;
  }

  transport::Control &control;
  const PeerRanks &peers;
  World &world;
  std::map<uint32_t, Neighbour> opened;
  std::set<uint32_t> shared; ///< Processes.
  bool pairsAnywhere = false, othersAnywhere = false;
  std::string refusal;
};

/// A network, between those that share none.
class Networks {
public:
  Networks(transport::Control &control, const PeerRanks &peers, const World &world)
      : control(control), peers(peers), segments(world.reach()), abort(world.abort()) {}

  /// False where one of the processes cannot, and why() is the first that says so.
  Result<bool> verbs() {
    MAESTRO_ASSIGN(transport::PortShare share, shareOfMachine());
    MAESTRO_ASSIGN(bool isOpen, verbs(share));
    // Each machine's ports may lead to networks of their own: then all take the first.
    return isOpen || !areOpen ? Result<bool>(isOpen) : verbs(transport::PortShare());
  }

  Result<bool> verbs(transport::PortShare share) {
    transport::VerbsOptions options;
    options.share = share;
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
    MAESTRO_ASSIGN(areOpen, agree(own));
    if (!areOpen)
      return false;
    MAESTRO_ASSIGN(Bytes cards, control.ask(cardForPeers(), cardsOfPeers));
    MAESTRO_ASSIGN(bool isConnected, agree(connect(cards)));
    if (!isConnected)
      return false;
    return agree(fabric ? fabric->probe() : Status());
  }

  /// Which of the processes of its machine this one is.
  Result<transport::PortShare> shareOfMachine() {
    std::string host = hostName();
    std::map<std::string, uint32_t> counts, taken; // In process 0.
    MAESTRO_ASSIGN(Bytes said,
                   control.ask(std::as_bytes(std::span(host)), [&](const Records &records, uint32_t process) {
                     auto hostOf = [&](uint32_t p) {
                       return std::string(reinterpret_cast<const char *>(records[p].data()), records[p].size());
                     };
                     for (uint32_t p = 0; process == 0 && p < records.size(); ++p)
                       ++counts[hostOf(p)];
                     return ByteWriter().number(taken[hostOf(process)]++).number(counts[hostOf(process)]).take();
                   }));
    ByteReader reader(said);
    uint32_t index = reader.number<uint32_t>();
    return transport::PortShare{index, reader.number<uint32_t>()};
  }

  static std::string hostName() {
    char host[256] = "";
    (void)::gethostname(host, sizeof host - 1);
    return host;
  }

  /// Its card, and who is to have it.
  Bytes cardForPeers() const {
    ByteWriter writer;
    writer.block(fabric ? fabric->card() : Bytes());
    for (const auto &[process, ranks] : peers)
      writer.number(process);
    return writer.take();
  }
  /// In the order of their numbers.
  static Bytes cardsOfPeers(const Records &records, uint32_t process) {
    ByteReader reader(records[process]);
    (void)reader.block();
    ByteWriter writer;
    while (!reader.isWhole() && reader.isOk())
      if (auto peer = reader.number<uint32_t>(); peer < records.size())
        writer.block(ByteReader(records[peer]).block());
    return writer.take();
  }

  Status connect(std::span<const std::byte> cards) const {
    ByteReader reader(cards);
    for (const auto &[process, ranks] : peers)
      MAESTRO_TRY(fabric->connect(ranks, control.nameOf(process), reader.block()));
    return Status();
  }

  /// Whether all can go on; the first that cannot, and why, is the refusal, the same in all processes.
  Result<bool> agree(const Status &own) {
    ByteWriter writer;
    writer.number(static_cast<uint32_t>(own.code()));
    writer.text(own.isOk() ? fabric ? fabric->name() : ""
                           : fmt::format("process {} ({}): {}", control.process(), hostName(), own.message()));
    MAESTRO_ASSIGN(Bytes said, control.askForAll(writer.take(), firstWord));
    ByteReader reader(said);
    auto code = static_cast<StatusCode>(reader.number<uint32_t>());
    std::string text = reader.text();
    if (code != StatusCode::Ok) {
      refusal = Status(code, std::move(text));
      fabric.reset();
      return false;
    }
    firstName = std::move(text);
    return true;
  }

  /// The first that cannot; else the first that has something to say.
  static Bytes firstWord(const Records &records) {
    const Bytes *first = &records.front();
    for (const Bytes &record : records) {
      ByteReader reader(record);
      if (static_cast<StatusCode>(reader.number<uint32_t>()) != StatusCode::Ok)
        return record;
      if (isSilent(*first) && !isSilent(record))
        first = &record;
    }
    return *first;
  }
  static bool isSilent(const Bytes &record) {
    ByteReader reader(record);
    (void)reader.number<uint32_t>();
    return reader.text().empty();
  }

  transport::Control &control;
  const PeerRanks &peers;
  const transport::Segments &segments;
  const transport::Abort &abort;
  std::unique_ptr<NetworkFabric> fabric;
  std::string firstName;
  bool areOpen = false; ///< All, at the last try; but not all may be reached.
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
