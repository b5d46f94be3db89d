// Who is there: a plan's stations and the rings between them, and the scheduling problem that they pose.
#pragma once

#include "plan/plan.h"
#include "plan/plan_generated.h"
#include "wavefront/problem.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace maestro::executor {

/// One rank's part of a station of the plan: a tensor-parallel station of n ranks is n of these, one after the other,
/// which run the same tasks in the same order.
struct StationFacts {
  uint32_t section = 0, stage = 0, replica = 0;
  uint32_t executable = 0;          ///< Plan.executables
  uint32_t rank = 0;                ///< Plan.ranks
  uint32_t member = 0, members = 1; ///< Of the plan's station.
  /// The one that counts what all of them have, and sends what leaves.
  bool isLead() const { return member == 0; }
};

/// One end of an edge: the ring into which all its senders write.
struct RingFacts {
  uint32_t edge = 0; ///< Plan.edges
  bool gradient = false;
  uint32_t receiver = 0;         ///< Topology.stations
  std::vector<uint32_t> senders; ///< Likewise, leads; between stages of a section that of the same replica.
  uint32_t region = 0;           ///< Of the receiver's executable.
  uint32_t slots = 1;
  uint64_t slotBytes = 0;
  uint32_t mostPosts = 1; ///< Of one sender for one sequence.
};

class Topology {
public:
  explicit Topology(const plan::Plan &plan);

  std::vector<StationFacts> stations; ///< In the order of Plan.stations.
  std::vector<uint32_t> leads;        ///< By Plan.stations: the first of its parts.
  std::vector<uint32_t> deviceOf;     ///< By rank: the scheduler's device; one for all ranks that share stations.
  std::vector<RingFacts> rings;
  uint32_t ranks = 0;

  /// The lead.
  uint32_t stationAt(uint32_t section, uint32_t stage, uint32_t replica) const;
  /// The ring of an edge's end at a station; kNone when there is none.
  uint32_t ringAt(uint32_t edge, bool gradient, uint32_t receiver) const;
  const plan::fb::Executable &executable(uint32_t station) const;
  const plan::fb::Program *program(uint32_t station, plan::fb::ProgramKind kind) const;
  /// What a forward task runs: Forward, or Evaluate where nothing trains.
  const plan::fb::Program *forward(uint32_t station, bool evaluates) const;

private:
  void addStations();
  void addRings(uint32_t edge);
  void addRing(uint32_t edge, bool gradient, uint32_t receiver);
  std::span<const uint32_t> stationsOf(uint32_t section, uint32_t stage) const;

  using Index = std::map<uint64_t, uint32_t>; ///< By two numbers.
  static uint64_t key(uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; }

  const plan::Plan &plan;
  Index places; ///< Section and stage: index into stationsAt.
  std::vector<std::vector<uint32_t>> stationsAt;
  Index leadAt; ///< Place and replica.
  Index ringOf; ///< Edge and gradient (edge · 2 + gradient), and receiver.
};

struct ProblemOptions {
  bool evaluates = false; ///< Forward tasks only.
  bool onePiece = false;  ///< Micro-batches without limits (--self-check).
};

/// The problem of any step, without its samples.
wavefront::Problem makeProblem(const plan::Plan &plan, const Topology &topology, const ProblemOptions &options);

/// Costs times a factor.
void scale(wavefront::Cost &cost, const wavefront::Cost &from, double factor);
/// The same for all tasks and updates of a problem: what runs where devices sleep.
void scaleTasks(wavefront::Problem &problem, double factor);

/// Reduction and update at a step's end, of the device that takes longest.
int64_t longestUpdateNs(const wavefront::Problem &problem);

/// "student", "student stage 1 replica 0": for people.
std::string stationName(const plan::Plan &plan, const StationFacts &station);

} // namespace maestro::executor
