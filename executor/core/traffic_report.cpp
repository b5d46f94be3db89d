#include "executor/core/traffic_report.h"

#include "plan/plan_generated.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace maestro::executor {
namespace {

constexpr double kGiga = 1e9;

} // namespace

void TrafficReport::fill(const plan::Plan &plan, const Job &job, metrics::StepRecord &record) {
  const Topology &topology = job.topology();
  const Seats &seats = job.seats();
  before.resize(topology.rings.size() + 2 * size_t{seats.processes}, 0);
  for (uint32_t e = record.edges.size(); e < plan->edges()->size(); ++e)
    record.edges.push_back({plan->edges()->Get(e)->name()->str()});
  for (metrics::EdgeBytes &edge : record.edges)
    edge.bytes = edge.gradientBytes = 0;
  for (size_t ring = 0; ring < topology.rings.size(); ++ring) {
    metrics::EdgeBytes &edge = record.edges[topology.rings[ring].edge];
    (topology.rings[ring].gradient ? edge.gradientBytes : edge.bytes) +=
        static_cast<uint64_t>(newCount(job.counters().rings[ring], ring));
  }
  record.network.clear();
  all.resize(seats.processes);
  for (uint32_t process = 0; process < seats.processes; ++process) {
    uint32_t rank = transport::ranksOf(process, seats.processes, seats.ranks).first;
    size_t index = topology.rings.size() + 2 * size_t{process};
    metrics::NetworkUse use{process, static_cast<uint64_t>(newCount(job.counters().networkBytes[rank], index)),
                            static_cast<double>(newCount(job.counters().networkBusyNs[rank], index + 1)) * 1e-9};
    all[process].process = process;
    all[process].bytes += use.bytes;
    all[process].busySeconds += use.busySeconds;
    if (all[process].bytes > 0)
      record.network.push_back(use);
  }
}

int64_t TrafficReport::newCount(const SharedCounters::Counter &counter, size_t index) {
  int64_t now = counter.load(std::memory_order_relaxed);
  return now - std::exchange(before[index], now);
}

std::string TrafficReport::summary(const plan::Plan &plan) const {
  uint64_t bytes = 0;
  double seconds = 0;
  for (const metrics::NetworkUse &use : all) {
    bytes += use.bytes;
    seconds += use.busySeconds;
  }
  auto writers = std::count_if(all.begin(), all.end(), [](const auto &use) { return use.bytes > 0; });
  if (bytes == 0 || seconds <= 0)
    return "";
  std::string text = fmt::format("over the network: {:.3g} GB by {} process{}, each at {:.3g} GB/s while something was "
                                 "under way",
                                 static_cast<double>(bytes) / kGiga, writers, writers == 1 ? "" : "es",
                                 static_cast<double>(bytes) / seconds / kGiga);
  if (const auto *links = plan->machine()->links(); links && links->size() > 0) {
    const plan::fb::Link &outermost = *links->Get(links->size() - 1);
    text += fmt::format("; the plan counts on {:.3g} GB/s a device over {}", outermost.bandwidth() / kGiga,
                        outermost.name()->string_view());
  }
  return text;
}

} // namespace maestro::executor
