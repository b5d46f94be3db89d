#include "transport/nccl/places.h"

namespace maestro::transport {

void NcclPlaces::plan(SegmentPlan &plan, uint32_t one, uint32_t other) {
  if (one == other || all.contains({one, other}))
    return;
  for (Pair pair : {Pair{one, other}, Pair{other, one}}) {
    Way &way = all[pair];
    way.ring = plan.reserve(pair.second, kRecords * kRecordBytes);
    way.arrived = plan.reserveWords(pair.second, 1);
    way.consumed = plan.reserveWords(pair.first, 1);
  }
}

} // namespace maestro::transport
