#include "executor/core/stragglers.h"

#include <algorithm>

namespace maestro::executor {

void Stragglers::add(std::span<const double> busySeconds, std::span<const double> plannedSeconds) {
  devices.resize(busySeconds.size());
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    devices[rank].busy += busySeconds[rank];
    devices[rank].planned += plannedSeconds[rank];
  }
  if (++steps % kWindow == 0)
    compare();
}

void Stragglers::compare() {
  ratios.clear();
  for (const Device &device : devices)
    if (device.planned > 0)
      ratios.push_back(device.busy / device.planned);
  list.clear();
  if (ratios.size() < 2)
    return;
  auto middle = ratios.begin() + static_cast<ptrdiff_t>((ratios.size() - 1) / 2); // Of two the faster one.
  std::nth_element(ratios.begin(), middle, ratios.end());
  for (uint32_t rank = 0; rank < devices.size(); ++rank) {
    Device &device = devices[rank];
    double times = device.planned > 0 && *middle > 0 ? device.busy / device.planned / *middle : 0;
    device.failed = times >= kLimit ? device.failed + 1 : 0;
    if (device.failed >= kInARow)
      list.push_back({rank, times});
    device.busy = device.planned = 0;
  }
}

} // namespace maestro::executor
