// Prediction: the executor's scheduler on given samples, and when its tasks run.
#include "tools/timeline/timeline.h"

#include "cost_models/sample_sizes.h"
#include "cost_models/timeline.h"
#include "executor/data/synthetic_sizes.h"
#include "plan/dims.h"
#include "plan/plan_generated.h"
#include "wavefront/scheduler.h"

#include <algorithm>
#include <set>

namespace maestro::timeline {
namespace {

namespace fb = plan::fb;
using cost_models::SizeDistribution;

/// Enough for what runs ahead to settle.
constexpr uint64_t kTypicalSteps = 6;

/// Where nothing is declared: one row, the longest length; as synthetic data has it.
std::vector<SizeDistribution> undeclared(const plan::Plan &plan) {
  std::vector<SizeDistribution> sizes;
  for (const fb::Symbol *symbol : *plan->symbols()) {
    bool sums = symbol->combine() == fb::Combine::Sum;
    sizes.push_back({SizeDistribution::Kind::Constant, sums ? 1.0 : static_cast<double>(symbol->sample_max()), 0,
                     sums ? 0 : 1, symbol->sample_max()});
  }
  return sizes;
}

SizeDistribution::Kind kindOf(data::Distribution::Kind kind) {
  switch (kind) {
  case data::Distribution::Kind::Constant:
    return SizeDistribution::Kind::Constant;
  case data::Distribution::Kind::Uniform:
    return SizeDistribution::Kind::Uniform;
  case data::Distribution::Kind::Normal:
    return SizeDistribution::Kind::Normal;
  case data::Distribution::Kind::LogNormal:
    return SizeDistribution::Kind::LogNormal;
  }
  return SizeDistribution::Kind::Constant;
}

void addUpdates(const wavefront::Problem &problem, const executor::Topology &topology,
                const cost_models::Timeline::Step &times, uint64_t step, std::vector<Span> &spans) {
  std::vector<int64_t> next; // By rank; the scheduler's devices are ranks, or groups of them.
  for (uint32_t device : topology.deviceOf)
    next.push_back(times.updateStartNs[device]);
  for (uint32_t s = 0; s < topology.stations.size(); ++s) {
    const executor::StationFacts &facts = topology.stations[s];
    const wavefront::Section &section = problem.sections[facts.section];
    int64_t ns = section.trains ? wavefront::evaluate(section.stages[facts.stage].update, nullptr) : 0;
    if (ns == 0)
      continue;
    constexpr uint32_t kUpdate = 5;
    static_assert(metrics::kTaskNames[kUpdate] == "update");
    spans.push_back({s, kUpdate, step, -1, next[facts.rank], next[facts.rank] + ns});
    next[facts.rank] += ns;
  }
}

/// The plan's own steps, again and again.
std::vector<std::vector<int64_t>> knownSizes(const plan::Plan &plan) {
  std::vector<std::vector<int64_t>> steps;
  while (steps.size() < kTypicalSteps) {
    const auto &own =
        *plan->step_samples()->Get(static_cast<uint32_t>(steps.size() % plan->step_samples()->size()))->sizes();
    steps.emplace_back(own.begin(), own.end());
  }
  return steps;
}

/// Which nodes of Plan.exprs contain the symbol: those that have no value without it.
std::vector<bool> containing(const plan::Plan &plan, uint32_t symbol) {
  plan::DimTable dims(*plan);
  std::vector<int64_t> symbols, with(dims.nodes()), without(dims.nodes());
  for (const fb::Symbol *other : *plan->symbols())
    symbols.push_back(other->sample_max());
  dims.evaluateDefined(symbols, with);
  symbols[symbol] = plan::DimTable::kUndefined;
  dims.evaluateDefined(symbols, without);
  std::vector<bool> nodes;
  for (size_t node = 0; node < with.size(); ++node)
    nodes.push_back(with[node] != plan::DimTable::kUndefined && without[node] == plan::DimTable::kUndefined);
  return nodes;
}

bool hasBufferOf(const fb::Executable &executable, const std::vector<bool> &nodes) {
  for (const fb::Buffer *buffer : *executable.buffers())
    for (uint32_t size : *buffer->shape())
      if (nodes[size])
        return true;
  return false;
}

/// Sections with their padded symbols: those that their executables' buffers use.
std::vector<Padding> paddedSymbols(const plan::Plan &plan) {
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  for (uint32_t symbol = 0; symbol < plan->symbols()->size(); ++symbol) {
    if (plan->symbols()->Get(symbol)->combine() != fb::Combine::Max)
      continue;
    std::vector<bool> nodes = containing(plan, symbol);
    for (const fb::Executable *executable : *plan->executables())
      if (hasBufferOf(*executable, nodes))
        pairs.emplace(executable->section(), symbol);
  }
  std::vector<Padding> list;
  for (auto [section, symbol] : pairs)
    list.push_back({section, symbol, 0, 0});
  return list;
}

void addPadding(const wavefront::Problem &problem, const wavefront::Schedule &schedule, std::vector<Padding> &list) {
  size_t width = problem.dims.size();
  for (const wavefront::MicroBatch &group : schedule.microBatches)
    for (Padding &padding : list)
      if (padding.section == group.section) {
        padding.padded +=
            static_cast<double>(group.samples) * static_cast<double>(schedule.dims[group.firstDim + padding.symbol]);
        for (uint32_t sample : schedule.samplesOf(group))
          padding.own += static_cast<double>(problem.sizes[sample * width + padding.symbol]);
      }
}

} // namespace

Result<std::vector<std::vector<int64_t>>> typicalSizes(const plan::Plan &plan) {
  if (plan->step_samples() && plan->step_samples()->size() > 0)
    return knownSizes(plan);
  std::vector<SizeDistribution> dims = undeclared(plan);
  for (const fb::Field *field : *plan->fields()) {
    if (!field->synthetic())
      continue;
    MAESTRO_ASSIGN(auto named, data::parseSyntheticSizes(field->synthetic()->string_view()));
    for (const data::NamedDistribution &size : named)
      for (uint32_t d = 0; d < dims.size(); ++d)
        if (plan->symbols()->Get(d)->name()->string_view() == size.symbol) {
          dims[d].kind = kindOf(size.distribution.kind);
          dims[d].a = size.distribution.a;
          dims[d].b = size.distribution.b;
        }
  }
  return cost_models::drawSizes(dims, kTypicalSteps, plan->training()->global_batch(), plan->training()->seed());
}

Result<Timeline> predict(const plan::Plan &plan, const executor::Topology &topology, const metrics::TraceRun &run,
                         const std::vector<uint64_t> &steps, const std::vector<std::vector<int64_t>> &sizes) {
  std::vector<wavefront::Problem> problems;
  std::vector<wavefront::Schedule> schedules(sizes.size());
  std::vector<cost_models::TimelineStep> inputs;
  wavefront::Scheduler scheduler;
  problems.reserve(sizes.size());
  for (size_t s = 0; s < sizes.size(); ++s) {
    wavefront::Problem &problem =
        problems.emplace_back(executor::makeProblem(plan, topology, {.evaluates = run.evaluates}));
    if (run.sleepScale > 0)
      executor::scaleTasks(problem, run.sleepScale);
    problem.sizes = sizes[s];
    MAESTRO_TRY(wavefront::check(problem));
    scheduler.run(problem, run.fileOrder ? wavefront::Order::FileOrder : wavefront::Order::Wavefront, schedules[s]);
    inputs.push_back({&problem, &schedules[s], {}});
  }
  cost_models::Timeline times;
  MAESTRO_TRY(cost_models::computeTimeline(
      inputs, run.waitsForSteps || run.evaluates ? cost_models::Boundary::Wait : cost_models::Boundary::FrozenRunsAhead,
      times));
  Timeline result;
  result.padding = paddedSymbols(plan);
  for (size_t s = 0; s < sizes.size(); ++s) {
    addPadding(problems[s], schedules[s], result.padding);
    for (size_t t = 0; t < schedules[s].tasks.size(); ++t) {
      const wavefront::Task &task = schedules[s].tasks[t];
      const wavefront::MicroBatch &group = schedules[s].microBatches[task.microBatch];
      uint32_t station = topology.stationAt(group.section, task.stage, group.replica);
      bool runs =
          task.kind == wavefront::TaskKind::Forward || // A stage that is frozen as a whole has nothing else.
          topology.program(station, task.kind == wavefront::TaskKind::Backward ? fb::ProgramKind::Backward
                                                                               : fb::ProgramKind::WeightGradient);
      if (runs)
        for (uint32_t part = 0; part < topology.stations[station].members; ++part)
          result.spans.push_back({station + part, static_cast<uint32_t>(task.kind), steps[s], task.microBatch,
                                  times.steps[s].startNs[t], times.steps[s].endNs[t]});
    }
    addUpdates(problems[s], topology, times.steps[s], steps[s], result.spans);
  }
  std::stable_sort(result.spans.begin(), result.spans.end(),
                   [](const Span &a, const Span &b) { return a.startNs < b.startNs; });
  result.steps = windows(result.spans);
  return result;
}

} // namespace maestro::timeline
