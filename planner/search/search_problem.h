// Which layout is best for a compound workload: the question and the answer, as plain data. README.md has the space that
// is searched and what is promised about the result.
#pragma once

#include "cost_models/compound.h"
#include "cost_models/simulator.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maestro::planner {

using cost_models::CompoundLayout;
using cost_models::CompoundModel;
using cost_models::SectionChoice;

/// What the user has fixed of one section's layout.
struct SearchPins {
  std::optional<uint32_t> dataParallel, stages;
  std::optional<uint32_t> microBatch; ///< CompoundModel.microBatches
  std::optional<std::vector<uint32_t>> devices;
};

/// What a search may spend. Counted, never clocked, so that the same problem has the same answer everywhere.
struct SearchBudget {
  uint32_t simulations = 48; ///< Of the search proper; each baseline has a quarter of it.
  uint32_t nodes = 100'000;  ///< Partial layouts that are looked at.
};

struct SearchProblem {
  /// The same sections cut into different numbers of stages; all with the same dims and sizes of micro-batches.
  std::vector<CompoundModel> models;
  cost_models::Machine machine;
  std::vector<SearchPins> pins; ///< By section.
  std::vector<cost_models::SampleSizes> steps; ///< To simulate.
  SearchBudget budget;
};

/// One line of the comparison.
struct ComparedLayout {
  std::string name; ///< "search", "all data parallel", "one layout for all", "static split".
  std::string what; ///< The layout in words, or why there is none.
  bool possible = false;
  uint32_t model = 0; ///< SearchProblem.models
  CompoundLayout layout;
  cost_models::Simulation simulation;
  bool inFileOrder = false; ///< Simulated without regrouping and reordering.
};

struct SearchResult {
  uint32_t model = 0;
  CompoundLayout layout;
  cost_models::Simulation simulation;
  std::string winner; ///< The name in `compared` whose layout it is.
  std::vector<ComparedLayout> compared;
  double lowerBoundSeconds = 0; ///< No layout of the space is faster.
  bool isProven = false;        ///< Nothing was left out: the layout is the best of the space.
  uint64_t nodes = 0;
  uint32_t simulations = 0;
};

/// Models that fit each other and samples; pins of what is there.
Status check(const SearchProblem &problem);
/// The layout obeys pins and memory, its step time is what a simulation of it says, and no row is better.
Status verify(const SearchProblem &problem, const SearchResult &result);

/// "0-2,5": numbers in order, each once.
std::string ranges(std::vector<uint32_t> numbers);
/// "teacher 2 on 0-1 in 4s; student 1 x 2 stages on 2-3 in 1s": replicas, devices, most samples of a micro-batch.
std::string describe(const CompoundModel &model, const CompoundLayout &layout);

} // namespace maestro::planner
