#include "executor/core/cluster_nccl.h"

#include "base/bytes.h"
#include "base/host_name.h"
#include "executor/core/rank_device.h"
#include "plan/plan_generated.h"
#ifdef MAESTRO_CUDA
#include "transport/nccl/nccl.h"
#endif

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace maestro::executor {

#ifdef MAESTRO_CUDA
namespace {

using transport::NcclFabric;
using Bytes = transport::Control::Bytes;
using Records = std::vector<Bytes>;

/// What a process says of itself: why it cannot, or the library's version; nothing where it has no use for it.
struct Presence {
  bool isUsed = false;
  std::string why, version;
};
Bytes encode(const Presence &own) {
  return ByteWriter().number<uint8_t>(own.isUsed).text(own.why).text(own.version).take();
}
Presence decodePresence(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Presence presence;
  presence.isUsed = reader.number<uint8_t>() != 0;
  presence.why = reader.text();
  presence.version = reader.text();
  return presence;
}

/// What holds for all: the version that all have, or the first reason why not.
Presence judge(const Records &records) {
  Presence all;
  uint32_t first = 0;
  for (uint32_t process = 0; process < records.size(); ++process) {
    Presence each = decodePresence(records[process]);
    if (!each.isUsed)
      continue;
    if (!all.isUsed)
      first = process;
    bool differs = all.isUsed && each.why.empty() && each.version != all.version;
    all.isUsed = true;
    if (all.version.empty())
      all.version = each.version;
    if (!each.why.empty())
      all.why = each.why;
    else if (differs)
      all.why = fmt::format("process {} has {} and process {} has {}; install one version everywhere", first,
                            all.version, process, each.version);
    if (!all.why.empty())
      return all;
  }
  return all;
}

class Opening {
public:
  Opening(const plan::Plan &plan, transport::Control &control, World &world, std::set<uint32_t> ranks)
      : plan(plan), control(control), world(world), ranks(std::move(ranks)), here(world.reach().ranksHere()) {}

  /// Whether all can, and with what.
  Result<Presence> agree() {
    Presence own;
    own.isUsed = !ranks.empty();
    if (own.isUsed) {
      Status status = open();
      if (!status.isOk())
        own.why = fmt::format("process {} ({}): {}", control.process(), hostName(), status.message());
      else
        own.version = fabric->name();
    }
    MAESTRO_ASSIGN(Bytes said, control.askForAll(encode(own), [](const Records &all) { return encode(judge(all)); }));
    return decodePresence(said);
  }
  Result<std::unique_ptr<transport::Fabric>> start() {
    ByteWriter writer;
    if (fabric)
      for (const auto &[rank, card] : fabric->cards())
        writer.number(here.first).number(rank).block(card);
    MAESTRO_ASSIGN(Bytes said, control.ask(writer.take(), [this](const Records &all, uint32_t process) {
      return cardsFor(all, process);
    }));
    if (!fabric)
      return std::unique_ptr<transport::Fabric>();
    std::map<uint32_t, Bytes> cards;
    for (ByteReader reader(said); !reader.isWhole() && reader.isOk();) {
      auto from = reader.number<uint32_t>();
      (void)reader.number<uint32_t>();
      std::span<const std::byte> card = reader.block();
      cards.emplace(from, Bytes(card.begin(), card.end()));
    }
    MAESTRO_TRY(fabric->start(cards));
    for (uint32_t rank : ranks)
      world.reachBulkBy(rank, *fabric);
    return std::unique_ptr<transport::Fabric>(std::move(fabric));
  }

private:
  Status open() {
    if (here.count() != 1)
      return Status::unavailable(fmt::format(
          "it has {} ranks, and NCCL's communicators belong to one GPU; start a process a GPU", here.count()));
    transport::NcclOptions options;
    options.rank = here.first;
    options.device = plan->ranks()->Get(here.first)->device();
    options.peers = ranks;
    MAESTRO_ASSIGN(fabric, NcclFabric::open(options, world.ncclPlaces(), world.reach(), world.abort()));
    return Status();
  }
  Bytes cardsFor(const Records &all, uint32_t process) const {
    transport::RankRange theirs = transport::ranksOf(process, control.processes(), world.reach().ranks());
    ByteWriter writer;
    for (const Bytes &record : all)
      for (ByteReader reader(record); !reader.isWhole() && reader.isOk();) {
        auto from = reader.number<uint32_t>(), to = reader.number<uint32_t>();
        std::span<const std::byte> card = reader.block();
        if (theirs.has(to))
          writer.number(from).number(to).block(card);
      }
    return writer.take();
  }

  const plan::Plan &plan;
  transport::Control &control;
  World &world;
  const std::set<uint32_t> ranks; ///< To be reached.
  const transport::RankRange here;
  std::unique_ptr<NcclFabric> fabric;
};

/// Those whose bulk this process's write, and that write theirs.
std::set<uint32_t> ranksToReach(bool isForced, const World &world) {
  std::set<uint32_t> ranks = world.bulkPeersOf(world.reach().ranksHere());
  std::erase_if(ranks, [&](uint32_t rank) { return !isForced && world.reach().isMapped(rank); });
  return ranks;
}

} // namespace

Result<NcclWay> openNccl(bool isForced, const plan::Plan &plan, transport::Control &control, World &world) {
  if (!haveOwnMemory(plan)) {
    if (isForced)
      return Status::invalidInput("--transport nccl moves memory of GPUs, and the plan is for CPUs; plan for GPUs "
                                  "(--set cluster.device=h100-sxm), or leave it out");
    return NcclWay();
  }
  Opening opening(plan, control, world, ranksToReach(isForced, world));
  MAESTRO_ASSIGN(Presence all, opening.agree());
  if (!all.isUsed)
    return NcclWay();
  if (!all.why.empty()) {
    if (isForced)
      return Status::unavailable("--transport nccl: " + all.why);
    return NcclWay{nullptr, "; GPUs through the host's memory, not NCCL: " + all.why};
  }
  NcclWay way;
  MAESTRO_ASSIGN(way.fabric, opening.start());
  way.text = "; between GPUs " + all.version;
  return way;
}

#else

Result<NcclWay> openNccl(bool isForced, const plan::Plan &, transport::Control &, World &) {
  if (isForced)
    return Status::invalidInput("--transport nccl moves memory of GPUs, and this maestro-run was built without a CUDA "
                                "toolkit; build it with one, or leave it out");
  return NcclWay();
}

#endif

} // namespace maestro::executor
