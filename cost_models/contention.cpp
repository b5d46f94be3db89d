#include "cost_models/contention.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace maestro::cost_models {
namespace {

/// A task begins or ends.
struct Moment {
  int64_t ns = 0;
  uint32_t device = 0;
  bool begins = false;
};

std::vector<Moment> momentsOf(const wavefront::Problem &problem, const wavefront::Schedule &schedule) {
  std::vector<Moment> moments;
  for (uint32_t device = 0; device < problem.devices; ++device)
    for (uint32_t t = schedule.deviceTasks[device]; t < schedule.deviceTasks[device + 1]; ++t) {
      moments.push_back({schedule.tasks[t].startNs, device, true});
      moments.push_back({schedule.tasks[t].endNs, device, false});
    }
  std::sort(moments.begin(), moments.end(), [](const Moment &a, const Moment &b) { return a.ns < b.ns; });
  return moments;
}

void scale(wavefront::Cost &cost, double factor) {
  for (wavefront::CostTerm &term : cost.terms)
    term.picoseconds = std::llround(static_cast<double>(term.picoseconds) * factor);
}

/// How much of the time in which a device works all processors do.
double shareOfFullCompany(const DeviceModel &device, double others) {
  return device.atOnce <= 1 ? 1 : std::min(1.0, others / (device.atOnce - 1));
}

} // namespace

bool dependsOnCompany(const Machine &machine) {
  return std::any_of(machine.kinds.begin(), machine.kinds.end(), [](const DeviceModel &kind) {
    return kind.rates.host > Seconds(0) || (kind.atOnce > 1 && (kind.rates.alone < 1 || kind.rates.together > 1));
  });
}

double shareOfTime(const DeviceModel &device, double others) {
  if (device.atOnce <= 1)
    return 1;
  return device.rates.alone + (device.rates.together - device.rates.alone) * shareOfFullCompany(device, others);
}

Seconds hostDelay(const DeviceModel &device, double others) {
  return device.rates.host * (shareOfFullCompany(device, others) / std::max(1u, device.atOnce));
}

std::vector<double> othersAtWork(const wavefront::Problem &problem, const wavefront::Schedule &schedule) {
  std::vector<double> busy(problem.devices, 0), beside(problem.devices, 0);
  std::vector<int> working(problem.devices, 0);
  int64_t before = 0;
  uint32_t count = 0; // Devices that work.
  for (const Moment &moment : momentsOf(problem, schedule)) {
    auto passed = static_cast<double>(moment.ns - std::exchange(before, moment.ns));
    for (uint32_t device = 0; passed > 0 && device < problem.devices; ++device)
      if (working[device] > 0) {
        busy[device] += passed;
        beside[device] += passed * (count - 1);
      }
    int &tasks = working[moment.device]; // One that begins where another ends may be listed first.
    count -= tasks > 0;
    tasks += moment.begins ? 1 : -1;
    count += tasks > 0;
  }
  for (uint32_t device = 0; device < problem.devices; ++device)
    beside[device] = busy[device] > 0 ? beside[device] / busy[device] : 0;
  return beside;
}

void adaptToCompany(wavefront::Problem &problem, const Machine &machine, std::span<const double> others) {
  std::vector<uint8_t> seen(machine.devices, 0); // Whose delay a section's update has.
  for (wavefront::Section &section : problem.sections)
    for (size_t stage = 0; stage < section.stages.size(); ++stage) {
      double share = 0;
      Seconds delay(0);
      for (const std::vector<uint32_t> &replica : section.devices) {
        uint32_t device = replica[stage];
        share += shareOfTime(machine.device(device), others[device]);
        if (section.trains && !std::exchange(seen[device], uint8_t{1}))
          delay = std::max(delay, hostDelay(machine.device(device), others[device]));
      }
      share /= static_cast<double>(section.devices.size());
      for (wavefront::Cost *cost :
           {&section.stages[stage].forward, &section.stages[stage].backward, &section.stages[stage].weightGradient})
        scale(*cost, share);
      if (delay > Seconds(0))
        section.stages[stage].update.terms.push_back({std::llround(delay.value * 1e12), {}});
    }
}

} // namespace maestro::cost_models
