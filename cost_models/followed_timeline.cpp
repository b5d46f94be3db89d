// The cheap timeline: schedules at their own times.
#include "cost_models/timeline.h"

#include <algorithm>

namespace maestro::cost_models {

using namespace wavefront;

void followSchedules(std::span<const TimelineStep> steps, Timeline &timeline) {
  uint32_t devices = steps.empty() ? 0 : steps[0].problem->devices;
  timeline.steps.resize(steps.size());
  timeline.busyNs.assign(steps.size() * devices, 0);
  int64_t beginNs = 0;
  for (size_t s = 0; s < steps.size(); ++s) {
    const Schedule &schedule = *steps[s].schedule;
    Timeline::Step &step = timeline.steps[s];
    int64_t *busyNs = timeline.busyNs.data() + s * devices;
    step.startNs.clear();
    step.endNs.clear();
    step.gradientsNs = beginNs;
    for (uint32_t d = 0; d < devices; ++d)
      for (uint32_t i = schedule.deviceTasks[d]; i < schedule.deviceTasks[d + 1]; ++i) {
        const Task &task = schedule.tasks[i];
        step.startNs.push_back(beginNs + task.startNs);
        step.endNs.push_back(beginNs + task.endNs);
        step.gradientsNs = std::max(step.gradientsNs, step.endNs.back());
        busyNs[d] += task.endNs - task.startNs;
      }
    step.tasksNs = step.startNs.empty() ? 0 : step.gradientsNs;
    step.updateStartNs.assign(devices, step.gradientsNs);
    step.updateEndNs.assign(devices, step.gradientsNs);
    for (const Section &section : steps[s].problem->sections)
      for (const std::vector<uint32_t> &replica : section.devices)
        for (size_t stage = 0; section.trains && stage < replica.size(); ++stage) {
          int64_t updateNs = evaluate(section.stages[stage].update, nullptr);
          step.updateEndNs[replica[stage]] += updateNs;
          busyNs[replica[stage]] += updateNs;
        }
    step.updatedNs = step.gradientsNs;
    for (int64_t endNs : step.updateEndNs)
      step.updatedNs = std::max(step.updatedNs, endNs);
    beginNs = step.updatedNs;
  }
}

} // namespace maestro::cost_models
