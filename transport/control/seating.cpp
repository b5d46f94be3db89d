#include "transport/control/seating.h"

#include <algorithm>
#include <map>

namespace maestro::transport {

Seating seatWholeMachines(const SpareMachines &spares, std::span<const std::string> hosts) {
  if (spares.mostLost == 0 || spares.machines == 0 || hosts.size() % spares.machines != 0)
    return {};
  std::map<std::string, std::vector<uint32_t>> byHost;
  for (uint32_t p = 0; p < hosts.size(); ++p)
    if (!hosts[p].empty())
      byHost[hosts[p]].push_back(p);
  size_t each = hosts.size() / spares.machines;
  std::erase_if(byHost, [&](const auto &machine) { return machine.second.size() != each; });
  if (byHost.size() >= spares.machines || byHost.size() + spares.mostLost < spares.machines)
    return {};
  Seating seating;
  for (const auto &[host, processes] : byHost)
    seating.processes.insert(seating.processes.end(), processes.begin(), processes.end());
  std::sort(seating.processes.begin(), seating.processes.end());
  seating.lostMachines = static_cast<uint32_t>(spares.machines - byHost.size());
  return !seating.processes.empty() && seating.processes.front() == 0 ? seating : Seating();
}

} // namespace maestro::transport
