#include "executor/core/busy_times.h"

#include "plan/plan_generated.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace maestro::executor {

void BusyTimes::fill(const plan::Plan &plan, const Job &job, const StepResult &result, double seconds,
                     metrics::StepRecord &record) {
  const Topology &topology = job.topology();
  uint32_t sections = plan->sections()->size();
  before.resize(topology.ranks + topology.stations.size(), 0);
  record.devices.resize(topology.ranks);
  for (uint32_t rank = 0; rank < topology.ranks; ++rank) {
    double busy = newSeconds(job.counters().devices[rank], rank);
    record.devices[rank] = {busy, std::max(0.0, seconds - busy)};
  }
  for (uint32_t s = record.sections.size(); s < sections; ++s)
    record.sections.push_back({plan->sections()->Get(s)->name()->str(), 0, 0, 0});
  for (uint32_t s = 0; s < sections; ++s) {
    record.sections[s].microbatches = result.microBatches[s];
    fillSection(job, s, record);
  }
}

void BusyTimes::fillSection(const Job &job, uint32_t section, metrics::StepRecord &record) {
  const Topology &topology = job.topology();
  metrics::SectionTimes &times = record.sections[section];
  times.busySeconds = times.idleSeconds = 0;
  seen.assign(topology.ranks, false);
  for (uint32_t i = 0; i < topology.stations.size(); ++i) {
    const StationFacts &station = topology.stations[i];
    if (station.section != section)
      continue;
    times.busySeconds += newSeconds(job.counters().stations[i], topology.ranks + i);
    if (!seen[station.rank])
      times.idleSeconds += record.devices[station.rank].idleSeconds;
    seen[station.rank] = true;
  }
}

/// Seconds that were added to a device's or a station's time since the last call.
double BusyTimes::newSeconds(const std::atomic<int64_t> &busyNs, size_t index) {
  int64_t now = busyNs.load(std::memory_order_relaxed), last = std::exchange(before[index], now);
  return static_cast<double>(now - last) * 1e-9;
}

} // namespace maestro::executor
