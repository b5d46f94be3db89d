// What the parts of the fake driver share: settings, and how it says that its caller is wrong.
#pragma once

#include <cstdint>
#include <string>

namespace maestro::cuda::fake {

struct Settings {
  uint64_t seed, delayUs, devices, memory, version, workQueues;
  bool inUse, exports, hasPeers, hides;
  int lostDevice;     ///< −1: none.
  uint64_t lostAfter; ///< Works.
  std::string dmaBuf; ///< What NICs write: "ordered", "flushed", "unordered"; empty: nothing.
  static const Settings &get();
};

/// Ends the process: what a driver forbids, leaves undefined or makes synchronous without a word.
[[noreturn]] void complain(const std::string &text);

} // namespace maestro::cuda::fake
