#include "executor/core/cluster_nccl.h"

#include "base/bytes.h"
#include "base/host_name.h"
#include "base/log.h"
#include "executor/core/rank_device.h"
#include "plan/plan_generated.h"
#ifdef MAESTRO_CUDA
#include "transport/nccl/nccl.h"
#endif

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <vector>

namespace maestro::executor {

#ifdef MAESTRO_CUDA
namespace {

using transport::NcclFabric;
using Bytes = transport::Control::Bytes;
using Records = std::vector<Bytes>;

/// What a process says of itself: why it cannot, or the library's version and its GPU; nothing where it has no use for
/// it. And what then holds for all.
struct Presence {
  bool isUsed = false, sharesGpus = false;
  std::string why, name, gpu;
  int version = 0;
};
Bytes encode(const Presence &own) {
  ByteWriter writer;
  writer.number<uint8_t>(own.isUsed).number<uint8_t>(own.sharesGpus).text(own.why).text(own.name).text(own.gpu);
  return writer.number(own.version).take();
}
Presence decodePresence(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Presence presence;
  presence.isUsed = reader.number<uint8_t>() != 0;
  presence.sharesGpus = reader.number<uint8_t>() != 0;
  presence.why = reader.text();
  presence.name = reader.text();
  presence.gpu = reader.text();
  presence.version = reader.number<int>();
  return presence;
}

/// The first reason why not, or what all have.
Presence judge(const Records &records) {
  Presence all;
  uint32_t first = 0;
  std::map<std::string, uint32_t> gpus; // Processes.
  for (uint32_t process = 0; process < records.size() && all.why.empty(); ++process) {
    Presence each = decodePresence(records[process]);
    if (!each.isUsed)
      continue;
    if (!each.why.empty())
      all.why = each.why;
    else if (all.isUsed && each.version != all.version)
      all.why = fmt::format("process {} has {} and process {} has {}; install one version everywhere", first, all.name,
                            process, each.name);
    auto [other, isAlone] = gpus.emplace(each.gpu, process);
    if (!isAlone && all.why.empty() && each.version < NcclFabric::kSharesGpus)
      all.why = fmt::format("processes {} and {} share {}, which {} refuses; NCCL 2.30 or newer allows it, or start a "
                            "process a GPU",
                            other->second, process, each.gpu, each.name);
    if (!all.isUsed)
      first = process;
    all.isUsed = true;
    all.sharesGpus |= !isAlone;
    all.name = each.name;
    all.version = each.version;
  }
  return all;
}

class PlacedForNccl : public WrittenSegment {
public:
  PlacedForNccl(NcclFabric &fabric, std::unique_ptr<DeviceSegment> segment)
      : WrittenSegment(std::move(segment)), fabric(fabric) {
    fabric.placeBulk(address());
  }
  ~PlacedForNccl() override { fabric.placeBulk(nullptr); }

private:
  NcclFabric &fabric;
};

class NcclBulkWay : public BulkWay {
public:
  /// `fabric` may be null where this process has nobody to reach by it.
  NcclBulkWay(transport::Control &control, const World &world, std::unique_ptr<NcclFabric> fabric)
      : control(control), world(world), fabric(std::move(fabric)) {}

  Result<std::unique_ptr<DeviceSegment>> place(uint32_t, std::unique_ptr<DeviceSegment> segment) override {
    return std::unique_ptr<DeviceSegment>(std::make_unique<PlacedForNccl>(*fabric, std::move(segment)));
  }
  /// Opens windows where both sides can put.
  Status exchange() override {
    ByteWriter writer;
    Status canPut = fabric ? fabric->canPut() : Status();
    if (fabric)
      writer.number(world.reach().ranksHere().first)
          .number<uint8_t>(canPut.isOk())
          .number<uint8_t>(fabric->takesPuts());
    MAESTRO_ASSIGN(Bytes said, control.askForAll(writer.take(), [](const Records &all) {
      Bytes together;
      for (const Bytes &record : all)
        together.insert(together.end(), record.begin(), record.end());
      return together;
    }));
    if (!fabric)
      return Status();
    std::set<uint32_t> senders, takers;
    for (ByteReader reader(said); !reader.isWhole() && reader.isOk();) {
      auto rank = reader.number<uint32_t>();
      if (reader.number<uint8_t>() != 0)
        senders.insert(rank);
      if (reader.number<uint8_t>() != 0)
        takers.insert(rank);
    }
    MAESTRO_TRY(fabric->openWindows(senders, takers));
    if (control.process() == 0)
      logInfo(fmt::format("{} moves memory of GPUs by {}{}", fabric->name(), fabric->manner(),
                          canPut.isOk() ? "" : ": " + std::string(canPut.message())));
    return Status();
  }

private:
  transport::Control &control;
  const World &world;
  std::unique_ptr<NcclFabric> fabric;
};

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
        own.name = fabric->name(), own.version = fabric->version(),
        own.gpu = fmt::format("GPU {} of {}", fabric->gpu(), hostName());
    }
    MAESTRO_ASSIGN(Bytes said, control.askForAll(encode(own), [](const Records &all) { return encode(judge(all)); }));
    return decodePresence(said);
  }
  /// Null where this process has nobody to reach by it.
  Result<std::unique_ptr<NcclFabric>> start() {
    ByteWriter writer;
    if (fabric)
      for (const auto &[rank, card] : fabric->cards())
        writer.number(here.first).number(rank).block(card);
    MAESTRO_ASSIGN(Bytes said, control.ask(writer.take(), [this](const Records &all, uint32_t process) {
      return cardsFor(all, process);
    }));
    if (!fabric)
      return std::unique_ptr<NcclFabric>();
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
    return std::move(fabric);
  }

private:
  Status open() {
    if (here.count() != 1)
      return Status::unavailable(
          fmt::format("it has {} ranks, and a process uses NCCL for one; start as many processes "
                      "as the plan has ranks, {} (srun --ntasks, mpirun -n)",
                      here.count(), world.reach().ranks()));
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

Result<NcclChoice> openNccl(bool isForced, const plan::Plan &plan, transport::Control &control, World &world) {
  if (!haveOwnMemory(plan)) {
    if (isForced)
      return Status::invalidInput("--transport nccl moves memory of GPUs, and the plan is for CPUs; plan for GPUs "
                                  "(--set cluster.device=h100-sxm), or leave it out");
    return NcclChoice();
  }
  Opening opening(plan, control, world, ranksToReach(isForced, world));
  MAESTRO_ASSIGN(Presence all, opening.agree());
  if (!all.isUsed)
    return NcclChoice();
  if (!all.why.empty()) {
    if (isForced)
      return Status::unavailable("--transport nccl: " + all.why);
    return NcclChoice{nullptr, "", all.why};
  }
  if (all.sharesGpus)
    ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", /*replace=*/0);
  MAESTRO_ASSIGN(auto fabric, opening.start());
  return NcclChoice{std::make_unique<NcclBulkWay>(control, world, std::move(fabric)),
                    all.name + (all.sharesGpus ? ", several processes a GPU" : ""), ""};
}

#else

Result<NcclChoice> openNccl(bool isForced, const plan::Plan &, transport::Control &, World &) {
  if (isForced)
    return Status::invalidInput("--transport nccl moves memory of GPUs, and this maestro-run was built without a CUDA "
                                "toolkit; build it with one, or leave it out");
  return NcclChoice();
}

#endif

} // namespace maestro::executor
