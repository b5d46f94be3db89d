// Which layout is best for a compound workload: the question and the answer, as plain data. README.md has the space
// that is searched and what is promised about the result.
#pragma once

#include "cost_models/simulator.h"
#include "planner/search/layout.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace maestro::planner {

/// What the user has fixed of one section's layout.
struct SearchPins {
  std::optional<uint32_t> dataParallel, stages;
  std::optional<uint32_t> microBatch;       ///< AtomicModel.microBatches
  std::optional<RecomputeChoice> recompute; ///< Chunks aside.
  std::optional<uint32_t> lossChunks;
  std::optional<uint32_t> splitStages; ///< The last ones; no more than there are.
  std::optional<std::vector<uint32_t>> devices;
  std::optional<uint32_t> moreInFlight;
  bool any() const {
    return dataParallel || stages || microBatch || recompute || lossChunks || splitStages || devices || moreInFlight;
  }
};

/// What a search may spend. Counted, never clocked, so that the same problem has the same answer everywhere.
struct SearchBudget {
  uint32_t simulations = 48;
  uint64_t tasks = UINT64_MAX;       ///< Simulated, of all simulations together.
  uint64_t tasksAtOnce = UINT64_MAX; ///< Of one simulation; larger ones are folded (cost_models/fold.h).
  int64_t nsPerTask = INT64_MAX;     ///< Of scheduling, at most, while layouts are ranked.
};

struct SearchProblem {
  AtomicModel model;
  cost_models::Machine machine;
  std::vector<SearchPins> pins;                ///< By section.
  std::vector<cost_models::SampleSizes> steps; ///< To simulate.
  SearchBudget budget;
  std::vector<wavefront::Choice> hints; ///< With which all schedules begin.
  std::vector<Layout> starts;           ///< Layouts that the search begins with, too.
  uint32_t topK = 1;                    ///< Distinct layouts to keep.
  bool baselinesLast = false;           ///< Baselines are looked at only where nothing else is found to fit.
  std::set<std::string> without;        ///< Moves that are left out (moves.h), to see what they bring.
  std::function<bool()> isOver;         ///< A deadline, asked between simulations; null: there is none.
  bool isNarrowed = false;              ///< Variants are missing that a deadline left no time to measure.
};

/// One line of the comparison.
struct ComparedLayout {
  std::string name; ///< "search", "all data parallel", "one layout for all", "static split", "pinned".
  std::string what; ///< The layout in words, or why there is none.
  bool possible = false;
  Layout layout;
  cost_models::Simulation simulation;
  bool inFileOrder = false;   ///< Simulated without regrouping and reordering.
  bool isWithoutPins = false; ///< For comparison only: it need not obey the pins, and may be faster than the answer.
};

/// A layout that was simulated.
struct RankedLayout {
  Layout layout;
  cost_models::Simulation simulation;
};

struct SearchResult {
  Layout layout;
  cost_models::Simulation simulation;
  std::string winner; ///< The name in `compared` whose layout it is.
  std::vector<ComparedLayout> compared;
  std::vector<RankedLayout> ranked;     ///< Distinct, best first, at most SearchProblem.topK; the first is the answer.
  std::vector<RankedLayout> simulated;  ///< All, best first.
  std::vector<wavefront::Choice> hints; ///< With which the schedules of all these simulations began.
  double lowerBoundSeconds = 0;         ///< No layout of the space is faster (lower_bound.h).
  bool wasCutShort = false;             ///< By SearchProblem.isOver.
  uint32_t simulations = 0;
};

/// Models, pins and samples that fit each other.
Status check(const SearchProblem &problem);
/// The layout obeys pins and memory, its step time is what a simulation of it says, no row that may be the answer is
/// better, and the lower bound is none of what was simulated.
Status verify(const SearchProblem &problem, const SearchResult &result);

/// Whether a section in so many stages can send gradients on before it computes those of its weights, if pins leave it
/// to.
bool mayGainBySplitting(const SearchProblem &problem, uint32_t section, size_t stages);
/// Likewise, in any number of stages that there may be.
bool mayGainBySplitting(const SearchProblem &problem, uint32_t section);
/// Whether the next larger size makes the same micro-batches of a section.
bool isRepeatedSize(const AtomicModel &model, uint32_t section, uint32_t microBatch);
/// Whether a section's option, on these devices, is as pinned.
bool obeys(const SearchPins &pins, const SectionOption &option, const cost_models::SectionChoice &placed);
bool obeys(const SearchProblem &problem, const Layout &layout);

} // namespace maestro::planner
