#include "executor/core/wiring.h"

#include "executor/core/transfer.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::executor {
namespace {

namespace fb = plan::fb;
using plan::kNone;
namespace local = transport::local;

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

class Wirer {
public:
  Wirer(const plan::Plan &plan, const Topology &topology, const WiringOptions &options)
      : plan(plan), topology(topology), options(options), wiring(std::make_unique<Wiring>()) {}

  Result<std::unique_ptr<Wiring>> make() {
    findGroups();
    findTrainingRanks();
    MAESTRO_ASSIGN(wiring->memory, transport::SharedMemory::create(bytesNeeded()));
    MAESTRO_ASSIGN(wiring->abort, transport::Abort::create(*wiring->memory, topology.ranks));
    for (const RingFacts &ring : topology.rings) {
      wiring->channels.emplace_back();
      if (options.evaluates && ring.gradient)
        continue;
      MAESTRO_ASSIGN(wiring->channels.back(), Channel::create(*wiring->memory, *wiring->abort, describe(ring)));
    }
    MAESTRO_TRY(placeGradients());
    MAESTRO_TRY(makeReductions());
    for (const ExchangeDescription &description : exchanges()) {
      wiring->exchanges.emplace_back();
      if (!description.ranks.empty()) {
        MAESTRO_ASSIGN(wiring->exchanges.back(), Exchange::create(*wiring->memory, *wiring->abort, description));
      }
    }
    if (wiring->trainingRanks.size() > 1) {
      MAESTRO_ASSIGN(wiring->board, local::Board::create(*wiring->memory, *wiring->abort, boardDescription()));
    }
    MAESTRO_ASSIGN(wiring->outcome, wiring->memory->make<SharedOutcome>(1, "outcome"));
    MAESTRO_ASSIGN(wiring->busyNs.stations,
                   wiring->memory->make<std::atomic<int64_t>>(topology.stations.size(), "times"));
    MAESTRO_ASSIGN(wiring->busyNs.devices, wiring->memory->make<std::atomic<int64_t>>(topology.ranks, "times"));
    if (options.processes) {
      MAESTRO_ASSIGN(wiring->gather, Channel::create(*wiring->memory, *wiring->abort, gatherDescription()));
    }
    return std::move(wiring);
  }

private:
  ChannelDescription gatherDescription() const {
    ChannelDescription description;
    description.name = "parameters to save";
    description.edge = kNone;
    description.epoch = options.epoch;
    description.consumerRank = wiring->root();
    description.producerRanks = wiring->trainingRanks;
    description.slots = kGatherSlots;
    description.slotBytes = kPieceBytes;
    return description;
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

  void findGroups() {
    wiring->gradients.assign(topology.stations.size(), nullptr);
    uint32_t count = plan->gradient_sums() && !options.evaluates ? plan->gradient_sums()->size() : 0;
    for (uint32_t i = 0; i < count; ++i) {
      const fb::GradientSum &sum = *plan->gradient_sums()->Get(i);
      uint32_t members = topology.stations[topology.leads[sum.stations()->Get(0)]].members;
      for (uint32_t member = 0; member < members; ++member) {
        ReductionGroup &group = wiring->groups.emplace_back();
        group.parameters.assign(sum.parameters()->begin(), sum.parameters()->end());
        for (uint32_t station : *sum.stations())
          group.stations.push_back(topology.leads[station] + member);
      }
    }
  }

  /// Between the ranks that are one device to the scheduler; stations of the same ranks share it.
  std::vector<ExchangeDescription> exchanges() const {
    std::vector<ExchangeDescription> list(topology.ranks);
    for (const fb::Station *station : *plan->stations())
      if (const auto &ranks = *station->ranks(); ranks.size() > 1) {
        ExchangeDescription &own = list[topology.deviceOf[ranks.Get(0)]];
        own.name = "shared tensors";
        own.ranks.assign(ranks.begin(), ranks.end());
      }
    return list;
  }

  /// Whether a checkpoint holds values of this station: of a component that is not frozen as a
  /// whole. Such a rank does not run ahead, so that its device is at rest while it is read.
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
        if (uint32_t rank = topology.stations[s].rank;
            std::find(wiring->trainingRanks.begin(), wiring->trainingRanks.end(), rank) == wiring->trainingRanks.end())
          wiring->trainingRanks.push_back(rank);
    std::sort(wiring->trainingRanks.begin(), wiring->trainingRanks.end());
  }

