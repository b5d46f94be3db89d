// What ranks share: memory, the way to stop together, the rings of edges, sums of gradients, small exchanges. Made
// before ranks start, from the plan alone.
#pragma once

#include "executor/core/topology.h"
#include "transport/abort.h"
#include "transport/channel.h"
#include "transport/backend.h"
#include "transport/local/board.h"
#include "transport/local/reduction.h"
#include "transport/shared_memory.h"

#include <memory>
#include <optional>
#include <vector>

namespace maestro::executor {

/// Parameters whose gradients the same stations hold: replicas of a section, or stages and sections that share a weight.
struct ReductionGroup {
  std::vector<uint32_t> stations;   ///< Members, in the order in which they are added up.
  std::vector<uint32_t> parameters; ///< Plan.parameters
  std::optional<transport::local::Reduction> reduction;
};

struct Wiring {
  std::unique_ptr<transport::SharedMemory> memory;
  std::optional<transport::Abort> abort;
  std::unique_ptr<transport::Backend> backend;
  std::vector<transport::Channel> channels; ///< By Topology.rings.
  std::vector<void *> gradients;            ///< By station; null where nobody else needs them.
  std::vector<ReductionGroup> groups;
  std::vector<uint32_t> trainingRanks;      ///< Those with losses or something to train, which meet in every step.
  std::optional<transport::local::Board> board;
};

/// What boards carry.
enum BoardKind : uint32_t { kCountsRecord, kNormRecord, kBoardKinds };

struct WiringOptions {
  bool evaluates = false;
  uint64_t growth = 1; ///< Of ring slots (--self-check).
  uint32_t epoch = 1;  ///< Of the run.
};

Result<std::unique_ptr<Wiring>> makeWiring(const plan::Plan &plan, const Topology &topology, const WiringOptions &options);

} // namespace maestro::executor
