#include "cost_models/simulator.h"

#include "cost_models/contention.h"
#include "cost_models/fold.h"
#include "cost_models/timeline.h"
#include "cost_models/tuner.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace maestro::cost_models {
namespace {

constexpr double kNano = 1e-9;
/// A steady step is one behind another.
constexpr size_t kLeastSteps = 3;

/// Devices of a section, each once.
std::vector<uint32_t> devicesOf(const std::vector<std::vector<uint32_t>> &replicas) {
  std::vector<uint32_t> devices;
  for (const std::vector<uint32_t> &replica : replicas)
    devices.insert(devices.end(), replica.begin(), replica.end());
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

/// Tasks of a step of so many samples.
uint64_t taskCount(const wavefront::Problem &problem, size_t samples) {
  uint64_t tasks = 0;
  for (const wavefront::Section &section : problem.sections) {
    auto size = static_cast<uint64_t>(section.maxSamples);
    tasks += (samples + size - 1) / size * section.stages.size() *
             (section.splitsBackward ? 3
              : section.trains       ? 2
                                     : 1);
  }
  return tasks;
}

/// Idle time of a section's devices in the mean step.
double idleOf(const std::vector<uint32_t> &devices, const std::vector<double> &busy, double step) {
  double idle = 0;
  for (uint32_t device : devices)
    idle += step - busy[device];
  return std::max(0.0, idle / static_cast<double>(devices.size()));
}

/// Between updates, and what devices do, of steps one behind the other.
struct Flow {
  std::vector<double> steps;
  std::vector<double> busy; ///< By device, of the mean step.
  double update = 0, fill = 0, drain = 0;
};

/// Devices that have tasks; where frozen sections run ahead, of sections that train.
std::vector<uint32_t> workingDevices(const wavefront::Problem &problem, bool ahead) {
  std::vector<uint32_t> devices;
  for (const wavefront::Section &section : problem.sections)
    if (section.trains || !ahead)
      for (const std::vector<uint32_t> &replica : section.devices)
        devices.insert(devices.end(), replica.begin(), replica.end());
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

/// Adds what devices wait at both ends of a step that starts at `beginNs`.
void addEnds(const wavefront::Schedule &schedule, const Timeline::Step &times, int64_t beginNs,
             const std::vector<uint32_t> &devices, Flow &flow) {
  double share = kNano / static_cast<double>(devices.size());
  for (uint32_t device : devices) {
    uint32_t first = schedule.deviceTasks[device], last = schedule.deviceTasks[device + 1];
    if (first == last)
      continue;
    flow.fill += static_cast<double>(std::max<int64_t>(0, times.startNs[first] - beginNs)) * share;
    flow.drain += static_cast<double>(std::max<int64_t>(0, times.gradientsNs - times.endNs[last - 1])) * share;
  }
}

/// Not `exactly`: steps and what devices do, with transfers as they were scheduled; where devices wait within a step is
/// not told.
Result<Flow> flowOf(const std::vector<wavefront::Problem> &problems, const std::vector<wavefront::Schedule> &schedules,
                    bool ahead, bool exactly) {
  bool follows = !ahead && !exactly;
  std::vector<TimelineStep> list;
  std::vector<std::vector<int64_t>> durationsNs(problems.size()); // The schedules have them.
  for (size_t p = 0; p < problems.size() && !follows; ++p)
    for (const wavefront::Task &task : schedules[p].tasks)
      durationsNs[p].push_back(task.endNs - task.startNs);
  while (list.size() < (ahead ? std::max(kLeastSteps, problems.size()) : problems.size())) {
    size_t p = list.size() % problems.size();
    list.push_back({&problems[p], &schedules[p], durationsNs[p]});
  }
  Timeline timeline;
  Boundary boundary = ahead ? Boundary::FrozenRunsAhead : Boundary::Wait;
  if (follows)
    followSchedules(list, timeline);
  else
    MAESTRO_TRY(computeTimeline(list, boundary, timeline));
  Flow flow;
  int64_t before = 0;
  uint32_t devices = problems.front().devices;
  flow.busy.assign(devices, 0);
  std::vector<uint32_t> working = workingDevices(problems.front(), ahead);
  for (size_t s = 0; s < list.size(); ++s) {
    const Timeline::Step &times = timeline.steps[s];
    int64_t end = ahead ? times.updatedNs : std::max(times.tasksNs, times.updatedNs);
    if (s > 0 || !ahead) // The first fills what the others find filled.
      flow.steps.push_back(static_cast<double>(end - before) * kNano);
    flow.update += static_cast<double>(times.updatedNs - times.gradientsNs) * kNano;
    addEnds(*list[s].schedule, times, before, working, flow);
    before = end;
    for (uint32_t device = 0; device < devices; ++device)
      flow.busy[device] += static_cast<double>(timeline.busyNs[s * devices + device]) * kNano;
  }
  double share = 1.0 / static_cast<double>(list.size());
  for (double *seconds : {&flow.update, &flow.fill, &flow.drain})
    *seconds *= share;
  for (double &busy : flow.busy)
    busy *= share;
  return flow;
}

double mean(const std::vector<double> &values) {
  double sum = 0;
  for (double value : values)
    sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// What tuning a plan may take, or three times that where schedules stay far from the bound.
constexpr int64_t kTunedNs = 250'000'000;
constexpr size_t kTunedSteps = 12;
/// Tasks that are shorter beside idle devices move what is idle, by little.
constexpr int kReliefs = 2;

} // namespace

bool runsAhead(const CompoundModel &model, const CompoundLayout &layout) {
  std::vector<uint32_t> training;
  for (size_t s = 0; s < layout.size(); ++s)
    if (model.sections[s].trains)
      for (const std::vector<uint32_t> &replica : layout[s].devices)
        training.insert(training.end(), replica.begin(), replica.end());
  std::sort(training.begin(), training.end());
  for (size_t s = 0; s < layout.size(); ++s)
    if (!model.sections[s].trains)
      for (const std::vector<uint32_t> &replica : layout[s].devices)
        for (uint32_t device : replica)
          if (!std::binary_search(training.begin(), training.end(), device))
            return true;
  return false;
}

uint32_t Simulator::partsOf(const wavefront::Problem &problem) const {
  size_t width = std::max<size_t>(1, problem.dims.size()), samples = SIZE_MAX, all = 0;
  for (const SampleSizes &sizes : steps) {
    samples = std::min(samples, sizes.size() / width);
    all += sizes.size() / width;
  }
  uint64_t tasks = taskCount(problem, all);
  if (tasks <= mostTasks)
    return 1;
  auto wanted = static_cast<uint32_t>(std::min<uint64_t>((tasks + mostTasks - 1) / mostTasks, 1u << 20));
  // Parts of few samples would say more about themselves than about the whole: the fewest that are cheap enough.
  uint32_t parts = equalParts(problem, static_cast<uint32_t>(std::min<size_t>(samples, UINT32_MAX)));
  for (uint32_t fewer = wanted; fewer < parts; ++fewer)
    if (parts % fewer == 0)
      return fewer;
  return parts;
}

uint64_t Simulator::tasks(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout) const {
  wavefront::Problem problem = makeProblem(model, machine, layout);
  uint32_t parts = partsOf(problem);
  uint64_t tasks = 0;
  for (const SampleSizes &sizes : steps)
    tasks += taskCount(problem, sizes.size() / problem.dims.size() / parts);
  return tasks;
}

Result<std::vector<wavefront::Problem>> Simulator::problemsOf(const CompoundModel &model, const Machine &machine,
                                                              const CompoundLayout &layout, uint32_t &parts) const {
  MAESTRO_TRY(check(model));
  MAESTRO_TRY(check(model, machine, layout));
  wavefront::Problem whole = makeProblem(model, machine, layout);
  parts = partsOf(whole);
  std::vector<wavefront::Problem> problems;
  for (const SampleSizes &sizes : steps) {
    whole.sizes = sizes;
    whole.hints = hints;
    problems.push_back(firstPart(whole, parts));
    MAESTRO_TRY(wavefront::check(problems.back()));
  }
  return problems;
}

namespace {

/// And other steps, of samples drawn from those of these: what suits a few steps should suit those to come.
std::vector<wavefront::Problem> withOtherSteps(std::vector<wavefront::Problem> problems) {
  size_t given = problems.size(), dims = problems.front().dims.size(), samples = problems.front().sampleCount();
  std::minstd_rand random;
  while (dims > 0 && problems.size() < kTunedSteps) {
    wavefront::Problem other = problems.front();
    for (size_t i = 0; i < samples; ++i) {
      const wavefront::Problem &from = problems[random() % given];
      size_t drawn = random() % from.sampleCount();
      std::copy_n(from.sizes.begin() + static_cast<int64_t>(drawn * dims), dims,
                  other.sizes.begin() + static_cast<int64_t>(i * dims));
    }
    if (other.sizes == problems.front().sizes)
      break; // All samples are alike.
    problems.push_back(std::move(other));
  }
  return problems;
}

} // namespace

Result<Simulation> Simulator::run(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout,
                                  wavefront::Order order) {
  uint32_t parts = 1;
  MAESTRO_ASSIGN(std::vector<wavefront::Problem> problems, problemsOf(model, machine, layout, parts));
  return simulate(model, machine, layout, order, std::move(problems), parts, false);
}

Result<Simulation> Simulator::runTuned(const CompoundModel &model, const Machine &machine,
                                       const CompoundLayout &layout) {
  uint32_t parts = 1;
  MAESTRO_ASSIGN(std::vector<wavefront::Problem> problems, problemsOf(model, machine, layout, parts));
  if (parts == 1 && dependsOnCompany(machine))
    adaptTasks(machine, problems);
  std::vector<wavefront::Choice> found = tune(withOtherSteps(problems), {.budgetNs = kTunedNs});
  for (wavefront::Problem &problem : problems)
    problem.hints.clear(); // What a plan does not say.
  MAESTRO_ASSIGN(Simulation usual,
                 simulate(model, machine, layout, wavefront::Order::Wavefront, problems, parts, true));
  if (found.empty())
    return usual;
  for (wavefront::Problem &problem : problems)
    problem.hints = found;
  MAESTRO_ASSIGN(Simulation tuned,
                 simulate(model, machine, layout, wavefront::Order::Wavefront, std::move(problems), parts, true));
  if (tuned.stepSeconds >= usual.stepSeconds)
    return usual;
  tuned.hints = std::move(found);
  return tuned;
}

Status Simulator::addSteps(std::span<const SampleSizes> others, const CompoundModel &model, const Machine &machine,
                           const CompoundLayout &layout, Simulation &simulation) const {
  Simulator simulator(others, mostTasks, simulation.hints);
  MAESTRO_ASSIGN(Simulation own, simulator.run(model, machine, layout, wavefront::Order::Wavefront));
  simulation.meanSeconds = own.meanSeconds;
  simulation.leastSeconds = own.leastSeconds;
  simulation.mostSeconds = own.mostSeconds;
  return Status();
}

void Simulator::adaptTasks(const Machine &machine, std::vector<wavefront::Problem> &problems) {
  const std::vector<wavefront::Problem> measured = problems;
  for (int pass = 0; pass < kReliefs; ++pass) {
    std::vector<double> others(machine.devices, 0);
    wavefront::Schedule schedule;
    for (const wavefront::Problem &problem : problems) {
      scheduler.run(problem, wavefront::Order::Wavefront, schedule);
      std::vector<double> own = othersAtWork(problem, schedule);
      for (size_t device = 0; device < own.size(); ++device)
        others[device] += own[device] / static_cast<double>(problems.size());
    }
    problems = measured;
    for (wavefront::Problem &problem : problems)
      adaptToCompany(problem, machine, others);
  }
}

Result<Simulation> Simulator::simulate(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout,
                                       wavefront::Order order, std::vector<wavefront::Problem> problems, uint32_t parts,
                                       bool withWaits) {
  Simulation result;
  result.deviceBytes = deviceBytes(model, machine, layout);
  result.runsAhead = runsAhead(model, layout);
  result.sections.resize(model.sections.size());
  result.parts = parts;
  std::vector<wavefront::Schedule> schedules(problems.size());
  for (size_t step = 0; step < problems.size(); ++step)
    scheduler.run(problems[step], order, schedules[step]);
  MAESTRO_TRY(addSteps(problems, schedules, withWaits, result));
  // Parts are alike: what the first part's devices do, the others' do.
  std::vector<double> busyOfPart = std::move(result.deviceBusySeconds);
  result.deviceBusySeconds.assign(machine.devices, 0);
  for (size_t s = 0; s < layout.size(); ++s)
    for (size_t replica = 0; replica < layout[s].devices.size(); ++replica)
      for (size_t stage = 0; stage < layout[s].devices[replica].size(); ++stage) {
        const auto &first = problems.front().sections[s].devices;
        result.deviceBusySeconds[layout[s].devices[replica][stage]] = busyOfPart[first[replica % first.size()][stage]];
      }
  if (withWaits)
    MAESTRO_TRY(addWaits(std::move(problems), schedules, result));
  return result;
}

Status Simulator::addSteps(const std::vector<wavefront::Problem> &problems,
                           const std::vector<wavefront::Schedule> &schedules, bool exactly, Simulation &result) {
  MAESTRO_ASSIGN(Flow flow, flowOf(problems, schedules, result.runsAhead, exactly));
  result.stepSeconds = result.meanSeconds = mean(flow.steps);
  result.updateSeconds = flow.update;
  result.fillSeconds = flow.fill;
  result.drainSeconds = flow.drain;
  result.deviceBusySeconds = flow.busy;
  std::sort(flow.steps.begin(), flow.steps.end());
  result.leastSeconds = flow.steps[flow.steps.size() / 10];
  result.mostSeconds = flow.steps[flow.steps.size() - 1 - flow.steps.size() / 10];
  double share = 1.0 / static_cast<double>(problems.size());
  for (const wavefront::Schedule &schedule : schedules) {
    result.makespanSeconds += static_cast<double>(schedule.makespanNs) * kNano * share;
    result.lowerBoundSeconds += static_cast<double>(schedule.lowerBoundNs) * kNano * share;
    for (const wavefront::Task &task : schedule.tasks)
      result.sections[schedule.microBatches[task.microBatch].section].busySeconds +=
          static_cast<double>(task.endNs - task.startNs) * kNano * share;
    for (const wavefront::MicroBatch &group : schedule.microBatches)
      result.sections[group.section].microBatches += share;
  }
  for (size_t s = 0; s < result.sections.size(); ++s) {
    Simulation::Section &section = result.sections[s];
    std::vector<uint32_t> devices = devicesOf(problems.front().sections[s].devices);
    section.busySeconds /= static_cast<double>(devices.size());
    section.microBatches *= result.parts;
    section.idleSeconds = idleOf(devices, flow.busy, result.stepSeconds);
  }
  return Status();
}

Status Simulator::addWaits(std::vector<wavefront::Problem> problems, const std::vector<wavefront::Schedule> &schedules,
                           Simulation &result) {
  for (wavefront::Problem &problem : problems)
    for (wavefront::Edge &edge : problem.edges)
      edge.transfer = edge.gradientTransfer = {};
  MAESTRO_ASSIGN(Flow direct, flowOf(problems, schedules, result.runsAhead, true));
  for (size_t s = 0; s < result.sections.size(); ++s) {
    double idle = idleOf(devicesOf(problems.front().sections[s].devices), direct.busy, mean(direct.steps));
    result.sections[s].waitSeconds = std::max(0.0, result.sections[s].idleSeconds - idle);
  }
  return Status();
}

} // namespace maestro::cost_models
