// Devices of one machine share its memory and its clock: a task takes less time while others do nothing. Programs are costed as when all
// work, as they were measured; what a schedule leaves idle comes back here.
#pragma once

#include "cost_models/machine.h"
#include "executor/wavefront/schedule.h"

#include <span>
#include <vector>

namespace maestro::cost_models {

/// Whether any kind of device is faster alone than it was measured.
bool isFasterAlone(const Machine &machine);

/// By device: how many others work while it does, on average over its tasks' time; 0 where it has none.
std::vector<double> othersAtWork(const wavefront::Problem &problem, const wavefront::Schedule &schedule);

/// The part of a task's time that is left beside so many others: DeviceRates.alone beside none, 1 beside as many as when it was measured.
double shareOfTime(const DeviceModel &device, double others);

/// Multiplies the costs of each stage's tasks by what is left of them, on average over its replicas' devices; `others` by device.
void relieve(wavefront::Problem &problem, const Machine &machine, std::span<const double> others);

} // namespace maestro::cost_models
