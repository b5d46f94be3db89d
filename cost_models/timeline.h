// When tasks run if every device works through its list in order: times from orders, durations supplied. What the
// simulator predicts with, what --adapt compares with, and how steps follow each other.
#pragma once

#include "wavefront/schedule.h"

namespace maestro::cost_models {

/// One step of several over the same sections, devices and edges; samples and sizes may differ.
struct TimelineStep {
  const wavefront::Problem *problem = nullptr;
  const wavefront::Schedule *schedule = nullptr;
  std::span<const int64_t> durationsNs; ///< By schedule->tasks; empty: what the problem's costs say.
};

enum class Boundary : uint8_t {
  Wait,            ///< A step starts when the one before it has ended, updates included.
  FrozenRunsAhead, ///< As the executor has it: devices that train wait for their update, the others for nothing but
                   ///< inputs and slots.
  RunAhead,        ///< Only sections that train wait, for their weights; the others start as soon as inputs and slots
                   ///< are there.
};

struct Timeline {
  struct Step {
    std::vector<int64_t> startNs, endNs;             ///< By schedule->tasks.
    int64_t gradientsNs = 0;                         ///< The end of the last backward task; updates start here.
    int64_t tasksNs = 0;                             ///< The end of the last task.
    int64_t updatedNs = 0;                           ///< The end of the last update (gradientsNs if there is none).
    std::vector<int64_t> updateStartNs, updateEndNs; ///< By device; equal where it has nothing to update.
  };
  std::vector<Step> steps;
  std::vector<int64_t> busyNs; ///< step × device: tasks and update.

  /// From one step's updates to the next's, once the first have passed: the median would hide nothing, so the last.
  int64_t steadyNs() const {
    return steps.size() < 2 ? (steps.empty() ? 0 : steps[0].updatedNs)
                            : steps.back().updatedNs - steps[steps.size() - 2].updatedNs;
  }
};

/// Rules 3 to 5 of wavefront/README.md across all steps: each device's lists one after the other, rings and places in
/// flight carried over. Once all gradients of a step are known, each device updates its trained stages, before its next
/// task that trains. Fails where orders wait for each other in a circle, naming one task. Schedules must satisfy rules
/// 1 and 2.
Status computeTimeline(std::span<const TimelineStep> steps, Boundary boundary, Timeline &timeline);

/// The schedules' own times, one after the other: steps end and devices work as computeTimeline() has it with
/// Boundary::Wait and the costs that they were scheduled with, in a tenth of the time; a task may start later, where
/// its device let another one's turn come.
void followSchedules(std::span<const TimelineStep> steps, Timeline &timeline);

} // namespace maestro::cost_models
