// Keeps this process's signal handlers while somebody else's library is loaded and started: those of some put their own
// in place (PSM and PSM2, which libfabric loads, end the process at a SIGTERM; PMIx prints stacks).
#pragma once

#include <csignal>
#include <iterator>

namespace maestro::transport {

class KeptSignals {
public:
  KeptSignals() {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      (void)::sigaction(kSignals[i], nullptr, &before[i]);
  }
  ~KeptSignals() {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      (void)::sigaction(kSignals[i], &before[i], nullptr);
  }
  KeptSignals(const KeptSignals &) = delete;

private:
  static constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGFPE, SIGINT, SIGTERM};
  struct sigaction before[std::size(kSignals)];
};

} // namespace maestro::transport
