// What emitted plans cost and hold, read out of their tables, so that searching and emitting never disagree about a
// number: trials, emitted for one device and thrown away, and the plan itself.
#pragma once

#include "cost_models/compound.h"
#include "cost_models/simulator.h"
#include "planner/driver/step_sizes.h"
#include "planner/emit/emit_plan.h"

#include <map>
#include <string>
#include <vector>

namespace maestro::planner {

/// The sections of `input.sections`, one trial for each size of micro-batches. Layouts, devices and memory of `input`
/// do not matter.
Result<cost_models::CompoundModel> trialModel(EmitInput input, const std::vector<int64_t> &microBatches);

/// The plan's step, simulated on the costs of its own programs, and where its scheduling begins. `layouts` are those
/// that it was emitted for, `simulator` is of `sizes.steps`.
Result<cost_models::Simulation> simulateEmitted(const EmittedPlan &emitted,
                                                const std::map<std::string, SectionLayout> &layouts,
                                                const cost_models::Machine &machine, const StepSizes &sizes,
                                                cost_models::Simulator &simulator, bool tunes);

} // namespace maestro::planner
