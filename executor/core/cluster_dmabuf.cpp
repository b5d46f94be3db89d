#include "executor/core/cluster_dmabuf.h"

#include "base/bytes.h"
#include "base/host_name.h"
#include "executor/core/cluster_bulk.h"
#include "executor/core/rank_device.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

namespace maestro::executor {
namespace {

using Bytes = transport::Control::Bytes;

constexpr const char *kVariable = "MAESTRO_CUDA_DMABUF";
constexpr uint64_t kTrialBytes = 4096;

/// What a process says of itself, and what then holds for all.
struct DmaBufWord {
  bool isUsed = false, isForced = false;
  std::string why; ///< Why not; empty: it can.

  Bytes encode() const {
    ByteWriter writer;
    return writer.number<uint8_t>(isUsed).number<uint8_t>(isForced).text(why).take();
  }
  static DmaBufWord decode(std::span<const std::byte> bytes) {
    ByteReader reader(bytes);
    DmaBufWord word;
    word.isUsed = reader.number<uint8_t>() != 0;
    word.isForced = reader.number<uint8_t>() != 0;
    word.why = reader.text();
    return word;
  }
  /// The first reason why not.
  static DmaBufWord judge(const std::vector<Bytes> &records) {
    DmaBufWord all;
    for (const Bytes &record : records) {
      DmaBufWord each = decode(record);
      all.isUsed |= each.isUsed;
      all.isForced |= each.isForced;
      if (each.isUsed && all.why.empty())
        all.why = std::move(each.why);
    }
    return all;
  }
};

/// Whether the NIC takes memory of the GPUs of the ranks that are here.
Status tryGpus(const plan::Plan &plan, const World &world, transport::Network *network) {
  if (!network)
    return Status::internal("ranks that share no memory, and no network between them");
  transport::RankRange here = world.reach().ranksHere();
  for (uint32_t rank = here.first; rank < here.end; ++rank) {
    MAESTRO_ASSIGN(auto trial, createDeviceSegment(plan, rank, kTrialBytes));
    MAESTRO_ASSIGN(transport::DeviceMemory memory, trial->forNics());
    MAESTRO_TRY(network->tryDevice(memory));
  }
  return Status();
}

class PlacedForNics : public WrittenSegment {
public:
  PlacedForNics(transport::Network &network, uint32_t rank, std::unique_ptr<DeviceSegment> segment)
      : WrittenSegment(std::move(segment)), network(network), rank(rank) {}
  ~PlacedForNics() override { network.removeBulk(rank); }

private:
  transport::Network &network;
  const uint32_t rank;
};

class DmaBufWay : public BulkWay {
public:
  /// `network` may be null where this process has nobody to reach by it.
  DmaBufWay(transport::Control &control, const World &world, transport::Network *network)
      : control(control), world(world), network(network) {}

  Result<std::unique_ptr<DeviceSegment>> place(uint32_t rank, std::unique_ptr<DeviceSegment> segment) override {
    MAESTRO_ASSIGN(transport::DeviceMemory memory, segment->forNics());
    MAESTRO_TRY(network->placeBulk(rank, memory));
    return std::unique_ptr<DeviceSegment>(std::make_unique<PlacedForNics>(*network, rank, std::move(segment)));
  }
  Status exchange() override {
    MAESTRO_TRY(tellBulk(world, control, network));
    if (network)
      network->readDevices();
    return Status();
  }

private:
  transport::Control &control;
  const World &world;
  transport::Network *const network;
};

} // namespace

Result<DmaBufChoice> openDmaBuf(const plan::Plan &plan, transport::Control &control, World &world,
                                transport::Network *network) {
  if (!haveOwnMemory(plan))
    return DmaBufChoice();
  const char *text = std::getenv(kVariable);
  std::string_view wanted = text ? text : "";
  if (!wanted.empty() && wanted != "never" && wanted != "always")
    return Status::invalidInput(fmt::format("{}={}: never or always is to be said, or nothing", kVariable, wanted));

  DmaBufWord own;
  own.isUsed = !farBulkPeers(world, control).empty();
  own.isForced = wanted == "always";
  if (own.isUsed) {
    Status status =
        wanted == "never" ? Status::unavailable(std::string(kVariable) + "=never") : tryGpus(plan, world, network);
    if (!status.isOk())
      own.why = fmt::format("process {} ({}): {}", control.process(), hostName(), status.message());
  }
  MAESTRO_ASSIGN(Bytes said, control.askForAll(own.encode(), [](const std::vector<Bytes> &all) {
    return DmaBufWord::judge(all).encode();
  }));
  DmaBufWord all = DmaBufWord::decode(said);
  if (!all.isUsed)
    return DmaBufChoice();
  if (!all.why.empty()) {
    if (all.isForced)
      return Status::unavailable(fmt::format("{}=always: {}", kVariable, all.why));
    return DmaBufChoice{nullptr, all.why};
  }
  return DmaBufChoice{std::make_unique<DmaBufWay>(control, world, network), ""};
}

} // namespace maestro::executor
