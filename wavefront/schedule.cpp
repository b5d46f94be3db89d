#include "wavefront/schedule.h"

namespace maestro::wavefront {
namespace {

/// Mixes whole words; the same on every platform.
class Hasher {
public:
  void add(uint64_t word) {
    state = (state ^ word) * 0x9e3779b97f4a7c15u;
    state ^= state >> 29;
  }
  uint64_t state = 0x243f6a8885a308d3u;
};

} // namespace

uint64_t hash(const Schedule &schedule) {
  Hasher hasher;
  hasher.add(schedule.microBatches.size());
  for (const MicroBatch &group : schedule.microBatches) {
    hasher.add(uint64_t{group.section} << 32 | group.replica);
    hasher.add(group.samples);
    for (uint32_t sample : schedule.samplesOf(group))
      hasher.add(sample);
  }
  for (size_t device = 0; device + 1 < schedule.deviceTasks.size(); ++device) {
    hasher.add(schedule.deviceTasks[device + 1] - schedule.deviceTasks[device]);
    for (const Task &task : schedule.tasksOf(static_cast<uint32_t>(device)))
      hasher.add(uint64_t{task.microBatch} << 32 | uint64_t{task.stage} << 8 | static_cast<uint64_t>(task.kind));
  }
  return hasher.state;
}

} // namespace maestro::wavefront
