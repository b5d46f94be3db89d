#include "transport/local/exchange.h"

#include <algorithm>
#include <cstring>

namespace maestro::transport::local {
namespace {

struct alignas(64) WrittenTurns {
  std::atomic<uint64_t> count{0}; ///< Turns whose bytes this member has written to all others.
  WaitPoint *moved = nullptr;     ///< That it has moved.
};

} // namespace

struct ExchangeState {
  ExchangeDescription description;
  const char *name = nullptr;
  WrittenTurns *written = nullptr; ///< By member.
  std::byte *staging = nullptr;    ///< member × half × sender × turnBytes

  uint32_t members() const { return static_cast<uint32_t>(description.ranks.size()); }
  /// Where `from`'s bytes of a turn lie at `at`; nobody stages its own.
  std::byte *row(uint32_t at, uint32_t from, uint64_t turn) const {
    uint64_t senders = members() - 1, index = from < at ? from : from - 1;
    return staging + ((at * 2 + turn % 2) * senders + index) * description.turnBytes;
  }
};

namespace {

uint64_t stagingBytes(const ExchangeDescription &description) {
  return 2 * (description.ranks.size() - 1) * description.turnBytes;
}

} // namespace

uint64_t Exchange::bytesNeeded(const ExchangeDescription &description) {
  uint64_t members = description.ranks.size();
  return members * (stagingBytes(description) + sizeof(WrittenTurns) + sizeof(WaitPoint)) +
         alignBlock(description.name.size() + 1);
}

Result<Exchange> Exchange::create(SharedMemory &memory, const Abort &abort, const ExchangeDescription &description) {
  if (description.ranks.size() < 2 || description.turnBytes == 0 || description.turnBytes % kBlockAlignment != 0)
    return Status::internal("an exchange of one member, or with turns of uneven bytes");
  auto state = std::make_shared<ExchangeState>();
  state->description = description;
  MAESTRO_ASSIGN(state->name, memory.name(description.name));
  MAESTRO_ASSIGN(state->written, memory.make<WrittenTurns>(state->members(), state->name));
  MAESTRO_ASSIGN(void *staging, memory.allocate(stagingBytes(description) * state->members(), state->name));
  state->staging = static_cast<std::byte *>(staging);
  for (uint32_t member = 0; member < state->members(); ++member) {
    MAESTRO_ASSIGN(state->written[member].moved, abort.makeWaitPoint(memory, state->name));
  }
  Exchange exchange;
  exchange.state = std::move(state);
  return exchange;
}

uint32_t Exchange::Member::members() const { return state->members(); }

/// Of the turn that has just ended.
const std::byte *Exchange::Member::theirs(uint32_t member) const { return state->row(self, member, turns - 1); }

Status Exchange::Member::turn(const std::byte *own, uint64_t bytes, const Abort &abort) {
  for (uint32_t i = 1; i < members(); ++i) { // Each starts at another member.
    uint32_t to = (self + i) % members();
    std::memcpy(state->row(to, self, turns), own, bytes);
  }
  state->written[self].count = ++turns;
  notify(*state->written[self].moved);
  for (uint32_t member = 0; member < members(); ++member)
    MAESTRO_TRY(awaitUntil(
        *state->written[member].moved, [&] { return state->written[member].count >= turns; }, abort, spin,
        {state->description.ranks[self], Activity::AwaitingReduction, state->name, turns, LaneKind::Device}));
  return {};
}

Status Exchange::Member::sum(const float *own, float *result, uint64_t count, const Abort &abort) {
  uint64_t most = state->description.turnBytes / sizeof(float);
  for (uint64_t begin = 0; begin < count; begin += most) {
    uint64_t size = std::min(most, count - begin);
    MAESTRO_TRY(turn(reinterpret_cast<const std::byte *>(own + begin), size * sizeof(float), abort));
    constexpr uint64_t kBlockFloats = 2048; // Partial sums stay in the first cache.
    for (uint64_t at = 0; at < size; at += kBlockFloats) {
      alignas(64) float sum[kBlockFloats];
      uint64_t floats = std::min(kBlockFloats, size - at);
      for (uint32_t member = 0; member < members(); ++member) {
        const float *from = (member == self ? own + begin : reinterpret_cast<const float *>(theirs(member))) + at;
        if (member == 0)
          std::memcpy(sum, from, floats * sizeof(float));
        else
          for (uint64_t i = 0; i < floats; ++i)
            sum[i] += from[i];
      }
      std::memcpy(result + begin + at, sum, floats * sizeof(float));
    }
  }
  return {};
}

Status Exchange::Member::gather(const std::byte *own, std::byte *result, uint64_t runs, uint64_t runBytes,
                                const Abort &abort) {
  uint64_t total = runs * runBytes;
  for (uint64_t begin = 0; begin < total; begin += state->description.turnBytes) {
    uint64_t end = std::min(total, begin + state->description.turnBytes);
    MAESTRO_TRY(turn(own + begin, end - begin, abort));
    for (uint32_t member = 0; member < members(); ++member) {
      const std::byte *from = member == self ? own + begin : theirs(member);
      for (uint64_t at = begin; at < end;) { // A turn may begin and end within a run.
        uint64_t run = at / runBytes, within = at % runBytes, size = std::min(runBytes - within, end - at);
        std::memcpy(result + (run * members() + member) * runBytes + within, from + (at - begin), size);
        at += size;
      }
    }
  }
  return {};
}

} // namespace maestro::transport::local
