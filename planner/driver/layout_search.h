// Layouts by search: trial emissions become a search problem, its answer becomes layouts and the reasons for them.
#pragma once

#include "planner/driver/atom_trials.h"
#include "planner/driver/default_layouts.h"
#include "planner/driver/step_sizes.h"
#include "planner/explain/explain.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace maestro::planner {

class LayoutSearch {
public:
  /// `base` says everything but programs and layouts; `graph` is of the graph that `makePrograms` cuts.
  /// Layouts are simulated with the steps of `sizes`, which must outlive it.
  LayoutSearch(const EmitInput &base, const Pins &pins, const AtomGraph &graph, const StepSizes &sizes,
               MakePrograms makePrograms)
      : base(base), pins(pins), graph(graph), sizes(sizes), makePrograms(std::move(makePrograms)) {
    problem.steps = sizes.steps;
  }

  /// Whether a part of a deadline is over; null: never.
  struct Limits {
    std::function<bool()> noMoreTrials;    ///< What was not measured by then is no choice.
    std::function<bool()> isOver;          ///< The search ends.
    std::function<bool()> isTooLateToTry;  ///< Alternatives and what-ifs are left out.
    std::function<bool()> isTooLateToTune; ///< The answer's schedules stay as they are found.
  };
  /// At most so many distinct layouts are kept.
  void limit(Limits limits, uint32_t topK);
  /// The search's problem, by the first trial. Before all that follows.
  Status collect();
  /// Searches on devices of at most `deviceBytes`. InvalidInput where nothing fits.
  Status run(uint64_t deviceBytes);
  /// What has become of the trials that were made since: with a failure of theirs nothing was found.
  Status trials() const { return problem.model.costs->status(); }

  /// What would help where nothing fits.
  std::string remedy() const;

  /// Of the answer, or of the next best ones (0: the answer): what to emit, by section.
  std::map<std::string, SectionLayout> layouts(size_t rank = 0) const;
  Result<mlir::OwningOpRef<mlir::ModuleOp>> programs(size_t rank = 0) const;
  size_t ranks() const { return result.ranked.size(); }
  /// The step as simulated on the emitted plan's own costs, for these layouts, and where its scheduling begins.
  Result<cost_models::Simulation> simulate(const EmittedPlan &emitted,
                                           const std::map<std::string, SectionLayout> &layouts) const;
  /// `own` is of the emitted plan.
  std::vector<Decision> decisions(size_t rank, const cost_models::Simulation &own) const;
  Result<Explanation> explanation(size_t rank, const cost_models::Simulation &own) const;
  /// A layout that the search does not know, and its step, beside the answer and the baselines, which obey no pins.
  std::vector<Candidate> beside(std::string layout, const cost_models::Simulation &own) const;
  const SearchResult &answer() const { return result; }

private:
  std::vector<int64_t> microBatchSizes() const;
  void addPins();

  EmitInput base;
  const Pins &pins;
  const AtomGraph &graph;
  const StepSizes &sizes;
  MakePrograms makePrograms;
  SearchProblem problem;
  Limits limits;
  size_t variantsLeft = 0;          ///< For which a deadline left no time.
  std::vector<int64_t> mostSamples; ///< By size of micro-batches: of a finer one (finer_sizes.h); 0.
  SearchResult result;
};

} // namespace maestro::planner
