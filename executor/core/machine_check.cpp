#include "executor/core/machine_check.h"

#include "base/log.h"
#include "base/machine_memory.h"
#include "executor/core/rank_device.h"
#include "plan/plan_generated.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace maestro::executor {
namespace {

namespace fb = plan::fb;

/// A layout that nothing implements would be trained as if it were not there.
Status checkLayouts(const plan::Plan &plan, const std::string &path) {
  for (const fb::Section *section : *plan->sections()) {
    const fb::Layout &layout = *section->layout();
    auto limit = [&](const char *what, uint32_t value, uint32_t most) {
      return value <= most
                 ? Status()
                 : Status::invalidInput(fmt::format("{}: section '{}' has {} {}, and this executor implements {} only; "
                                                    "plan again without it",
                                                    path, section->name()->string_view(), what, value, most));
    };
    MAESTRO_TRY(limit("zero_stage", layout.zero_stage(), 0));
    MAESTRO_TRY(limit("context_parallel", layout.context_parallel(), 1));
    MAESTRO_TRY(limit("expert_parallel", layout.expert_parallel(), 1));
  }
  return Status();
}

} // namespace

Status checkMachine(const plan::Plan &plan, const std::string &path) {
  MAESTRO_TRY(checkDeviceKind(plan, path));
  return checkLayouts(plan, path);
}

MachineShare MachineShare::here(std::vector<transport::RankRange> ranks) {
  return {"", usableMemoryBytes(), availableMemoryBytes(), std::max(1u, std::thread::hardware_concurrency()),
          std::move(ranks)};
}

bool MachineShare::has(uint32_t rank) const {
  return std::any_of(ranks.begin(), ranks.end(), [&](const transport::RankRange &range) { return range.has(rank); });
}

uint32_t MachineShare::rankCount() const {
  uint32_t count = 0;
  for (const transport::RankRange &range : ranks)
    count += range.count();
  return count;
}

/// CPU devices are shares of the machine; what a GPU has, it says when it is opened.
uint64_t neededBytes(const plan::Plan &plan, const MachineShare &machine) {
  uint64_t needed = 0;
  if (haveOwnMemory(plan))
    return needed;
  for (uint32_t rank = 0; rank < plan->ranks()->size(); ++rank)
    needed += machine.has(rank) ? plan->ranks()->Get(rank)->peak_bytes() : 0;
  for (const fb::Station *station : *plan->stations()) // Where ranks say nothing.
    for (uint32_t rank : *station->ranks())
      if (machine.has(rank) && plan->ranks()->Get(rank)->peak_bytes() == 0)
        needed += plan->executables()->Get(station->executable())->peak_bytes();
  return needed;
}

Status checkMemory(const plan::Plan &plan, const std::string &path, std::span<const MachineShare> machines) {
  for (const MachineShare &machine : machines)
    if (uint64_t needed = neededBytes(plan, machine); needed > machine.usableBytes)
      return Status::invalidInput(fmt::format(
          "{}: the plan needs {} bytes of memory{}, {} has {} (its control group's limit "
          "included); plan again with a smaller micro-batch, or run it on the machine it was made for",
          path, needed, machine.onItsName(), machine.name.empty() ? "this machine" : "which", machine.usableBytes));
  return Status();
}

void warnOfSharedCores(const plan::Plan &plan, std::span<const MachineShare> machines) {
  if (haveOwnMemory(plan))
    return;
  for (const MachineShare &machine : machines)
    if (uint32_t devices = machine.rankCount(); devices > machine.cores)
      return logWarning(fmt::format("{} devices share {} cores{}; times say little about the plan", devices,
                                    machine.cores, machine.onItsName()));
}

} // namespace maestro::executor
