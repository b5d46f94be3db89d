#include "executor/core/job_trace.h"

#include "executor/metrics/trace.h"

#include <fmt/format.h>

namespace maestro::executor {
namespace {

template <typename Span>
metrics::TraceEvent eventOf(uint32_t rank, const Span &span, int32_t microBatch, int64_t clockAheadNs) {
  metrics::TraceEvent event;
  event.rank = rank;
  event.startNs = span.startNs + clockAheadNs;
  event.durationNs = span.endNs - span.startNs;
  event.microbatch = microBatch;
  return event;
}

void addTasks(metrics::TraceFile &file, Worker &worker, uint32_t rank, int64_t clockAheadNs) {
  for (const TaskSpan &span : worker.taskSpans()) {
    metrics::TraceEvent event = eventOf(rank, span, static_cast<int32_t>(span.microBatch), clockAheadNs);
    event.name = metrics::kTaskNames[static_cast<size_t>(span.kind)];
    event.category = "task";
    event.step = static_cast<int64_t>(span.step);
    event.station = 1 + span.station;
    file.add(event);
  }
}

void addKernels(metrics::TraceFile &file, Worker &worker, uint32_t rank, int64_t clockAheadNs) {
  for (const TraceSpan &span : worker.device().trace()) {
    metrics::TraceEvent event = eventOf(rank, span, span.task, clockAheadNs);
    event.name = span.name;
    event.category = "kernel";
    event.detail = span.scope;
    file.add(event);
  }
}

} // namespace

Status writeTrace(const plan::Plan &plan, Job &job, bool isRoot, const std::string &path, int64_t clockAheadNs) {
  MAESTRO_ASSIGN(auto file, metrics::TraceFile::append(path));
  if (isRoot)
    for (const StepSizes &sizes : job.anyWorker().stepSizes())
      file->addSizes(sizes.step, sizes.sizes);
  const Topology &topology = job.topology();
  for (uint32_t rank = 0; rank < job.ranks(); ++rank) {
    Worker *worker = job.worker(rank);
    if (!worker) // Another process.
      continue;
    file->nameRank(rank, fmt::format("rank {}", rank));
    for (uint32_t s = 0; s < topology.stations.size(); ++s)
      if (topology.stations[s].rank == rank)
        file->nameStation(rank, 1 + s, stationName(plan, topology.stations[s]));
    addTasks(*file, *worker, rank, clockAheadNs);
    addKernels(*file, *worker, rank, clockAheadNs);
  }
  return file->flush();
}

} // namespace maestro::executor
