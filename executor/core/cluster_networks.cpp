#include "executor/core/cluster_networks.h"

#include "base/bytes.h"
#include "base/host_name.h"
#include "executor/core/peer_cards.h"
#include "transport/libfabric/libfabric.h"
#include "transport/verbs/verbs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

namespace maestro::executor {
namespace {

using transport::Network;
using Bytes = transport::Control::Bytes;
using Records = std::vector<Bytes>;

/// Every "DEVICE" or "DEVICE:PORT" of a list with a GID.
std::string withGid(const std::string &devices, const std::string &gid) {
  std::string all;
  for (size_t begin = 0; begin <= devices.size();) {
    size_t end = std::min(devices.find(',', begin), devices.size());
    std::string one = devices.substr(begin, end - begin);
    all += (begin ? "," : "") + one + (one.find(':') == std::string::npos ? "::" : ":") + gid;
    begin = end + 1;
  }
  return all;
}

bool isSilent(const Bytes &record) {
  ByteReader reader(record);
  (void)reader.number<uint32_t>();
  return reader.text().empty();
}

struct MachineProcesses {
  uint32_t count = 0, told = 0; ///< `told`: which of them they are.
};

/// How many ports the process that said this can have for itself, next to the others of its machine.
uint32_t railsOf(const Bytes &record, std::map<std::string, MachineProcesses> &machines) {
  ByteReader reader(record);
  uint32_t processes = machines[reader.text()].count;
  uint32_t ports = reader.number<uint32_t>(), ranks = reader.number<uint32_t>();
  return std::max(1u, std::min(ports / processes, ranks));
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
  transport::VerbsOptions options = verbsOptions();
  MAESTRO_ASSIGN(Ports ports, portsOfMachine(options));
  MAESTRO_ASSIGN(bool isOpen, verbs(options, ports.share, ports.rails));
  if (isOpen || !areOpen)
    return isOpen;
  // Each machine's ports may lead to networks of their own: then all take the first.
  std::string why = std::string(refusal.message());
  MAESTRO_ASSIGN(isOpen, verbs(options, transport::PortShare(), 1));
  if (isOpen && ports.share.count * ports.rails > 1)
    firstName += "; not over more ports: " + why;
  return isOpen;
}

Result<bool> Networks::verbs(const transport::VerbsOptions &options, transport::PortShare share, uint32_t rails) {
  return open([&, rails] {
    return transport::openRails(rails, [&](transport::Rail rail) {
      transport::VerbsOptions own = options;
      own.rail = rail;
      own.share = {share.index * rails + rail.number, share.count * rails};
      return transport::openVerbs(segments, own, abort);
    });
  });
}

transport::VerbsOptions Networks::verbsOptions() const {
  transport::VerbsOptions options;
  options.address = control.address();
  options.bulkLater = bulkLater;
  if (const char *device = std::getenv("MAESTRO_IB_DEVICE"))
    options.device = device;
  if (const char *gid = std::getenv("MAESTRO_IB_GID_INDEX")) // DEVICE:PORT:GID, of which each may be left out.
    options.device = withGid(options.device, gid);
  const char *interface = std::getenv("MAESTRO_INTERFACE");
  options.onlyAddress = interface && *interface;
  for (const auto &[process, ranks] : peers)
    options.peers.push_back(ranks);
  return options;
}

Result<bool> Networks::libfabric() {
  transport::LibfabricOptions options;
  options.address = control.address();
  if (const char *provider = std::getenv("MAESTRO_LIBFABRIC_PROVIDER"))
    options.provider = provider;
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
  std::vector<uint32_t> processes;
  for (const auto &[process, ranks] : peers)
    processes.push_back(process);
  MAESTRO_ASSIGN(Records cards, exchangeCards(control, fabric ? fabric->card() : Bytes(), processes));
  MAESTRO_ASSIGN(bool isConnected, agree(connect(cards)));
  if (!isConnected)
    return false;
  return agree(fabric ? fabric->probe() : Status());
}

/// Which of the processes of its machine this one is, and how many ports each of all the processes can have for itself;
/// no more than it has ranks.
Result<Networks::Ports> Networks::portsOfMachine(const transport::VerbsOptions &options) {
  uint32_t ranks = segments.ranksHere().count(), ports = ~uint32_t{0};
  if (!peers.empty()) {
    auto found = transport::countVerbsPorts(options);
    ports = found ? *found : 1; // Opening one says why there is none.
  }
  ByteWriter own;
  own.text(hostName()).number(ports).number(ranks);

  std::map<std::string, MachineProcesses> machines; // In process 0.
  uint32_t rails = ~uint32_t{0};
  auto answer = [&](const Records &records, uint32_t process) {
    if (process == 0) {
      for (const Bytes &record : records)
        ++machines[ByteReader(record).text()].count;
      for (const Bytes &record : records)
        rails = std::min(rails, railsOf(record, machines));
    }
    MachineProcesses &machine = machines[ByteReader(records[process]).text()];
    return ByteWriter().number(machine.told++).number(machine.count).number(rails).take();
  };
  MAESTRO_ASSIGN(Bytes said, control.ask(own.take(), answer));
  ByteReader reader(said);
  Ports found;
  found.share.index = reader.number<uint32_t>();
  found.share.count = reader.number<uint32_t>();
  found.rails = reader.number<uint32_t>();
  return found;
}

Status Networks::connect(std::span<const Bytes> cards) const {
  size_t next = 0;
  for (const auto &[process, ranks] : peers)
    MAESTRO_TRY(fabric->connect(ranks, control.nameOf(process), cards[next++]));
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
