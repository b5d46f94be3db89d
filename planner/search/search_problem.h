// Which layout is best for a compound workload: the question and the answer, as plain data. README.md has the space
// that is searched and what is promised about the result.
#pragma once

#include "cost_models/atoms.h"
#include "cost_models/simulator.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace maestro::planner {

using cost_models::AtomicModel;
using cost_models::CompoundLayout;
using cost_models::CompoundModel;
using cost_models::SectionChoice;
using cost_models::SectionCut;

/// How one section runs. A further dimension of layouts (tensor, context, expert, ZeRO) is a field here, enumerated by
/// CutTable and optionsOf(), with its costs in the atoms' classes.
struct LayoutOption {
  SectionCut cut;                             ///< Pipeline stages, and what backward computes again.
  uint32_t microBatch = 0;                    ///< AtomicModel.microBatches
  std::vector<std::vector<uint32_t>> devices; ///< replica × stage
  uint32_t moreInFlight = 0;                  ///< Micro-batches, beside the usual ones (cost_models/in_flight.h).
  auto operator<=>(const LayoutOption &) const = default;
};
/// What is tried of LayoutOption.moreInFlight, the least first.
inline constexpr uint32_t kMoreInFlight[] = {2, 16};
using Layout = std::vector<LayoutOption>; ///< By AtomicModel.sections.

/// What the user has fixed of one section's layout.
struct SearchPins {
  std::optional<uint32_t> dataParallel, stages;
  std::optional<uint32_t> microBatch; ///< AtomicModel.microBatches
  std::optional<RecomputeChoice> recompute;
  std::optional<uint32_t> splitStages; ///< The last ones; no more than there are.
  std::optional<std::vector<uint32_t>> devices;
  std::optional<uint32_t> moreInFlight;
  bool any() const {
    return dataParallel || stages || microBatch || recompute || splitStages || devices || moreInFlight;
  }
};

/// What a search may spend. Counted, never clocked, so that the same problem has the same answer everywhere.
struct SearchBudget {
  uint32_t simulations = 48;       ///< Of the search proper; each baseline has a quarter of it.
  uint64_t tasks = UINT64_MAX;     ///< Simulated by the search proper; likewise.
  uint64_t mostTasks = UINT64_MAX; ///< Of one simulation; larger ones are folded (cost_models/fold.h).
  uint32_t nodes = 100'000;        ///< Partial layouts that are looked at; likewise.
  uint32_t finalists = 0; ///< At scale: layouts of nearly the best step whose schedules are tuned, as the plan's will
                          ///< be; 0: none, and there is no second search.
};

struct SearchProblem {
  AtomicModel model;
  cost_models::Machine machine;
  std::vector<SearchPins> pins;                ///< By section.
  std::vector<cost_models::SampleSizes> steps; ///< To simulate.
  SearchBudget budget;
  std::vector<wavefront::Choice> hints; ///< With which all schedules begin.
  std::vector<Layout> starts;           ///< At scale: layouts that are looked at, too, and near which it is looked.
  uint32_t topK = 1;                    ///< Distinct layouts to keep.
  bool baselinesLast = false;           ///< Baselines are looked at only where nothing else is found to fit.
  std::function<bool()> isOver;         ///< A deadline, asked between candidates; null: there is none.
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
  std::optional<cost_models::Simulation>
      tuned;                    ///< Of the layout, with schedules tuned for it; nothing where none were.
  double lowerBoundSeconds = 0; ///< No layout of the space is faster.
  bool isProven = false;        ///< Nothing was left out: the layout is the best of the space.
  bool wasCutShort = false;     ///< By SearchProblem.isOver.
  uint64_t nodes = 0;
  uint32_t simulations = 0;
};

/// Models, pins and samples that fit each other.
Status check(const SearchProblem &problem);
/// The layout obeys pins and memory, its step time is what a simulation of it says, and no row that may be the answer
/// is better.
Status verify(const SearchProblem &problem, const SearchResult &result);

/// Whether a section in so many stages can send gradients on before it computes those of its weights, if pins leave it
/// to.
bool mayGainBySplitting(const SearchProblem &problem, uint32_t section, size_t stages);

/// Of all its stages and replicas, each once.
std::set<uint32_t> devicesOf(const LayoutOption &option);
/// The stages and devices of a layout, for simulation and memory.
CompoundModel modelOf(const SearchProblem &problem, const Layout &layout);
CompoundLayout choicesOf(const Layout &layout);
/// Whether every device holds what the layout puts there.
bool fits(const SearchProblem &problem, const CompoundModel &model, const CompoundLayout &layout);
bool obeys(const SearchPins &pins, const LayoutOption &option);

/// "16 samples", "64 samples, 16,384 padded tokens": what one micro-batch holds at most.
std::string describe(const cost_models::MicroBatchCapacity &capacity);
/// "0-2,5": numbers in order, each once.
std::string ranges(std::vector<uint32_t> numbers);
/// "teacher 2 on 0-1 in 4s; student 1 x 2 stages on 2-3 in 1s": replicas, devices, most samples of a micro-batch.
std::string describe(const AtomicModel &model, const Layout &layout);

} // namespace maestro::planner
