// What ranks share: memory, the way to stop together, the rings of edges, sums of gradients, small exchanges. Made
// before ranks start, from the plan alone.
#pragma once

#include "executor/core/topology.h"
#include "executor/world/channel.h"
#include "executor/world/exchange.h"
#include "executor/world/reduction.h"
#include "transport/abort.h"
#include "transport/local/board.h"
#include "transport/shared_memory.h"

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

namespace maestro::executor {

/// A sum of gradients that the plan asks for; between the first ranks of its stations, the second ranks, and so on.
struct ReductionGroup {
  std::vector<uint32_t> stations;   ///< Topology.stations: members, in the order in which they are added up.
  std::vector<uint32_t> parameters; ///< Plan.parameters
  std::optional<Reduction> reduction;
};

/// How a job that failed ends; beside the abort's cause, which carries text only.
struct SharedOutcome {
  std::atomic<int> code{0}; ///< StatusCode of the first failure.
};

/// What devices have done since the run began, in nanoseconds: their threads add, the root reads.
struct SharedTimes {
  std::atomic<int64_t> *stations = nullptr; ///< By Topology.stations: in tasks.
  std::atomic<int64_t> *devices = nullptr;  ///< By rank: in tasks, reductions and updates.
};

/// Pieces of parameters on their way to the rank that saves.
inline constexpr uint32_t kGatherSlots = 2;

/// What boards carry.
enum BoardKind : uint32_t { kCountsRecord, kEndRecord, kBoardKinds };

struct Wiring {
  std::unique_ptr<transport::SharedMemory> memory;
  std::optional<transport::Abort> abort;
  std::vector<Channel> channels; ///< By Topology.rings.
  std::vector<void *> gradients; ///< By station; null where nobody else needs them.
  std::vector<ReductionGroup> groups;
  std::vector<Exchange> exchanges;     ///< By the scheduler's device (Topology.deviceOf): of its ranks, where several.
  std::vector<uint32_t> trainingRanks; ///< Those with losses, something to train or to save, which
                                       ///< meet in every step.
  std::optional<transport::local::Board> board;
  SharedOutcome *outcome = nullptr;
  SharedTimes busyNs;
  std::optional<Channel> gather; ///< From all training ranks to the root; nothing where ranks are threads.

  /// The rank that saves and tells: the first that trains.
  uint32_t root() const { return trainingRanks.empty() ? 0 : trainingRanks.front(); }
};

struct WiringOptions {
  bool evaluates = false;
  uint64_t growth = 1;    ///< Of ring slots (--self-check).
  uint32_t epoch = 1;     ///< Of the run.
  bool processes = false; ///< Ranks will not see each other's devices.
  bool adapts = false;    ///< All ranks agree on measured times in every step.
};

Result<std::unique_ptr<Wiring>> makeWiring(const plan::Plan &plan, const Topology &topology,
                                           const WiringOptions &options);

} // namespace maestro::executor
