// Through which port of which RDMA device this process writes, and by which of its addresses (GIDs).
#pragma once

#include "base/status.h"
#include "transport/verbs/functions.h"

#include <memory>
#include <string>

namespace maestro::transport {

struct ContextCloser {
  const VerbsFunctions *functions = nullptr;
  void operator()(ibv_context *context) const { (void)functions->closeDevice(context); }
};

struct VerbsPort {
  std::unique_ptr<ibv_context, ContextCloser> context;
  std::string device;
  uint8_t number = 0;
  bool isEthernet = false; ///< RoCE; else InfiniBand.
  uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_1024;
  uint32_t maxMessageBytes = 0;
  uint8_t gidIndex = 0;
  ibv_gid gid{};
  ibv_device_attr limits{};

  /// Such as "rxe0 port 1, RoCE v2 10.78.0.1, GID 1, MTU 1024".
  std::string text() const;
};

/// Of those of one machine who share its ports: each takes one of the ports that are equally good.
struct PortShare {
  uint32_t index = 0, count = 1;
};

/// Opens the best active port: one whose GID is `address` as RoCE v2 has it, else one of InfiniBand, else any RoCE v2
/// with an IPv4 address, which has a network of its own. `wanted` narrows the choice: "DEVICE", "DEVICE:PORT",
/// "DEVICE:PORT:GID", or several of these with commas between them, which then are equally good and must all be there.
/// `onlyAddress`: RoCE that has another address is not used, unless it is wanted.
/// Unavailable where there is none, with what there is; InvalidInput where `wanted` cannot be read.
Result<VerbsPort> openVerbsPort(const VerbsFunctions &functions, const std::string &wanted, const std::string &address,
                                bool onlyAddress, PortShare share = {});
/// How many are equally good. Errors as openVerbsPort().
Result<uint32_t> countVerbsPorts(const VerbsFunctions &functions, const std::string &wanted, const std::string &address,
                                 bool onlyAddress);

} // namespace maestro::transport
