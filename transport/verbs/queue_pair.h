// The way to one peer: a reliable connected queue pair, and what is under way on it.
#pragma once

#include "base/status.h"
#include "transport/rank_range.h"
#include "transport/verbs/endpoint.h"
#include "transport/verbs/functions.h"
#include "transport/verbs/owned.h"
#include "transport/verbs/port.h"
#include "transport/word.h"

#include <array>
#include <cstdint>
#include <memory>

namespace maestro::transport {

struct QueuePair {
  static constexpr uint32_t kDepth = 256; ///< Writes under way.

  /// What the queue pairs of a process share.
  struct Shared {
    ibv_pd *domain = nullptr;
    ibv_cq *completions = nullptr;
    ibv_srq *receives = nullptr;
  };
  /// Where others may write, and nobody is connected to yet. Unavailable as the device says.
  static Result<std::unique_ptr<QueuePair>> create(const VerbsFunctions &functions, const VerbsPort &port,
                                                   const Shared &shared, RankRange ranks);
  /// Connects it to the peer's. Unavailable as the device says.
  Status connect(const VerbsFunctions &functions, const VerbsPort &port, const VerbsEndpoint &theirs,
                 const VerbsEndpoint::Queue &other);
  /// What is under way ends soon, with an error.
  void breakOff(const VerbsFunctions &functions);

  /// How many writes have come to their end with this one, which is known by the low bits of its number.
  uint64_t upTo(uint64_t id) const {
    return uint64_t{static_cast<uint32_t>(id) - static_cast<uint32_t>(completed)} + 1;
  }

  RankRange ranks; ///< The peer's.
  Owned<ibv_qp> pair;
  uint32_t firstPacket = 0;
  uint64_t posted = 0, completed = 0;
  uint64_t sentOfFirst = 0;           ///< Bytes of the ring's first operation, which takes several writes.
  std::array<Word *, kDepth> taken{}; ///< By write under way: where its end counts.
};

} // namespace maestro::transport
