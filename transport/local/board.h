// A board: every member of a group publishes a small record once per step and kind, and reads everybody's. Norms, loss
// sums and schedule hashes travel this way.
//
// Each member has a ring of `depth` steps per kind, so members may run ahead of each other by that much; a record is
// never overwritten before all others have read it: publish() waits instead. So whoever publishes a kind in a step
// must also read it from all members, or the others stop after `depth` more steps.
//
// Copies records, allocates nothing; for the ranks' host threads.
#pragma once

#include "transport/shared_memory.h"
#include "transport/wait.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace maestro::transport::local {

struct BoardDescription {
  std::string name;            ///< For errors.
  std::vector<uint32_t> ranks; ///< The members' ranks, in member order.
  uint32_t kinds = 1;
  uint32_t recordBytes = 512; ///< At most, each.
  uint32_t depth = 4;         ///< Steps.
};

class Board {
public:
  static Result<Board> create(SharedMemory &memory, const Abort &abort, const BoardDescription &description);
  static uint64_t bytesNeeded(const BoardDescription &description);

  /// One member's view, to be used by one thread at a time.
  class Member {
  public:
    Status publish(uint64_t step, uint32_t kind, std::span<const std::byte> record, const Abort &abort);
    /// Fails when the record has another size than `into`, and when it was read before.
    Status await(uint64_t step, uint32_t kind, uint32_t member, std::span<std::byte> into, const Abort &abort);
    /// From every member, this one included, in member order: `into` has room for as many equal records.
    Status awaitAll(uint64_t step, uint32_t kind, std::span<std::byte> into, const Abort &abort);

    template <typename T> Status publish(uint64_t step, uint32_t kind, std::span<const T> record, const Abort &abort) {
      return publish(step, kind, std::as_bytes(record), abort);
    }
    template <typename T> Status awaitAll(uint64_t step, uint32_t kind, std::span<T> into, const Abort &abort) {
      return awaitAll(step, kind, std::as_writable_bytes(into), abort);
    }

  private:
    friend class Board;
    Member(const Board &board, uint32_t self);
    Status failure(uint64_t step, uint32_t kind, const std::string &text) const;

    std::shared_ptr<const struct BoardState> state;
    uint32_t self;
    std::vector<uint64_t> read; ///< member × kind: 1 + the latest step read.
    Spin spin;
  };

  Member member(uint32_t index) const { return Member(*this, index); }
  uint32_t members() const;

private:
  std::shared_ptr<const BoardState> state;
};

} // namespace maestro::transport::local
