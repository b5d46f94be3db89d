#include "planner/explain/quantities.h"

#include "planner/explain/phrases.h"

#include <algorithm>
#include <set>

namespace maestro::planner {
namespace {

using cost_models::Simulation;

/// Where the step of the cluster's mean device goes: all but the first add up to the step.
void addMeanDevice(const SearchProblem &problem, const SearchResult &result, const Cuts &cuts,
                   const Simulation &simulation, std::vector<Quantity> &list) {
  CompoundLayout choices = place(result.layout, problem.machine);
  double devices = problem.machine.devices, step = simulation.stepSeconds, least = 0, tasks = 0, busy = 0;
  std::set<uint32_t> used;
  for (uint32_t s = 0; s < choices.size(); ++s) {
    const SectionOption &option = result.layout.sections[s];
    least += cuts.work().work(s, option.cut.recompute, option.microBatch, 0,
                              static_cast<uint32_t>(problem.model.sections[s].classOf.size()));
    std::set<uint32_t> its = devicesOf(choices[s]);
    tasks += simulation.sections[s].busySeconds * static_cast<double>(its.size()) / devices;
    used.insert(its.begin(), its.end());
  }
  for (double own : simulation.deviceBusySeconds)
    busy += own / devices;
  double share = static_cast<double>(used.size()) / devices,
         ends = share * (simulation.fillSeconds + simulation.drainSeconds);
  double rest = step * share - busy - ends,
         uneven = std::clamp(share * mostOf(simulation.deviceBusySeconds) - busy, 0.0, std::max(rest, 0.0));
  auto add = [&](const char *name, double value, const char *source) { list.push_back({name, value, "s", source}); };
  add("mean.least_work_seconds", least / devices,
      "what no schedule avoids of the tasks: these cuts and sizes, nothing padded");
  add("mean.tasks_seconds", tasks, "simulated: the cluster's mean device in tasks; this and what follows make a step");
  add("mean.update_seconds", busy - tasks, "simulated: sums of gradients, norm and update");
  add("mean.unused_seconds", step * (1 - share), "devices that the layout leaves out");
  add("mean.fill_seconds", share * simulation.fillSeconds, "simulated: before a device's first task");
  add("mean.drain_seconds", share * simulation.drainSeconds, "simulated: after a device's last task");
  add("mean.uneven_seconds", uneven, "what the busiest device has to do beyond the mean one that is used");
  add("mean.stall_seconds", rest - uneven, "simulated: what else a device waits");
}

} // namespace

std::vector<Quantity> quantitiesOf(const SearchProblem &problem, const SearchResult &result, const Cuts &cuts,
                                   const Simulation &simulation) {
  std::vector<Quantity> list;
  auto add = [&](std::string name, double value, const char *unit, const char *source) {
    list.push_back({std::move(name), value, unit, source});
  };
  for (size_t s = 0; s < simulation.sections.size(); ++s) {
    const std::string &name = problem.model.sections[s].name;
    add(name + ".busy_seconds", simulation.sections[s].busySeconds, "s",
        "simulated: a step of one of its devices, on average, in its tasks");
    add(name + ".idle_seconds", simulation.sections[s].idleSeconds, "s",
        "simulated: a step of one of its devices, on average, in no task");
    add(name + ".wait_seconds", simulation.sections[s].waitSeconds, "s",
        "simulated: of idle_seconds, what would not be there if transfers took no time");
    add(name + ".microbatches", simulation.sections[s].microBatches, "", "simulated: of a step");
  }
  add("step.simulated_seconds", simulation.stepSeconds, "s",
      "simulated: the step, as typical as can be where samples are many, that layouts are compared by");
  add("step.p10_seconds", simulation.leastSeconds, "s", "simulated: a tenth of the steps takes no longer");
  add("step.p90_seconds", simulation.mostSeconds, "s", "simulated: a tenth of the steps takes no less");
  add("schedule.seconds", simulation.makespanSeconds, "s", "simulated: until a step's last task");
  add("schedule.bound_seconds", simulation.lowerBoundSeconds, "s",
      "no schedule of these micro-batches and devices ends its tasks earlier");
  addMeanDevice(problem, result, cuts, simulation, list);
  double step = result.simulation.stepSeconds, bound = result.lowerBoundSeconds; // Of the same costs.
  add("search.step_seconds", step, "s", "simulated: the search's own, before the plan's programs were made");
  add("search.gap", step / std::max(bound, 1e-12) - 1, "",
      "how much longer that is than the search's lower bound, as a share");
  add("search.lower_bound_seconds", bound, "s", "no layout of the space is faster");
  add("search.simulations", result.simulations, "", "counted");
  if (simulation.parts > 1)
    add("search.parts", simulation.parts, "", "one of so many equal parts of the layout was simulated");
  return list;
}

} // namespace maestro::planner
