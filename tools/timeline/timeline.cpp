// What both kinds of timelines are asked: windows of steps, busy and idle time, text.
#include "tools/timeline/timeline.h"

#include "executor/metrics/line.h"
#include "plan/plan_generated.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace maestro::timeline {

std::vector<Step> windows(const std::vector<Span> &spans) {
  std::map<uint64_t, int64_t> tasksEnd, updatesEnd;
  auto extend = [](std::map<uint64_t, int64_t> &ends, const Span &span) {
    int64_t &end = ends.try_emplace(span.step, span.endNs).first->second;
    end = std::max(end, span.endNs);
  };
  for (const Span &span : spans)
    extend(span.isTask() ? tasksEnd : updatesEnd, span);
  std::vector<Step> steps;
  int64_t start = spans.empty() ? 0 : spans.front().startNs;
  for (const auto &[number, end] : updatesEnd.empty() ? tasksEnd : updatesEnd) {
    steps.push_back({number, start, std::max(start, end)});
    start = steps.back().endNs;
  }
  return steps;
}

std::vector<size_t> steadySteps(const Timeline &timeline) {
  size_t count = timeline.steps.size();
  // The last has nothing running ahead for the one after it.
  size_t last = count > 2 ? count - 1 : count;
  std::vector<size_t> steady;
  for (size_t s = std::min(count / 3, last - std::min<size_t>(last, 1)); s < last; ++s)
    steady.push_back(s);
  return steady;
}

size_t typicalStep(const Timeline &timeline) {
  std::vector<size_t> steady = steadySteps(timeline);
  std::sort(steady.begin(), steady.end(),
            [&](size_t a, size_t b) { return timeline.steps[a].ns() < timeline.steps[b].ns(); });
  return steady[steady.size() / 2];
}

Usage usage(const Timeline &timeline, const executor::Topology &topology, const plan::Plan &plan) {
  Usage result;
  result.devices.resize(topology.ranks);
  result.sections.resize(plan->sections()->size());
  std::vector<size_t> steady = steadySteps(timeline);
  int64_t start = timeline.steps[steady.front()].startNs, end = timeline.steps[steady.back()].endNs;
  auto share = 1.0 / static_cast<double>(steady.size());
  for (const Span &span : timeline.spans) {
    auto ns =
        static_cast<double>(std::max<int64_t>(0, std::min(end, span.endNs) - std::max(start, span.startNs))) * share;
    const executor::StationFacts &station = topology.stations[span.station];
    result.devices[station.rank].busyNs += ns;
    result.sections[station.section].busyNs += span.isTask() ? ns : 0;
  }
  result.stepNs = static_cast<double>(end - start) * share;
  for (uint32_t s = 0; s < result.sections.size(); ++s) {
    std::vector<bool> has(topology.ranks, false);
    for (const executor::StationFacts &station : topology.stations)
      if (station.section == s)
        has[station.rank] = true;
    auto devices = static_cast<double>(std::count(has.begin(), has.end(), true));
    Usage::Section &section = result.sections[s];
    section.busyNs /= devices;
    for (uint32_t rank = 0; rank < topology.ranks; ++rank)
      section.idleNs += has[rank] ? std::max(0.0, result.stepNs - result.devices[rank].busyNs) / devices : 0;
  }
  return result;
}

plan::StepTimes stepTimes(const Timeline &predicted, const Usage &usage) {
  constexpr double kNano = 1e-9;
  plan::StepTimes times;
  times.stepSeconds = usage.stepNs * kNano;
  for (const Usage::Section &section : usage.sections)
    times.sections.push_back({section.busyNs * kNano, section.idleNs * kNano});
  for (const Padding &padding : predicted.padding)
    times.padding.push_back({padding.section, padding.symbol, padding.own, padding.padded});
  return times;
}

std::string traceText(const Timeline &timeline, const plan::Plan &plan, const executor::Topology &topology,
                      const metrics::TraceRun &run) {
  metrics::Line line;
  line << metrics::kTraceOpening << "\n";
  metrics::formatRun(line, run);
  for (uint32_t rank = 0; rank < topology.ranks; ++rank) {
    metrics::formatRankName(line << ",\n", rank, fmt::format("rank {}", rank));
    for (uint32_t s = 0; s < topology.stations.size(); ++s)
      if (topology.stations[s].rank == rank)
        metrics::formatStationName(line << ",\n", rank, 1 + s, executor::stationName(plan, topology.stations[s]));
  }
  for (const Span &span : timeline.spans) {
    metrics::TraceEvent event;
    event.name = metrics::kTaskNames[span.kind];
    event.category = "task";
    event.rank = topology.stations[span.station].rank;
    event.station = 1 + span.station;
    event.startNs = span.startNs;
    event.durationNs = span.endNs - span.startNs;
    event.step = static_cast<int64_t>(span.step);
    event.microbatch = span.microBatch;
    metrics::formatEvent(line << ",\n", event);
  }
  line << metrics::kTraceClosing;
  return line.text();
}

} // namespace maestro::timeline
