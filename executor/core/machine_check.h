// Whether this executor, on this machine, can do what a plan asks for.
#pragma once

#include "base/status.h"
#include "plan/plan.h"
#include "transport/rank_range.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace maestro::executor {

/// A failure that names the plan's file, value and limit, for devices and layouts that are not here.
Status checkMachine(const plan::Plan &plan, const std::string &path);

/// A machine of the job when the run begins, and the ranks that it has.
struct MachineShare {
  std::string name; ///< Empty: the only one.
  uint64_t usableBytes = 0, availableBytes = 0;
  uint32_t cores = 1;
  std::vector<transport::RankRange> ranks;

  static MachineShare here(std::vector<transport::RankRange> ranks);
  bool has(uint32_t rank) const;
  uint32_t rankCount() const;
  std::string onItsName() const { return name.empty() ? "" : " on '" + name + "'"; }
};

/// What the plan says of the machine's ranks, in the machine's own memory.
uint64_t neededBytes(const plan::Plan &plan, const MachineShare &machine);
/// InvalidInput where a machine's ranks need more memory than it has.
Status checkMemory(const plan::Plan &plan, const std::string &path, std::span<const MachineShare> machines);
/// Warns of more CPU devices than cores.
void warnOfSharedCores(const plan::Plan &plan, std::span<const MachineShare> machines);

} // namespace maestro::executor
