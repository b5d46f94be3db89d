// Layouts of sections where nothing is searched: as pinned, else on all devices with a default size of micro-batches.
#pragma once

#include "planner/driver/pins.h"
#include "planner/emit/emit_plan.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace maestro::planner {

/// A section as the search sees it.
struct SectionFacts {
  std::string name;
  int64_t stages = 1, tensor = 1;
};

/// The size of micro-batches where it is neither pinned nor searched.
struct MicroBatchChoice {
  int64_t samples = 0;
  std::string reason;
};
MicroBatchChoice defaultMicroBatch(const GraphSummary &graph, int64_t globalBatch);

/// Layouts on `devices` devices: as pinned; else replicated over all of them. InvalidInput where pins contradict each
/// other or name devices that are not there.
Result<std::map<std::string, SectionLayout>> chooseLayouts(const std::vector<SectionFacts> &sections, const Pins &pins,
                                                           const GraphSummary &graph, int64_t globalBatch,
                                                           uint32_t devices);

} // namespace maestro::planner
