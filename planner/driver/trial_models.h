// From trial emissions to what the search works on: the costs and bytes of each section, read out of plans that are
// emitted for one device and thrown away, so that searching and emitting never disagree about a number.
#pragma once

#include "cost_models/compound.h"
#include "cost_models/simulator.h"
#include "planner/emit/emit_plan.h"

#include <map>
#include <string>
#include <vector>

namespace maestro::planner {

/// The sections of `input.sections`, one trial for each size of micro-batches. Layouts, devices and memory of `input`
/// do not matter.
Result<cost_models::CompoundModel> collectModel(EmitInput input, const std::vector<int64_t> &microBatches);

/// What a plan that was emitted for its devices costs, by its own programs.
struct EmittedModel {
  cost_models::CompoundModel model;
  cost_models::CompoundLayout layout;
};
/// With the layouts that it was emitted for.
Result<EmittedModel> readModel(const EmittedPlan &emitted, const std::map<std::string, SectionLayout> &layouts);

} // namespace maestro::planner
