// Devices of one machine share its memory and its clock: a task takes less time while others do nothing. And those that
// work at the same time wait for the slowest; where no processor is left, they wait for the job's own threads, too.
// Programs are costed as when all work, each for itself, as they were measured; what company makes of that is here.
#pragma once

#include "cost_models/machine.h"
#include "wavefront/schedule.h"

#include <span>
#include <vector>

namespace maestro::cost_models {

/// Whether any kind of device takes another time alone, or together with others, than it was measured to take.
bool dependsOnCompany(const Machine &machine);

/// By device: how many others work while it does, on average over its tasks' time; 0 where it has none.
std::vector<double> othersAtWork(const wavefront::Problem &problem, const wavefront::Schedule &schedule);

/// How much longer a task takes beside so many others than it was measured: DeviceRates.alone beside none,
/// DeviceRates.together beside as many as then.
double shareOfTime(const DeviceModel &device, double others);

/// What a device waits in a step for a job's own threads (DeviceRates.host), beside so many others on average: they
/// take it from all processors alike, and what one thread of a device waits, all do. Where processors are idle, they
/// take those.
Seconds hostDelay(const DeviceModel &device, double others);

/// Multiplies the costs of each stage's tasks by that share, on average over its replicas' devices, and adds to the
/// first update of each device what it waits for the host; `others` by device.
void adaptToCompany(wavefront::Problem &problem, const Machine &machine, std::span<const double> others);

} // namespace maestro::cost_models
