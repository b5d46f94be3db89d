#include "executor/core/world.h"

#include "executor/core/rank_device.h"
#include "executor/core/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace maestro::executor {
namespace fb = plan::fb;
using plan::kNone;

namespace {

uint32_t boundBuffer(const fb::Executable &executable, fb::BindingKind kind, uint32_t index) {
  for (const fb::Binding *binding : *executable.bindings())
    if (binding->kind() == kind && binding->index() == index)
      return binding->buffer();
  return kNone;
}

uint64_t gradientBytes(const fb::Executable &executable) {
  for (const fb::Region *region : *executable.regions())
    if (region->kind() == fb::RegionKind::Gradients)
      return region->bytes();
  return 0;
}

} // namespace

class WorldBuilder {
public:
  WorldBuilder(const plan::Plan &plan, const Topology &topology, const WorldOptions &options)
      : plan(plan), topology(topology), options(options), places(topology.ranks), world(new World(topology)) {}

  Result<std::unique_ptr<World>> make() {
    findTrainingRanks();
    MAESTRO_TRY(planChannels());
    MAESTRO_TRY(planGradientSums());
    MAESTRO_TRY(planExchanges());
    MAESTRO_TRY(planAgreements());
    std::vector<uint32_t> all(topology.ranks);
    std::iota(all.begin(), all.end(), 0);
    meet({world->root()}, std::move(all)); // Its times, and files of checkpoints.
    for (uint32_t rank = 0; rank < topology.ranks; ++rank) {
      world->greetings.push_back(places.reserveWords(rank, 1));
      world->begun.push_back(places.reserveWords(rank, 1));
    }
    world->written = places.reserveWords(world->root(), 1);
    world->countersPlace =
        places.reserve(world->root(), SharedCounters::count(topology) * sizeof(SharedCounters::Counter));
    if (options.here && haveOwnMemory(plan))
      planNccl();
    MAESTRO_TRY(allocate());
    MAESTRO_TRY(openPosts());
    return std::move(world);
  }

private:
  Status planChannels() {
    for (const RingFacts &ring : topology.rings) {
      world->channels.emplace_back();
      if (!options.evaluates || !ring.gradient) {
        ChannelDescription description = describe(ring);
        meetInBulk({description.consumerRank}, description.producerRanks);
        MAESTRO_ASSIGN(world->channels.back(), Channel::plan(places, description));
      }
    }
    return options.processes && !options.evaluates ? planPieces() : Status();
  }

  ChannelDescription describe(const RingFacts &ring) const {
    ChannelDescription description;
    description.name = plan->edges()->Get(ring.edge)->name()->str() + (ring.gradient ? " (gradient)" : "");
    description.edge = ring.edge;
    description.epoch = options.epoch;
    description.consumerRank = topology.stations[ring.receiver].rank;
    for (uint32_t sender : ring.senders)
      description.producerRanks.push_back(topology.stations[sender].rank);
    description.slots = ring.slots;
    description.slotBytes = std::max<uint64_t>(ring.slotBytes * options.growth, 64);
    description.postsPerProducer = ring.mostPosts;
    return description;
  }

  Status planPieces() {
    std::map<uint32_t, std::set<uint32_t>> sendersOf;
    for (uint32_t s = 0; s < topology.stations.size(); ++s) {
      const StationFacts &station = topology.stations[s];
      uint32_t lead = topology.stationAt(station.section, station.stage, station.replica);
      if (!station.isLead() && savesValues(lead))
        sendersOf[topology.stations[lead].rank].insert(station.rank);
    }
    if (options.gathersAtRoot)
      sendersOf[world->root()].insert(world->training.begin(), world->training.end());
    for (const auto &[taker, senders] : sendersOf) {
      ChannelDescription description;
      description.name = "parameters to save";
      description.edge = kNone;
      description.epoch = options.epoch;
      description.consumerRank = taker;
      description.producerRanks.assign(senders.begin(), senders.end());
      description.slots = kPieceSlots;
      description.slotBytes = kPieceBytes;
      meetInBulk({taker}, description.producerRanks);
      MAESTRO_ASSIGN(Channel channel, Channel::plan(places, description));
      world->pieces.emplace(taker, World::Pieces{description.producerRanks, std::move(channel)});
    }
    return Status();
  }

