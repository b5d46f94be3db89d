#include "cost_models/simulator.h"

#include "executor/wavefront/timeline.h"

#include <algorithm>

namespace maestro::cost_models {
namespace {

constexpr double kNano = 1e-9;

/// Devices of a section, each once.
std::vector<uint32_t> devicesOf(const SectionChoice &choice) {
  std::vector<uint32_t> devices;
  for (const std::vector<uint32_t> &replica : choice.devices)
    devices.insert(devices.end(), replica.begin(), replica.end());
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

} // namespace

Result<Simulation> Simulator::run(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout,
                                  wavefront::Order order) {
  MAESTRO_TRY(check(model));
  MAESTRO_TRY(check(model, machine, layout));
  Simulation result;
  result.deviceBusySeconds.assign(machine.devices, 0);
  result.sections.resize(model.sections.size());
  wavefront::Problem problem = makeProblem(model, machine, layout);
  for (const SampleSizes &sizes : steps) {
    problem.sizes = sizes;
    MAESTRO_TRY(wavefront::check(problem));
    scheduler.run(problem, order, schedule);
    MAESTRO_TRY(addStep(problem, layout, result));
  }
  double share = steps.empty() ? 0 : 1.0 / static_cast<double>(steps.size());
  for (double *value : {&result.stepSeconds, &result.makespanSeconds, &result.lowerBoundSeconds})
    *value *= share;
  for (double &busy : result.deviceBusySeconds)
    busy *= share;
  for (size_t s = 0; s < layout.size(); ++s) {
    Simulation::Section &section = result.sections[s];
    std::vector<uint32_t> devices = devicesOf(layout[s]);
    double idle = 0;
    for (uint32_t device : devices)
      idle += result.stepSeconds - result.deviceBusySeconds[device];
    section.busySeconds *= share / static_cast<double>(devices.size());
    section.idleSeconds = std::max(0.0, idle / static_cast<double>(devices.size()));
    section.microBatches *= share;
  }
  return result;
}

Status Simulator::addStep(const wavefront::Problem &problem, const CompoundLayout &layout, Simulation &result) {
  wavefront::Timeline timeline;
  wavefront::TimelineStep step{&problem, &schedule, {}};
  MAESTRO_TRY(wavefront::computeTimeline({&step, 1}, wavefront::Boundary::Wait, timeline));
  const wavefront::Timeline::Step &times = timeline.steps.front();
  result.stepSeconds += static_cast<double>(std::max(times.tasksNs, times.updatedNs)) * kNano;
  result.makespanSeconds += static_cast<double>(times.tasksNs) * kNano;
  result.lowerBoundSeconds += static_cast<double>(schedule.lowerBoundNs) * kNano;
  for (uint32_t device = 0; device < problem.devices; ++device)
    result.deviceBusySeconds[device] += static_cast<double>(timeline.busyNs[device]) * kNano;
  for (const wavefront::Task &task : schedule.tasks)
    result.sections[schedule.microBatches[task.microBatch].section].busySeconds +=
        static_cast<double>(task.endNs - task.startNs) * kNano;
  for (const wavefront::MicroBatch &group : schedule.microBatches)
    result.sections[group.section].microBatches += 1;
  return Status();
}

} // namespace maestro::cost_models
