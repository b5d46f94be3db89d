#include "executor/core/cluster_networks.h"

#include "base/bytes.h"
#include "transport/libfabric/libfabric.h"
#include "transport/verbs/verbs.h"

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <unistd.h>
#include <utility>
#include <vector>

namespace maestro::executor {
namespace {

using transport::NetworkFabric;
using Bytes = transport::Control::Bytes;
using Records = std::vector<Bytes>;

std::string hostName() {
  char host[256] = "";
  (void)::gethostname(host, sizeof host - 1);
  return host;
}

/// The cards of a process's peers, in the order of their numbers.
Bytes cardsOfPeers(const Records &records, uint32_t process) {
  ByteReader reader(records[process]);
  (void)reader.block();
  ByteWriter writer;
  while (!reader.isWhole() && reader.isOk())
    if (auto peer = reader.number<uint32_t>(); peer < records.size())
      writer.block(ByteReader(records[peer]).block());
  return writer.take();
}

bool isSilent(const Bytes &record) {
  ByteReader reader(record);
  (void)reader.number<uint32_t>();
  return reader.text().empty();
}

/// The first that cannot; else the first that has something to say.
Bytes firstWord(const Records &records) {
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
} // namespace

Result<bool> Networks::verbs() {
  MAESTRO_ASSIGN(transport::PortShare share, shareOfMachine());
  MAESTRO_ASSIGN(bool isOpen, verbs(share));
  // Each machine's ports may lead to networks of their own: then all take the first.
  return isOpen || !areOpen ? Result<bool>(isOpen) : verbs(transport::PortShare());
}

Result<bool> Networks::verbs(transport::PortShare share) {
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

Result<bool> Networks::libfabric() {
  transport::LibfabricOptions options;
  options.address = control.address();
  return open([&] { return transport::openLibfabric(segments, options, abort); });
}

Result<bool> Networks::open(const Open &openOne) {
  Status own;
  fabric.reset();
  if (!peers.empty()) {
    auto opened = openOne();
    if (opened)
      fabric = std::move(*opened);
    else
      own = Status(opened.status().code(), std::string(opened.status().message()));
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
Result<transport::PortShare> Networks::shareOfMachine() {
  std::string host = hostName();
  std::map<std::string, uint32_t> counts, taken; // In process 0.
  MAESTRO_ASSIGN(Bytes said, control.ask(std::as_bytes(std::span(host)), [&](const Records &records, uint32_t process) {
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

/// Its card, and who is to have it.
Bytes Networks::cardForPeers() const {
  ByteWriter writer;
  writer.block(fabric ? fabric->card() : Bytes());
  for (const auto &[process, ranks] : peers)
    writer.number(process);
  return writer.take();
}
Status Networks::connect(std::span<const std::byte> cards) const {
  ByteReader reader(cards);
  for (const auto &[process, ranks] : peers)
    MAESTRO_TRY(fabric->connect(ranks, control.nameOf(process), reader.block()));
  return Status();
}

/// Whether all can go on; the first that cannot, and why, is the refusal, the same in all processes.
Result<bool> Networks::agree(const Status &own) {
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

} // namespace maestro::executor
