// Many layouts simulated on all processors. The answers are those of one Simulator, whatever the number of processors.
#pragma once

#include "cost_models/simulator.h"

#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace maestro::cost_models {

/// What Simulator::run() is asked.
struct SimulationQuestion {
  std::shared_ptr<const CompoundModel> model;
  const Machine *machine = nullptr;
  CompoundLayout layout;
  wavefront::Order order = wavefront::Order::Wavefront;
};

class Simulations {
public:
  /// As a Simulator's: `steps` must outlive it.
  Simulations(std::span<const SampleSizes> steps, uint64_t mostTasks, const std::vector<wavefront::Choice> &hints = {},
              int64_t maxNsPerTask = INT64_MAX);

  /// So many take as long as one.
  size_t atOnce() const { return simulators.size(); }
  /// Answers in the order of the questions.
  std::vector<Result<Simulation>> run(std::span<const SimulationQuestion> questions);

private:
  std::deque<Simulator> simulators; ///< By thread: each keeps its memory.
};

} // namespace maestro::cost_models
