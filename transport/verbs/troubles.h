// A port's own counters of what went wrong on its link and between queue pairs: /sys/class/infiniband.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace maestro::transport {

/// Those that the port has, by their names in the kernel's documentation (sysfs-class-infiniband) or the driver's;
/// traffic is left out. `root` but in tests: /sys/class/infiniband.
std::map<std::string, uint64_t> readTroubles(const std::string &device, int port,
                                             const std::string &root = "/sys/class/infiniband");
/// Those that have grown: "packet_seq_err 3, out_of_sequence 1"; empty: none.
std::string troublesSince(const std::map<std::string, uint64_t> &before, const std::map<std::string, uint64_t> &now);

} // namespace maestro::transport
