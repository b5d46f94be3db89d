#include "transport/abort.h"

#include <algorithm>
#include <cstring>

namespace maestro::transport {

Result<Abort> Abort::create(SharedMemory &memory, uint32_t ranks) {
  Abort abort;
  MAESTRO_ASSIGN(abort.block, memory.make<Block>(1, "the job's abort cause"));
  MAESTRO_ASSIGN(abort.table, Progress::create(memory, ranks));
  abort.sleeperCount = ranks * kSleepersPerRank;
  MAESTRO_ASSIGN(abort.sleepers, memory.make<std::atomic<WaitPoint *>>(abort.sleeperCount, "who sleeps"));
  return abort;
}

void Abort::beginSleep(WaitPoint &point, uint32_t rank) const noexcept {
  for (uint32_t i = 0, first = rank * kSleepersPerRank; i < kSleepersPerRank && first + i < sleeperCount; ++i) {
    WaitPoint *nobody = nullptr;
    if (sleepers[first + i].compare_exchange_strong(nobody, &point))
      return;
  }
}

void Abort::endSleep(WaitPoint &point, uint32_t rank) const noexcept {
  for (uint32_t i = 0, first = rank * kSleepersPerRank; i < kSleepersPerRank && first + i < sleeperCount; ++i) {
    WaitPoint *self = &point;
    if (sleepers[first + i].compare_exchange_strong(self, nullptr))
      return;
  }
}

void Abort::raise(uint32_t rank, std::string_view text) const noexcept {
  // Each raiser writes a cause of its own and then publishes it whole: one that dies before leaves room for the next.
  uint32_t claimed = block->claimed.fetch_add(1);
  if (claimed >= kCauses)
    return;
  Cause &cause = block->causes[claimed];
  cause.rank = rank;
  cause.bytes = static_cast<uint32_t>(std::min<size_t>(text.size(), kCauseBytes));
  std::memcpy(cause.text, text.data(), cause.bytes);
  uint32_t none = 0;
  block->first.compare_exchange_strong(none, claimed + 1);
  for (uint32_t i = 0; i < sleeperCount; ++i)
    if (WaitPoint *point = sleepers[i]) { // Who begins to sleep from here on sees that it was raised.
      point->bumpEpoch();
      point->wake();
    }
}

Status Abort::status() const {
  uint32_t first = block->first;
  if (first == 0)
    return {};
  const Cause &cause = block->causes[first - 1];
  std::string text(cause.text, cause.bytes);
  return Status::unavailable(cause.rank == kSupervisor ? text : "rank " + std::to_string(cause.rank) + ": " + text);
}

} // namespace maestro::transport
