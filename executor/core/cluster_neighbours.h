// Processes of the same machine: which pairs write into each other's memory.
#pragma once

#include "executor/core/world.h"
#include "transport/control/control.h"
#include "transport/rank_range.h"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace maestro::executor {

/// Processes with which this one has something to do, and their ranks.
using PeerRanks = std::map<uint32_t, transport::RankRange>;

class Neighbours {
public:
  Neighbours(transport::Control &control, const PeerRanks &peers, World &world)
      : control(control), peers(peers), world(world) {}

  /// By all processes. A pair shares memory where each can open the other's; the world knows it afterwards.
  Status find();

  // ---- when all have found theirs

  /// Those that are to be reached otherwise.
  PeerRanks others() const;
  bool hasPairs() const { return pairsAnywhere; }    ///< Of all processes.
  bool hasOthers() const { return othersAnywhere; }  ///< Of all processes.
  const std::string &why() const { return refusal; } ///< Why neighbours do not share memory; empty: all do.

private:
  struct Neighbour {
    transport::NeighbourCard card;
    std::unique_ptr<transport::SharedMemory> memory;
  };
  Status open(uint32_t process, transport::RankRange ranks, std::span<const std::byte> card);
  Status agree();

  transport::Control &control;
  const PeerRanks &peers;
  World &world;
  std::map<uint32_t, Neighbour> opened;
  std::set<uint32_t> shared; ///< Processes.
  bool pairsAnywhere = false, othersAnywhere = false;
  std::string refusal;
};

} // namespace maestro::executor
