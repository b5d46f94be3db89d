#include "transport/verbs/port.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace maestro::transport {
namespace {

constexpr const char *kVariable = "MAESTRO_IB_DEVICE";

struct Wanted {
  std::string text, device;
  std::optional<uint8_t> port, gid;
};

Result<Wanted> parseOne(const std::string &text) {
  Wanted wanted;
  wanted.text = text;
  std::array<std::string_view, 3> parts;
  size_t count = 0;
  for (std::string_view rest = text;;) {
    size_t colon = rest.find(':');
    if (count == parts.size())
      return Status::invalidInput(std::string(kVariable) + "=" + text +
                                  ": it is DEVICE, DEVICE:PORT or DEVICE:PORT:GID");
    parts[count++] = rest.substr(0, colon);
    if (colon == std::string_view::npos)
      break;
    rest.remove_prefix(colon + 1);
  }
  wanted.device = parts[0];
  for (size_t i = 1; i < count; ++i) {
    if (parts[i].empty()) // Any.
      continue;
    uint8_t number = 0;
    auto [end, error] = std::from_chars(parts[i].data(), parts[i].data() + parts[i].size(), number);
    if (error != std::errc() || end != parts[i].data() + parts[i].size())
      return Status::invalidInput(std::string(kVariable) + "=" + text + ": '" + std::string(parts[i]) +
                                  "' is not a number from 0 to 255");
    (i == 1 ? wanted.port : wanted.gid) = number;
  }
  return wanted;
}

Result<std::vector<Wanted>> parseWanted(const std::string &text) {
  std::vector<Wanted> all;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    if (begin == end && !text.empty())
      return Status::invalidInput(std::string(kVariable) + "=" + text + ": an empty name between commas");
    MAESTRO_ASSIGN(Wanted one, parseOne(text.substr(begin, end - begin)));
    all.push_back(std::move(one));
    begin = end + 1;
  }
  return all;
}

/// Empty where the GID is none that maps an IPv4 address.
std::string ipv4Of(const ibv_gid &gid) {
  constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  if (!std::equal(kMapped.begin(), kMapped.end(), gid.raw))
    return "";
  char text[INET_ADDRSTRLEN] = "";
  (void)::inet_ntop(AF_INET, gid.raw + kMapped.size(), text, sizeof text);
  return text;
}

/// How good a GID is; 0: not to be used.
enum Rank : int { kNo, kOtherRoce, kInfiniband, kSameAddress };

struct Candidate {
  int rank = kNo;
  size_t device = 0;
  uint8_t port = 0;
  uint8_t gidIndex = 0;
};

/// ibv_query_port() as the header has it, without its reference to the library.
int queryPort(ibv_context *context, uint8_t number, ibv_port_attr &attributes) {
  attributes = {};
  auto *operations = verbs_get_ctx_op(context, query_port);
  return operations ? operations->query_port(context, number, &attributes, sizeof attributes) : ENOSYS;
}

class Search {
public:
  Search(const VerbsFunctions &functions, const std::vector<Wanted> &all, const std::string &address, bool onlyAddress)
      : functions(functions), all(all), address(address), onlyAddress(onlyAddress) {
    devices = functions.getDeviceList(&count);
  }
  ~Search() {
    if (devices)
      functions.freeDeviceList(devices);
  }
  Search(const Search &) = delete;

  /// The equally good.
  Result<std::vector<Candidate>> find() {
    if (!devices || count == 0)
      return Status::unavailable(devices ? "no RDMA device"
                                         : std::string("RDMA devices cannot be listed: ") + std::strerror(errno));
    for (const Wanted &one : all) {
      wanted = one;
      notes.clear();
      size_t before = found.size();
      for (size_t d = 0; d < static_cast<size_t>(count); ++d)
        if (wanted.device.empty() || wanted.device == nameOf(d))
          look(d);
        else
          notes += note(d, 0) + "another device";
      if (found.size() == before)
        return Status::unavailable((wanted.text.empty()
                                        ? "no RDMA port can be used"
                                        : std::string(kVariable) + "=" + wanted.text + " names none that can be used") +
                                   ": " + notes);
    }
    if (all.size() > 1)
      return found;
    int most = std::max_element(found.begin(), found.end(), [](const Candidate &a, const Candidate &b) {
                 return a.rank < b.rank;
               })->rank;
    std::erase_if(found, [&](const Candidate &candidate) { return candidate.rank < most; });
    return found;
  }

