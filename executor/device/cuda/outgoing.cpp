#include "executor/device/cuda/outgoing.h"

namespace maestro::executor {

Result<std::byte *> Outgoing::take(uint64_t bytes, const transport::Abort &abort, uint32_t rank) {
  while (true) {
    giveBack();
    if (writes - returned < kWrites)
      if (auto piece = ring.take(bytes)) {
        ends[writes++ % kWrites] = piece->end;
        return piece->memory;
      }
    transport::WaitNote note{
        rank, transport::Activity::AwaitingNetwork, "what was sent", returned + 1, transport::LaneKind::Host, true};
    MAESTRO_TRY(transport::awaitWord(takenWord, returned + 1, abort, spin, note));
  }
}

void Outgoing::giveBack() {
  for (uint64_t count = takenWord.count(); returned < count; ++returned)
    ring.giveBack(ends[returned % kWrites]);
}

} // namespace maestro::executor