  /// A sum of the plan is one between the first ranks of its stations, one between the second ranks, and so on.
  Status planGradientSums() {
    world->sharedGradients.resize(topology.stations.size());
    uint32_t count = plan->gradient_sums() && !options.evaluates ? plan->gradient_sums()->size() : 0;
    for (uint32_t i = 0; i < count; ++i) {
      const fb::GradientSum &sum = *plan->gradient_sums()->Get(i);
      uint32_t members = topology.stations[topology.leads[sum.stations()->Get(0)]].members;
      for (uint32_t member = 0; member < members; ++member) {
        World::GradientSum &own = world->sums.emplace_back();
        own.sum = &sum;
        for (uint32_t station : *sum.stations())
          own.stations.push_back(topology.leads[station] + member);
      }
    }
    for (World::GradientSum &sum : world->sums) {
      for (uint32_t station : sum.stations)
        if (std::optional<transport::Place> &place = world->sharedGradients[station]; !place)
          place = places.reserveBulk(topology.stations[station].rank, gradientBytes(topology.executable(station)));
      MAESTRO_ASSIGN(sum.reduction, Reduction::plan(places, describe(sum)));
      sum.reduction->forEachGroup([&](const std::vector<uint32_t> &members) {
        std::vector<uint32_t> ranks;
        for (uint32_t member : members)
          ranks.push_back(topology.stations[sum.stations[member]].rank);
        meetInBulk(ranks, ranks);
      });
    }
    return Status();
  }

  ReductionDescription describe(const World::GradientSum &sum) const {
    ReductionDescription description;
    description.name = fmt::format("gradients of {} parameters", sum.sum->parameters()->size());
    description.stagingBytes = sum.sum->staging_bytes();
    if (sum.sum->degrees())
      description.degrees.assign(sum.sum->degrees()->begin(), sum.sum->degrees()->end());
    if (haveOwnMemory(plan))
      description.blockFloats = UINT64_MAX;
    for (uint32_t station : sum.stations) {
      ReductionMember member;
      member.base = *world->sharedGradients[station];
      const fb::Executable &executable = topology.executable(station);
      for (uint32_t p : *sum.sum->parameters()) {
        const fb::Buffer &buffer = *executable.buffers()->Get(boundBuffer(executable, fb::BindingKind::Gradient, p));
        member.segments.push_back({buffer.offset(), buffer.bytes() / 4});
      }
      description.members.push_back(std::move(member));
    }
    return description;
  }

  /// Between the ranks that are one device to the scheduler; stations of the same ranks share it.
  Status planExchanges() {
    world->exchanges.resize(topology.ranks);
    auto add = [&](const flatbuffers::Vector<uint32_t> &ranks) -> Status {
      std::optional<Exchange> &own = world->exchanges[topology.deviceOf[ranks.Get(0)]];
      if (ranks.size() < 2 || own)
        return Status();
      ExchangeDescription description;
      description.name = "shared tensors";
      description.ranks.assign(ranks.begin(), ranks.end());
      meetInBulk(description.ranks, description.ranks);
      MAESTRO_ASSIGN(own, Exchange::plan(places, description));
      return Status();
    };
    if (plan->communicators()) {
      for (const fb::Communicator *communicator : *plan->communicators())
        MAESTRO_TRY(add(*communicator->ranks()));
    } else {
      for (const fb::Station *station : *plan->stations())
        MAESTRO_TRY(add(*station->ranks()));
    }
    return Status();
  }

  Status planAgreements() {
    world->ends.ranks = world->training;
    for (uint32_t s = 0; s < topology.stations.size(); ++s)
      if (topology.program(s, fb::ProgramKind::Count) || scalesLosses(s))
        addRank(world->counts.ranks, topology.stations[s].rank);
    auto losses = static_cast<uint32_t>(plan->losses()->size());
    MAESTRO_TRY(planAgreement(world->counts, "losses' counts", losses));
    // A few words, sums and counts; times by executable and kind of task.
    return planAgreement(world->ends, "losses and norms", 8 + 2 * losses + 4 * plan->executables()->size());
  }

