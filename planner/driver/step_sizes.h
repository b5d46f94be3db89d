// The sizes of the samples that plans are simulated with, and where these are from: a data set's headers, else what the
// workload declares of its synthetic data, else the bounds.
#pragma once

#include "cost_models/simulator.h"
#include "planner/driver/data_sizes.h"
#include "planner/emit/emit_plan.h"
#include "planner/explain/explain.h"

#include <vector>

namespace maestro::planner {

struct StepSizes {
  std::vector<cost_models::SampleSizes> steps; ///< By GraphSummary.dims, which are the models' dims.
  std::vector<cost_models::SampleSizes>
      others;                       ///< Where `steps` is one that is as typical as can be: some as they come.
  std::vector<Quantity> quantities; ///< "sizes.seq.mean", ".most" and ".bound", with their sources.
  std::vector<std::string> notes;   ///< Bounds that the data lowered, for people.
  std::string data;                 ///< DataSizes.what; empty: none was read.
};

/// Asks `read`, where there is one. Sizes that no field tells are as declared; dims that are not declared are at their
/// bound, or one row. Several steps where sizes vary: of data, stretches of its order, from equally distant places. Of
/// many samples one step, typical where it is drawn. Lowers bounds that models alone say to what all of the data has.
/// Fills in the dims' typical rows, the mean over samples that have any (1 where nothing is known), and how many have
/// any.
Result<StepSizes> stepSizes(const Workload &workload, GraphSummary &graph, const ReadSizes &read);

} // namespace maestro::planner
