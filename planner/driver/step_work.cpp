#include "planner/driver/step_work.h"

#include "plan/dims.h"
#include "plan/plan_generated.h"

#include <algorithm>
#include <vector>

namespace maestro::planner {
namespace {

namespace fb = plan::fb;

/// The tasks of an executable in a step of training.
struct StageWork {
  const fb::SectionT *section = nullptr;
  std::vector<size_t> flops; ///< Into the expressions that are evaluated.
};

bool isTaskOf(const fb::ExecutableT &executable, fb::ProgramKind kind) {
  switch (kind) {
  case fb::ProgramKind::Forward:
  case fb::ProgramKind::Backward:
  case fb::ProgramKind::WeightGradient:
    return true;
  case fb::ProgramKind::Evaluate:
    return std::none_of(executable.programs.begin(), executable.programs.end(),
                        [](const auto &other) { return other->kind == fb::ProgramKind::Forward; });
  default:
    return false;
  }
}

bool takesPart(const fb::SectionT &section, std::span<const int64_t> sample) {
  return std::all_of(section.active.begin(), section.active.end(), [&](uint32_t symbol) { return sample[symbol] > 0; });
}

int64_t tokensOf(const fb::PlanT &plan, std::span<const int64_t> sample) {
  int64_t longest = 0;
  for (uint32_t symbol = 0; symbol < sample.size(); ++symbol)
    if (plan.symbols[symbol]->combine == fb::Combine::Max)
      longest = std::max({longest, sample[symbol], int64_t{1}});
  return longest;
}

} // namespace

StepWork workOf(const fb::PlanT &plan, std::span<const cost_models::SampleSizes> steps) {
  std::vector<uint32_t> exprs;
  std::vector<StageWork> stages;
  for (const auto &executable : plan.executables) {
    StageWork &stage = stages.emplace_back(StageWork{plan.sections[executable->section].get(), {}});
    for (const auto &program : executable->programs)
      if (isTaskOf(*executable, program->kind)) {
        stage.flops.push_back(exprs.size());
        exprs.push_back(program->flops);
      }
  }
  plan::DimSubset dims(plan.exprs, exprs);
  size_t width = plan.symbols.size();
  StepWork work;
  for (const cost_models::SampleSizes &step : steps)
    for (size_t at = 0; width > 0 && at + width <= step.size(); at += width) {
      std::span<const int64_t> sample(step.data() + at, width), values = dims.evaluate(sample);
      work.tokens += static_cast<double>(tokensOf(plan, sample));
      for (const StageWork &stage : stages)
        for (size_t flops : stage.flops)
          if (takesPart(*stage.section, sample) && values[flops] != plan::DimTable::kUndefined)
            work.flops += static_cast<double>(values[flops]) * stage.section->layout->tensor_parallel;
    }
  auto count = static_cast<double>(std::max<size_t>(1, steps.size()));
  return {work.flops / count, work.tokens / count};
}

} // namespace maestro::planner
