// cluster.yaml as plain data: how many devices of which kind, and the links between them.
#pragma once

#include "base/status.h"
#include "cost_models/units.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maestro::planner {

/// One level of the network, innermost first.
struct LinkSpec {
  std::string name;
  int64_t spans = 0;                     ///< Devices that reach each other through it; more than there are: all.
  cost_models::BytesPerSecond bandwidth; ///< Per device and direction; or per NIC,
  std::optional<int64_t> nics;           ///< of which a node has so many, for all of its devices.
  cost_models::Seconds latency;
  std::string place; ///< "c.yaml:7", for messages.
};

struct ClusterSpec {
  std::string name;
  int64_t nodes = 1;
  /// Nothing: this machine's default (one device per two cores).
  std::optional<int64_t> devicesPerNode;
  /// A built-in description, or the path of one that maestro-profile wrote; several for mixed clusters: one a node.
  std::vector<std::string> devices;
  /// Of a device; one for all or one for each of `devices`. Empty: as the description says.
  std::vector<uint64_t> memoryBytes;
  std::string place; ///< "c.yaml:3", where `device` stands, for messages; the file where it does not.
  std::vector<LinkSpec> links;
  /// No cluster file was given: this machine.
  bool isThisMachine = false;
};

/// Reads a cluster file and applies the `--set cluster.…` assignments to it.
Result<ClusterSpec> readCluster(const std::string &path, const std::vector<std::string> &assignments = {});
Result<ClusterSpec> parseCluster(std::string_view text, const std::string &path,
                                 const std::vector<std::string> &assignments = {});
/// This machine, changed by the assignments alone.
Result<ClusterSpec> thisMachine(const std::vector<std::string> &assignments = {});

} // namespace maestro::planner