  local::BoardDescription boardDescription() const {
    local::BoardDescription description;
    description.name = "losses and norms";
    description.ranks = wiring->trainingRanks;
    description.kinds = kBoardKinds;
    // Counts, sums and a few words; times by executable and kind of task.
    description.recordBytes =
        static_cast<uint32_t>(24 + 16 * plan->losses()->size() + 32 * plan->executables()->size());
    return description;
  }

  bool isShared(uint32_t station) const {
    return std::any_of(wiring->groups.begin(), wiring->groups.end(), [&](const ReductionGroup &group) {
      return std::find(group.stations.begin(), group.stations.end(), station) != group.stations.end();
    });
  }

  ReductionDescription describe(const ReductionGroup &group) const {
    ReductionDescription description;
    description.name = fmt::format("gradients of {} parameters", group.parameters.size());
    for (uint32_t station : group.stations) {
      ReductionMember member;
      member.rank = topology.stations[station].rank;
      member.base = wiring->gradients[station];
      const fb::Executable &executable = topology.executable(station);
      for (uint32_t p : group.parameters) {
        const fb::Buffer &buffer = *executable.buffers()->Get(boundBuffer(executable, fb::BindingKind::Gradient, p));
        member.segments.push_back({buffer.offset(), buffer.bytes() / 4});
      }
      description.members.push_back(std::move(member));
    }
    return description;
  }

  uint64_t bytesNeeded() const {
    uint64_t bytes = (uint64_t{1} << 20) + 512 * uint64_t{topology.ranks}; // Abort, names; progress.
    bytes += transport::alignBlock(8 * topology.stations.size()) + transport::alignBlock(8 * topology.ranks);
    for (const RingFacts &ring : topology.rings)
      bytes += Channel::bytesNeeded(describe(ring));
    for (uint32_t s = 0; s < topology.stations.size(); ++s)
      if (isShared(s))
        bytes += transport::alignBlock(gradientBytes(topology.executable(s)));
    for (const ReductionGroup &group : wiring->groups)
      bytes += Reduction::bytesNeeded(describe(group));
    for (const ExchangeDescription &description : exchanges())
      bytes += description.ranks.empty() ? 0 : Exchange::bytesNeeded(description);
    bytes += options.processes ? Channel::bytesNeeded(gatherDescription()) : 0;
    return bytes + local::Board::bytesNeeded(boardDescription());
  }

  Status placeGradients() {
    for (uint32_t s = 0; s < topology.stations.size(); ++s)
      if (isShared(s)) {
        MAESTRO_ASSIGN(wiring->gradients[s],
                       wiring->memory->allocate(gradientBytes(topology.executable(s)), "gradients"));
      }
    return Status();
  }

  Status makeReductions() {
    for (ReductionGroup &group : wiring->groups) {
      MAESTRO_ASSIGN(group.reduction, Reduction::create(*wiring->memory, *wiring->abort, describe(group)));
    }
    return Status();
  }

  const plan::Plan &plan;
  const Topology &topology;
  const WiringOptions &options;
  std::unique_ptr<Wiring> wiring;
};

} // namespace

Result<std::unique_ptr<Wiring>> makeWiring(const plan::Plan &plan, const Topology &topology,
                                           const WiringOptions &options) {
  return Wirer(plan, topology, options).make();
}

} // namespace maestro::executor