  Result<VerbsPort> open(const Candidate &best) const {
    auto context = openDevice(best.device);
    VerbsPort port;
    ibv_port_attr attributes;
    ibv_gid_entry gid{};
    if (!context || functions.queryDevice(context.get(), &port.limits) != 0 ||
        queryPort(context.get(), best.port, attributes) != 0 || !queryGid(context.get(), best.port, best.gidIndex, gid))
      return Status::unavailable(nameOf(best.device) + ": the RDMA device cannot be opened: " + std::strerror(errno));
    port.context = std::move(context);
    port.device = nameOf(best.device);
    port.number = best.port;
    port.isEthernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
    port.lid = attributes.lid;
    port.mtu = attributes.active_mtu;
    port.maxMessageBytes = attributes.max_msg_sz;
    port.gidIndex = best.gidIndex;
    port.gid = gid.gid;
    return port;
  }

private:
  std::string nameOf(size_t device) const { return functions.getDeviceName(devices[device]); }
  std::string note(size_t device, uint8_t port) const {
    return (notes.empty() ? "" : "; ") + nameOf(device) + (port ? " port " + std::to_string(port) : "") + ": ";
  }
  std::unique_ptr<ibv_context, ContextCloser> openDevice(size_t device) const {
    return {functions.openDevice(devices[device]), ContextCloser{&functions}};
  }
  bool queryGid(ibv_context *context, uint8_t port, uint8_t index, ibv_gid_entry &entry) const {
    return functions.queryGid(context, port, index, &entry, 0, sizeof entry) == 0;
  }

  void look(size_t device) {
    auto context = openDevice(device);
    ibv_device_attr limits{};
    if (!context || functions.queryDevice(context.get(), &limits) != 0) {
      notes += note(device, 0) + "cannot be opened: " + std::strerror(errno);
      return;
    }
    if (wanted.port && (*wanted.port == 0 || *wanted.port > limits.phys_port_cnt))
      notes += note(device, 0) + "has " + std::to_string(limits.phys_port_cnt) + " ports";
    for (uint8_t number = 1; number <= limits.phys_port_cnt; ++number)
      if (!wanted.port || *wanted.port == number)
        notes += note(device, number) + look(device, context.get(), number);
  }

  /// What is to be said of the port where none is found.
  std::string look(size_t device, ibv_context *context, uint8_t number) {
    ibv_port_attr attributes;
    if (queryPort(context, number, attributes) != 0)
      return "cannot be queried";
    if (attributes.state != IBV_PORT_ACTIVE)
      return "not active (no link)";
    Candidate best;
    for (int index = 0; index < std::min(attributes.gid_tbl_len, 256); ++index) {
      ibv_gid_entry entry{};
      if (wanted.gid && *wanted.gid != index)
        continue;
      if (!queryGid(context, number, static_cast<uint8_t>(index), entry)) // Containers may not read all of them.
        continue;
      int rank = rankOf(entry, attributes.link_layer == IBV_LINK_LAYER_ETHERNET);
      if (rank > best.rank)
        best = {rank, device, number, static_cast<uint8_t>(index)};
    }
    if (best.rank != kNo) {
      found.push_back(best);
      return "can be used";
    }
    if (wanted.gid)
      return "no GID " + std::to_string(*wanted.gid);
    return "no GID of RoCE v2 with " + (onlyAddress ? "address " + address : "an IPv4 address");
  }

  int rankOf(const ibv_gid_entry &entry, bool isEthernet) const {
    if (!isEthernet)
      return kInfiniband;
    std::string own = ipv4Of(entry.gid);
    if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 && own == address)
      return kSameAddress;
    if (wanted.gid) // Whatever it is.
      return kOtherRoce;
    bool mayDiffer = !onlyAddress || !wanted.device.empty();
    return entry.gid_type == IBV_GID_TYPE_ROCE_V2 && !own.empty() && mayDiffer ? kOtherRoce : kNo;
  }

  const VerbsFunctions &functions;
  const std::vector<Wanted> &all;
  Wanted wanted; ///< That is looked for.
  const std::string &address;
  const bool onlyAddress;
  int count = 0;
  ibv_device **devices = nullptr;
  std::vector<Candidate> found; ///< One a port.
  std::string notes;
};

} // namespace

std::string VerbsPort::text() const {
  std::string own = ipv4Of(gid);
  std::string way =
      isEthernet ? "RoCE " + (own.empty() ? std::string("without IPv4") : own) + ", GID " + std::to_string(gidIndex)
                 : "InfiniBand LID " + std::to_string(lid);
  return device + " port " + std::to_string(number) + " (" + way + ", MTU " + std::to_string(128 << mtu) + ")";
}

Result<VerbsPort> openVerbsPort(const VerbsFunctions &functions, const std::string &text, const std::string &address,
                                bool onlyAddress, PortShare share) {
  MAESTRO_ASSIGN(auto wanted, parseWanted(text));
  Search search(functions, wanted, address, onlyAddress);
  MAESTRO_ASSIGN(auto found, search.find());
  // Neighbours take neighbouring ports.
  return search.open(found[uint64_t{share.index} * found.size() / std::max(share.count, 1u)]);
}

Result<uint32_t> countVerbsPorts(const VerbsFunctions &functions, const std::string &text, const std::string &address,
                                 bool onlyAddress) {
  MAESTRO_ASSIGN(auto wanted, parseWanted(text));
  MAESTRO_ASSIGN(auto found, Search(functions, wanted, address, onlyAddress).find());
  return static_cast<uint32_t>(found.size());
}

} // namespace maestro::transport
