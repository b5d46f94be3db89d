// What a step will take.
#include "planner/emit/emitter.h"

#include "cost_models/collectives.h"
#include "planner/emit/cost_polynomial.h"

#include <algorithm>
#include <cmath>

namespace maestro::planner {

namespace fb = plan::fb;

/// What follows a step's last gradient, by the simulator's own formulas.
void PlanEmitter::predictUpdate(const Stage &stage, fb::ExecutableT &executable) {
  cost_models::StageModel held;
  for (const auto &region : executable.regions) {
    held.parameters.gradients += region->kind == fb::RegionKind::Gradients ? region->bytes : 0;
    held.parameters.state += region->kind == fb::RegionKind::OptimizerState ? region->bytes : 0;
  }
  cost_models::Seconds seconds = cost_models::stepEndSeconds(held, replicaDevices(stage), input.machine);
  for (const auto &program : executable.programs)
    if (program->kind == fb::ProgramKind::Update)
      program->cost = toTerms({{{}, (seconds + overheads.add(devicesOf(stage), input.machine)).value * kPicoseconds}});
}

/// A step's time as the search found it, or if devices never wait: the busiest device's work, with all micro-batches
/// at the bounds.
void PlanEmitter::addPrediction() {
  std::vector<double> busy(input.machine.devices, 0);
  for (uint32_t e = 0; e < plan.executables.size(); ++e) {
    const fb::ExecutableT &executable = *plan.executables[e];
    const SectionLayout &layout = *stages[e].layout;
    double microBatches =
        std::ceil(static_cast<double>(input.workload->train.globalBatch) / static_cast<double>(layout.microBatch));
    const DimSizes &full = stages[e].limits.full();
    double seconds = 0;
    bool hasForward = std::any_of(executable.programs.begin(), executable.programs.end(),
                                  [](const auto &program) { return program->kind == fb::ProgramKind::Forward; });
    for (const auto &program : executable.programs) {
      bool runs = program->kind == fb::ProgramKind::Forward || program->kind == fb::ProgramKind::Backward ||
                  program->kind == fb::ProgramKind::WeightGradient ||
                  (program->kind == fb::ProgramKind::Evaluate && !hasForward);
      if (!runs)
        continue;
      for (const auto &term : program->cost) {
        double value = static_cast<double>(term->picoseconds) * 1e-12;
        for (uint32_t symbol : term->symbols)
          value *= static_cast<double>(full.at(plan.symbols[symbol]->name));
        seconds += value;
      }
    }
    for (size_t replica = 0; replica < layout.replicas(); ++replica)
      for (uint32_t device : layout.group(replica, executable.stage))
        busy[device] += seconds * microBatches / static_cast<double>(layout.replicas());
  }
  plan.prediction = std::make_unique<fb::PredictionT>();
  plan.prediction->step_seconds = *std::max_element(busy.begin(), busy.end());
}

} // namespace maestro::planner