  Status planAgreement(World::Agreed &agreed, const char *name, uint32_t mostValues) {
    if (agreed.ranks.size() < 2)
      return Status();
    AgreementDescription description;
    description.name = name;
    description.key = "schedules";
    description.ranks = agreed.ranks;
    description.mostValues = std::max(mostValues, 1u);
    MAESTRO_ASSIGN(agreed.agreement, Agreement::plan(places, description));
    for (uint32_t member = 1; member < agreed.ranks.size(); ++member)
      meet({agreed.ranks[agreed.agreement->parentOf(member)]}, {agreed.ranks[member]});
    return Status();
  }

  void meet(std::vector<uint32_t> some, std::vector<uint32_t> others) {
    world->meetings.push_back({std::move(some), std::move(others)});
  }
  void meetInBulk(std::vector<uint32_t> some, std::vector<uint32_t> others) {
    world->meetings.push_back({std::move(some), std::move(others), true});
  }

  bool scalesLosses(uint32_t station) const {
    const auto &bindings = *topology.executable(station).bindings();
    return std::any_of(bindings.begin(), bindings.end(),
                       [](const fb::Binding *binding) { return binding->kind() == fb::BindingKind::LossScale; });
  }

  /// In ascending order, once.
  static void addRank(std::vector<uint32_t> &ranks, uint32_t rank) {
    if (auto place = std::lower_bound(ranks.begin(), ranks.end(), rank); place == ranks.end() || *place != rank)
      ranks.insert(place, rank);
  }

  /// Whether a checkpoint holds values of this station: of a component that is not frozen as a whole. Such a rank does
  /// not run ahead, so that its device is at rest while it is read.
  bool savesValues(uint32_t station) const {
    for (const fb::Binding *binding : *topology.executable(station).bindings())
      if (binding->kind() == fb::BindingKind::Value &&
          !plan->components()->Get(plan->parameters()->Get(binding->index())->component())->frozen())
        return true;
    return false;
  }

  void findTrainingRanks() {
    for (uint32_t s = 0; s < topology.stations.size(); ++s)
      if (topology.program(s, fb::ProgramKind::Count) || topology.program(s, fb::ProgramKind::Backward) ||
          topology.program(s, fb::ProgramKind::Update) || savesValues(s) || options.adapts)
        addRank(world->training, topology.stations[s].rank);
  }

  /// One mapping for all segments that are here and for what their ranks look at: causes, progress, times.
  Status allocate() {
    transport::RankRange here = options.here.value_or(transport::RankRange{0, topology.ranks});
    uint64_t bytes = (uint64_t{1} << 20) + 1024 * uint64_t{topology.ranks} + 16 * topology.stations.size();
    for (uint32_t rank = here.first; rank < here.end; ++rank)
      bytes += places.bytes(rank) + transport::kPageBytes;
    MAESTRO_ASSIGN(world->memory,
                   options.here ? transport::SharedMemory::createOpen(bytes) : transport::SharedMemory::create(bytes));
    transport::SharedMemory &memory = *world->memory;
    MAESTRO_ASSIGN(world->stop, transport::Abort::create(memory, topology.ranks));
    MAESTRO_ASSIGN(world->shared, memory.make<SharedOutcome>(1, "outcome"));
    MAESTRO_ASSIGN(world->segments, transport::Segments::create(memory, places, here));
    auto *counters = world->segments->as<SharedCounters::Counter>(world->countersPlace);
    if (!here.has(world->root())) {
      MAESTRO_ASSIGN(counters, memory.make<SharedCounters::Counter>(SharedCounters::count(topology), "counters"));
    }
    world->counted = SharedCounters::of(counters, topology);
    return Status();
  }

  void planNccl() {
    for (const World::Meeting &meeting : world->meetings)
      for (uint32_t one : meeting.isBulk ? meeting.some : std::vector<uint32_t>())
        for (uint32_t other : meeting.others)
          world->nccl.plan(places, one, other);
  }

  /// One for each process that there will be here.
  Status openPosts() {
    if (!haveOwnMemory(plan))
      return Status();
    std::vector<uint32_t> firstRanks;
    if (options.here)
      firstRanks.push_back(options.here->first);
    for (uint32_t rank = 0; options.processes && !options.here && rank < topology.ranks; ++rank)
      firstRanks.push_back(rank);
    for (uint32_t rank : firstRanks) {
      MAESTRO_ASSIGN(world->posts[rank], transport::PostBox::open());
      world->postNames[rank] = world->posts[rank]->name();
    }
    return Status();
  }

