#include "executor/core/schedule_cache.h"

#include "executor/core/station.h"

#include <algorithm>
#include <cmath>
#include <ctime>

namespace maestro::executor {

namespace fb = plan::fb;
using plan::kNone;

namespace {
/// Of this thread: what a busy machine makes it wait does not count.
int64_t processorNs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

wavefront::Problem plannedProblemOf(const plan::Plan &plan, const Topology &topology,
                                    const ScheduleCache::Options &options) {
  wavefront::Problem problem = makeProblem(plan, topology, options.problem);
  if (options.sleepScale > 0)
    scaleTasks(problem, options.sleepScale);
  return problem;
}
} // namespace

ScheduleCache::ScheduleCache(const plan::Plan &plan, const Topology &topology, const data::Batcher &batcher,
                             const Options &options)
    : plan(plan), batcher(batcher), order(options.problem.onePiece ? wavefront::Order::FileOrder : options.order),
      sampleSymbol(findSampleSymbol(plan)), plannedProblem(plannedProblemOf(plan, topology, options)),
      adaptedProblem(plannedProblem), updateNs(longestUpdateNs(plannedProblem)),
      factors(2 * plan->executables()->size(), 1.0) {
  for (ScheduledStep &step : made)
    step.problem = plannedProblem;
}

Status ScheduleCache::measure(const data::Sample &sample, std::span<int64_t> sizes) const {
  MAESTRO_TRY(batcher.measure(sample, sizes));
  if (sampleSymbol != kNone)
    sizes[sampleSymbol] = 1;
  return Status();
}

Result<std::vector<int64_t>> ScheduleCache::combinedSymbols(const data::SampleBatch &batch) const {
  size_t symbols = plannedProblem.dims.size();
  std::vector<int64_t> sizes(batch.count * symbols), combined(symbols);
  for (size_t s = 0; s < batch.count; ++s)
    MAESTRO_TRY(measure(batch.samples[s], {sizes.data() + s * symbols, symbols}));
  batcher.combine(sizes, combined);
  return combined;
}

Result<const ScheduledStep *> ScheduleCache::of(const data::SampleBatch &batch, uint64_t step) {
  std::lock_guard lock(mutex);
  ScheduledStep &entry = made[step % made.size()];
  if (entry.step != step) {
    entry.step = 0; // Until it is whole.
    MAESTRO_TRY(make(batch, entry));
    entry.step = step;
  }
  return &entry;
}

Status ScheduleCache::make(const data::SampleBatch &batch, ScheduledStep &entry) {
  wavefront::Problem &problem = entry.problem;
  size_t symbols = problem.dims.size();
  if (symbols == 0)
    return Status::internal("the plan declares no symbolic dims");
  if (adaptedStep > 0)
    problem.sections = adaptedProblem.sections;
  problem.sizes.resize(batch.count * symbols);
  entry.tokens = 0;
  for (size_t s = 0; s < batch.count; ++s) {
    std::span<int64_t> sizes(problem.sizes.data() + s * symbols, symbols);
    MAESTRO_TRY(measure(batch.samples[s], sizes));
    int64_t longest = 1;
    for (size_t d = 0; d < symbols; ++d)
      if (!problem.dims[d].sum)
        longest = std::max(longest, sizes[d]);
    entry.tokens += static_cast<uint64_t>(longest);
  }
  MAESTRO_TRY(wavefront::check(problem));
  int64_t startNs = processorNs();
  entry.costsOfStep = adaptedStep;
  if (const ScheduledStep *alike = withSizesOf(entry)) {
    entry.schedule = alike->schedule;
  } else {
    scheduler.run(problem, order, entry.schedule);
    MAESTRO_TRY(verifier.run(problem, entry.schedule)); // Nothing runs that could deadlock.
  }
  entry.processorNs = processorNs() - startNs;
  entry.predictedNs = entry.schedule.makespanNs + updateNs;
  entry.samples.clear();
  for (uint32_t sample : entry.schedule.samples)
    entry.samples.push_back(&batch.samples[sample]);
  return Status();
}

const ScheduledStep *ScheduleCache::withSizesOf(const ScheduledStep &entry) const {
  for (const ScheduledStep &other : made)
    if (&other != &entry && other.step != 0 && other.costsOfStep == entry.costsOfStep &&
        other.problem.sizes == entry.problem.sizes)
      return &other;
  return nullptr;
}

void ScheduleCache::adapt(uint64_t step, std::span<const double> measured, std::span<const double> expected) {
  constexpr double kLeast = 1e-3, kMost = 1e3;
  std::lock_guard lock(mutex);
  if (step <= adaptedStep)
    return;
  adaptedStep = step;
  for (size_t i = 0; i < factors.size(); ++i)
    if (expected[i] > 0)
      factors[i] = std::clamp(std::sqrt(factors[i] * measured[i] / expected[i]), kLeast, kMost);
  for (uint32_t e = 0; e < plan->executables()->size(); ++e) {
    const fb::Executable &executable = *plan->executables()->Get(e);
    const wavefront::Stage &from = plannedProblem.sections[executable.section()].stages[executable.stage()];
    wavefront::Stage &to = adaptedProblem.sections[executable.section()].stages[executable.stage()];
    scale(to.forward, from.forward, factors[2 * e]);
    scale(to.backward, from.backward, factors[2 * e + 1]);
    scale(to.weightGradient, from.weightGradient, factors[2 * e + 1]);
  }
}

} // namespace maestro::executor
