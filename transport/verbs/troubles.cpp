#include "transport/verbs/troubles.h"

#include <array>
#include <fstream>
#include <string_view>

namespace maestro::transport {
namespace {

/// Of every port (IBTA's PortCounters).
constexpr std::array kLink = {"symbol_error",    "link_error_recovery", "link_downed",
                              "port_rcv_errors", "port_xmit_discards",  "local_link_integrity_errors"};
/// Of drivers: mlx5, bnxt_re and others, then rxe.
constexpr std::array kTransport = {
    "out_of_sequence",   "packet_seq_err", "local_ack_timeout_err", "duplicate_request",   "implied_nak_seq_err",
    "rnr_nak_retry_err", "out_of_buffer",  "roce_adp_retrans",      "roce_adp_retrans_to", "roce_slow_restart",
    "rp_cnp_handled",    "to_retransmits", "seq_err_naks_rcvd",     "rnr_naks_rcvd",       "out_of_seq_request",
    "rcvd_seq_err",      "rcvd_rnr_err",   "completer_retry_err",   "retry_exceeded_err",  "send_err",
    "link_downed"};

template <typename Names>
void read(const std::string &folder, const Names &names, std::map<std::string, uint64_t> &counters) {
  for (const char *name : names) {
    std::ifstream file(folder + "/" + name);
    if (uint64_t value = 0; file >> value)
      counters[name] = value;
  }
}

} // namespace

std::map<std::string, uint64_t> readTroubles(const std::string &device, int port, const std::string &root) {
  std::string folder = root + "/" + device + "/ports/" + std::to_string(port);
  std::map<std::string, uint64_t> counters;
  read(folder + "/counters", kLink, counters);
  read(folder + "/hw_counters", kTransport, counters);
  return counters;
}

std::string troublesSince(const std::map<std::string, uint64_t> &before, const std::map<std::string, uint64_t> &now) {
  std::string text;
  for (const auto &[name, value] : now)
    if (auto earlier = before.find(name); earlier != before.end() && value > earlier->second)
      text += (text.empty() ? "" : ", ") + name + " " + std::to_string(value - earlier->second);
  return text;
}

} // namespace maestro::transport
