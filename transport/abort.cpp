#include "transport/abort.h"

#include "transport/protocol.h"

#include <algorithm>
#include <cstring>

namespace maestro::transport {

Result<Abort> Abort::create(SharedMemory &memory, uint32_t ranks) {
  Abort abort;
  MAESTRO_ASSIGN(abort.block, memory.make<Block>(1, "the job's abort cause"));
  MAESTRO_ASSIGN(abort.table, Progress::create(memory, ranks));
  return abort;
}

Result<WaitPoint *> Abort::makeWaitPoint(SharedMemory &memory, std::string_view purpose) const {
  MAESTRO_ASSIGN(WaitPoint * point, memory.make<WaitPoint>(1, purpose));
  point->next = block->waitPoints.load();
  block->waitPoints = point;
  return point;
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
  for (WaitPoint *point = block->waitPoints; point; point = point->next)
    for (protocol::Notify machine{protocol::Notify::At::Bump}; !machine.done();)
      machine.step(*point);
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
