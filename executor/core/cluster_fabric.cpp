#include "executor/core/cluster_fabric.h"

#include "base/bytes.h"
#include "transport/libfabric/libfabric.h"
#include "transport/verbs/verbs.h"

#include <fmt/format.h>

#include <cstdlib>
#include <unistd.h>
#include <utility>

namespace maestro::executor {
namespace {

using transport::NetworkFabric;

class Opening {
public:
  Opening(transport::Control &control, const PeerRanks &peers, const transport::Segments &segments,
          const transport::Abort &abort)
      : control(control), peers(peers), segments(segments), abort(abort) {}

  /// Null where one of the processes cannot, and why() is the first that says so.
  Result<std::unique_ptr<NetworkFabric>> verbs() {
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
    auto opened = transport::openVerbs(segments, options, abort);
    MAESTRO_ASSIGN(bool isOpen, agree(opened ? Status() : Status(opened.status().code(), text(opened.status()))));
    if (!isOpen)
      return std::unique_ptr<NetworkFabric>();
    std::unique_ptr<NetworkFabric> fabric = std::move(*opened);
    MAESTRO_ASSIGN(auto cards, control.gather(fabric->card()));
    MAESTRO_ASSIGN(bool isConnected, agree(connect(*fabric, cards)));
    if (!isConnected)
      return std::unique_ptr<NetworkFabric>();
    MAESTRO_ASSIGN(bool isReached, agree(fabric->probe()));
    if (!isReached)
      return std::unique_ptr<NetworkFabric>();
    return fabric;
  }

  Result<std::unique_ptr<NetworkFabric>> libfabric() {
    transport::LibfabricOptions options;
    options.address = control.address();
    MAESTRO_ASSIGN(auto fabric, transport::openLibfabric(segments, options, abort));
    MAESTRO_ASSIGN(auto cards, control.gather(fabric->card()));
    MAESTRO_TRY(connect(*fabric, cards));
    return fabric;
  }

  const Status &why() const { return refusal; }

private:
  static std::string text(const Status &status) { return std::string(status.message()); }

  Status connect(NetworkFabric &fabric, const std::vector<std::vector<std::byte>> &cards) const {
    for (const auto &[process, ranks] : peers)
      MAESTRO_TRY(fabric.connect(ranks, control.nameOf(process), cards[process]));
    return Status();
  }

  /// Whether all can go on; the first that cannot, and why, is the refusal, the same in all processes.
  Result<bool> agree(const Status &own) {
    char host[256] = "";
    (void)::gethostname(host, sizeof host - 1);
    ByteWriter writer;
    writer.number(static_cast<uint32_t>(own.code()));
    writer.text(own.isOk() ? "" : fmt::format("process {} ({}): {}", control.process(), host, own.message()));
    MAESTRO_ASSIGN(auto records, control.gather(writer.take()));
    for (const auto &record : records) {
      ByteReader reader(record);
      if (auto code = static_cast<StatusCode>(reader.number<uint32_t>()); code != StatusCode::Ok) {
        refusal = Status(code, reader.text());
        return false;
      }
    }
    return true;
  }

  transport::Control &control;
  const PeerRanks &peers;
  const transport::Segments &segments;
  const transport::Abort &abort;
  Status refusal;
};

} // namespace

Result<ClusterFabric> openFabric(TransportChoice choice, transport::Control &control, const PeerRanks &peers,
                                 const transport::Segments &segments, const transport::Abort &abort) {
  Opening opening(control, peers, segments, abort);
  std::string note;
  if (choice != TransportChoice::Libfabric) {
    MAESTRO_ASSIGN(auto fabric, opening.verbs());
    if (fabric)
      return ClusterFabric{std::move(fabric), ""};
    const Status &why = opening.why();
    if (why.code() == StatusCode::InvalidInput)
      return Status(why.code(), std::string(why.message()));
    if (choice == TransportChoice::Verbs)
      return Status::unavailable("--transport verbs: " + std::string(why.message()) +
                                 "; --transport auto uses TCP where there is no RDMA");
    note = "not verbs: " + std::string(why.message());
  }
  MAESTRO_ASSIGN(auto fabric, opening.libfabric());
  return ClusterFabric{std::move(fabric), std::move(note)};
}

} // namespace maestro::executor
