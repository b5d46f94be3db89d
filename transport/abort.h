// One shared end for all ranks: the first cause wins, every waiter wakes at once, and everybody reports that cause.
//
// raise() may be called by any thread of any process, a supervisor that has seen a rank die included; it takes no
// lock, allocates nothing, and a rank that is killed in the middle of it harms nobody.
#pragma once

#include "base/status.h"
#include "transport/progress.h"
#include "transport/shared_memory.h"
#include "transport/wait_point.h"

#include <atomic>
#include <cstdint>
#include <string_view>

namespace maestro::transport {

class Abort {
public:
  static constexpr uint32_t kCauseBytes = 512;
  static constexpr uint32_t kSupervisor = ~0u; ///< As a rank: whoever watches the ranks.

  static Result<Abort> create(SharedMemory &memory, uint32_t ranks);

  /// The first to finish is the cause; text beyond 512 bytes is cut.
  void raise(uint32_t rank, std::string_view text) const noexcept;
  void raise(uint32_t rank, const Status &status) const noexcept { raise(rank, status.message()); }

  bool isRaised() const noexcept { return block->first.load(std::memory_order_seq_cst) != 0; }
  /// Ok, or unavailable("rank 3: …"), the same for everybody.
  Status status() const;
  /// What was raised, as it was; only when isRaised().
  std::string_view text() const {
    const Cause &cause = block->causes[block->first - 1];
    return {cause.text, cause.bytes};
  }
  /// The rank that raised; only when isRaised().
  uint32_t rank() const { return block->causes[block->first - 1].rank; }

  /// Between the two, raise() wakes who sleeps at the point. It is found by its address, so whoever raises must have it
  /// mapped at the same one.
  void beginSleep(WaitPoint &point, uint32_t rank) const noexcept;
  void endSleep(WaitPoint &point, uint32_t rank) const noexcept;

  const Progress &progress() const { return table; }

private:
  static constexpr uint32_t kCauses = 64; ///< Ranks that may be in raise() at the same time; more are too late anyway.
  struct Cause {
    uint32_t rank, bytes;
    char text[kCauseBytes];
  };
  struct Block {
    std::atomic<uint32_t> first{0}; ///< 1 + the cause that counts.
    std::atomic<uint32_t> claimed{0};
    Cause causes[kCauses];
  };
  static constexpr uint32_t kSleepersPerRank = 8; ///< Threads of a rank that sleep at a time; more look around.

  Block *block = nullptr;
  std::atomic<WaitPoint *> *sleepers = nullptr; ///< By rank.
  uint32_t sleeperCount = 0;
  Progress table;
};

} // namespace maestro::transport