  const plan::Plan &plan;
  const Topology &topology;
  const WorldOptions &options;
  transport::SegmentPlan places;
  std::unique_ptr<World> world;
};

Result<std::unique_ptr<World>> World::create(const plan::Plan &plan, const Topology &topology,
                                             const WorldOptions &options) {
  return WorldBuilder(plan, topology, options).make();
}

std::set<uint32_t> World::peersOf(transport::RankRange here, bool bulkOnly) const {
  std::set<uint32_t> peers;
  auto areHere = [&](const std::vector<uint32_t> &ranks) {
    return std::any_of(ranks.begin(), ranks.end(), [&](uint32_t rank) { return here.has(rank); });
  };
  for (const auto &[some, others, isBulk] : meetings) {
    if (bulkOnly && !isBulk)
      continue;
    if (areHere(some))
      peers.insert(others.begin(), others.end());
    if (areHere(others))
      peers.insert(some.begin(), some.end());
  }
  std::erase_if(peers, [&](uint32_t rank) { return here.has(rank); });
  return peers;
}

void World::publishCounters(uint32_t rank) const {
  if (rank == segments->ranksHere().first) {
    transport::Traffic all;
    for (const transport::Fabric *each : {fabric, bulkFabric})
      if (each) {
        transport::Traffic traffic = each->traffic();
        all = {all.bytes + traffic.bytes, all.busyNs + traffic.busyNs};
      }
    counted.networkBytes[rank].store(static_cast<int64_t>(all.bytes), std::memory_order_relaxed);
    counted.networkBusyNs[rank].store(all.busyNs, std::memory_order_relaxed);
  }
  if (segments->ranksHere().has(root()))
    return;
  transport::Target told = segments->target(countersPlace);
  auto tell = [&](const SharedCounters::Counter &counter) {
    int64_t value = counter.load(std::memory_order_relaxed);
    auto index = static_cast<uint64_t>(&counter - counted.stations);
    if (told.memory)
      reinterpret_cast<SharedCounters::Counter *>(told.memory)[index].store(value, std::memory_order_relaxed);
    else
      told.fabric->put(told.place + index * sizeof value, std::as_bytes(std::span(&value, 1)));
  };
  for (size_t station = 0; station < topology.stations.size(); ++station)
    if (topology.stations[station].rank == rank)
      tell(counted.stations[station]);
  for (size_t ring = 0; ring < topology.rings.size(); ++ring)
    if (topology.stations[topology.rings[ring].receiver].rank == rank)
      tell(counted.rings[ring]);
  for (const SharedCounters::Counter *byRank :
       {counted.devices, counted.dataBytes, counted.networkBytes, counted.networkBusyNs})
    tell(byRank[rank]);
}

std::optional<Agreement::Member> World::memberOf(const Agreed &agreed, uint32_t rank) const {
  auto self = std::lower_bound(agreed.ranks.begin(), agreed.ranks.end(), rank);
  if (!agreed.agreement || self == agreed.ranks.end() || *self != rank)
    return std::nullopt;
  return agreed.agreement->member(*segments, static_cast<uint32_t>(self - agreed.ranks.begin()));
}

Result<Exchange::Member> World::exchange(uint32_t station, Device &device) const {
  const StationFacts &facts = topology.stations[station];
  return exchanges[topology.deviceOf[facts.rank]]->member(*segments, facts.member, device);
}

std::optional<transport::Target> World::gradients(uint32_t station) const {
  const std::optional<transport::Place> &place = sharedGradients[station];
  return place ? std::optional(segments->target(*place)) : std::nullopt;
}

Result<std::unique_ptr<Sender>> World::pieceSender(uint32_t taker, uint32_t rank, Device &device) const {
  const auto &[senders, channel] = pieces.at(taker);
  auto self = std::find(senders.begin(), senders.end(), rank);
  return channel.sender(*segments, static_cast<uint32_t>(self - senders.begin()), device);
}

Result<std::unique_ptr<Receiver>> World::pieceReceiver(uint32_t taker, Device &device) const {
  return pieces.at(taker).channel.receiver(*segments, device);
}

} // namespace maestro::executor
