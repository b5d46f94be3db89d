// Layouts while a search looks at them: whether they fit, and what a step takes, each simulated once.
#pragma once

#include "cost_models/simulations.h"
#include "planner/search/search_problem.h"

#include <map>
#include <memory>
#include <utility>

namespace maestro::planner {

/// What a search may still spend.
struct Allowance {
  uint32_t simulations = 0;
  uint64_t tasks = 0;
  uint64_t nodes = 0; ///< Partial layouts.
  bool isSpent() const { return simulations == 0 || tasks == 0; }
};

class Candidates {
public:
  explicit Candidates(const SearchProblem &problem)
      : problem(problem), simulator(problem.steps, problem.budget.mostTasks, problem.hints),
        several(problem.steps, problem.budget.mostTasks, problem.hints) {}

  /// Notes what lacks where it does not.
  bool fits(const Layout &layout);
  /// What lacks most, and the sections on that device; none: it fits.
  struct Excess {
    uint64_t bytes = 0;
    std::vector<uint32_t> sections;
  };
  Excess excess(const Layout &layout);
  /// Simulated, or known; takes from the allowance what that costs.
  Result<const cost_models::Simulation *> simulate(const Layout &layout, wavefront::Order order, Allowance &allowance);
  /// So many are worth to be simulated ahead at a time.
  size_t atOnce() const { return several.atOnce(); }
  /// Simulates, on as many processors as there are, what simulate() will be asked: those that are not known yet. No
  /// allowance pays for it before that, and what is never asked is as if it had not been done.
  void simulateAhead(std::span<const Layout> layouts, wavefront::Order order);
  /// The scheduler's lower bound of the mean step's tasks, where steps wait for each other.
  Result<double> tasksBound(const Layout &layout);
  /// What a simulation would take from an allowance.
  uint64_t tasks(const Layout &layout);

  /// Once something was simulated: a deadline too short for more leaves that.
  bool isOver() { return over = over || (count > 0 && problem.isOver && problem.isOver()); }
  bool wasCutShort() const { return over; }
  uint32_t simulations() const { return count; }
  /// All that were simulated as they would run, best first; equal ones in the order of layouts.
  std::vector<RankedLayout> ranked() const;

  /// The least that was found too much for a device: what it needs and has, and for what.
  struct Lack {
    uint64_t needs = 0, has = 0;
    std::string sections;
  };
  const Lack &lack() const { return leastLack; }
  void noteLack(uint64_t needs, uint64_t has, std::string sections);

private:
  /// Layouts with the same cuts share it, and each is asked for several times.
  std::shared_ptr<const CompoundModel> modelOf(const Layout &layout);

  const SearchProblem &problem;
  using Key = std::pair<wavefront::Order, Layout>;
  cost_models::Simulator simulator;
  cost_models::Simulations several;
  std::map<Key, cost_models::Simulation> known;
  std::map<Key, Result<cost_models::Simulation>> ahead;
  std::map<std::vector<SectionCut>, std::shared_ptr<const CompoundModel>> models; ///< Of late.
  uint32_t count = 0;
  bool over = false;
  Lack leastLack;
};

} // namespace maestro::planner
