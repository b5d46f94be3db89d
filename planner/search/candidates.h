// Layouts while a search looks at them: whether they fit, and what a step takes, each simulated once.
#pragma once

#include "cost_models/simulations.h"
#include "planner/search/search_problem.h"

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace maestro::planner {

/// What a part of the search may still spend.
struct Allowance {
  uint32_t simulations = 0;
  uint64_t tasks = 0; ///< Simulated.
};

class Candidates {
public:
  /// The problem must outlive it.
  explicit Candidates(const SearchProblem &problem);

  /// What the fullest device of a layout lacks; 0: it fits. What lacks least of all is remembered (lack()).
  uint64_t missingBytes(const Layout &layout);
  bool fits(const Layout &layout) { return missingBytes(layout) == 0; }

  /// Simulations of the layouts, on as many processors as there are; known ones cost nothing. Null from where the
  /// allowance is spent, or the deadline has passed: a first layout is simulated whatever the deadline.
  Result<std::vector<const cost_models::Simulation *>> simulate(std::span<const Layout> layouts, wavefront::Order order,
                                                                Allowance &allowance);

  bool isOver();
  bool wasCutShort() const { return over; }
  uint32_t simulations() const { return static_cast<uint32_t>(known.size()); }
  /// All that were simulated in wavefront order, best first; equal ones in the order of layouts.
  std::vector<RankedLayout> ranked() const;

  /// The least that was found too much for a device: what it needs and has, and for which sections.
  struct Lack {
    uint64_t needs = 0, has = 0;
    std::string sections;
  };
  const Lack &lack() const { return leastLack; }

private:
  /// Layouts with the same cuts share it.
  std::shared_ptr<const CompoundModel> modelOf(const Layout &layout);
  std::string namesOnDevice(const CompoundLayout &choices, uint32_t device) const;

  struct Key { // Layouts that are placed alike are one.
    wavefront::Order order;
    std::vector<SectionCut> cuts;
    CompoundLayout choices;
    auto operator<=>(const Key &) const = default;
  };
  struct Known {
    Layout layout;
    cost_models::Simulation simulation;
  };

  const SearchProblem &problem;
  cost_models::Simulations simulator;
  cost_models::Simulator counter; ///< Of tasks.
  std::map<Key, Known> known;
  std::map<std::vector<SectionCut>, std::shared_ptr<const CompoundModel>> models; ///< Of late.
  bool over = false;
  Lack leastLack;
};

} // namespace maestro::planner
