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
  const fb::Section *section = nullptr;
  std::vector<size_t> flops; ///< Into the expressions that are evaluated.
};

bool isTaskOf(const fb::Executable &executable, const fb::Program &program) {
  auto has = [&](fb::ProgramKind kind) {
    return std::any_of(executable.programs()->begin(), executable.programs()->end(),
                       [&](const fb::Program *other) { return other->kind() == kind; });
  };
  switch (program.kind()) {
  case fb::ProgramKind::Forward:
  case fb::ProgramKind::Backward:
  case fb::ProgramKind::WeightGradient:
    return true;
  case fb::ProgramKind::Evaluate:
    return !has(fb::ProgramKind::Forward);
  default:
    return false;
  }
}

bool takesPart(const fb::Section &section, std::span<const int64_t> sample) {
  return !section.active() || std::all_of(section.active()->begin(), section.active()->end(),
                                          [&](uint32_t symbol) { return sample[symbol] > 0; });
}

int64_t tokensOf(const fb::Plan &plan, std::span<const int64_t> sample) {
  int64_t longest = 0;
  for (uint32_t symbol = 0; symbol < sample.size(); ++symbol)
    if (plan.symbols()->Get(symbol)->combine() == fb::Combine::Max)
      longest = std::max({longest, sample[symbol], int64_t{1}});
  return longest;
}

} // namespace

StepWork workOf(const fb::Plan &plan, std::span<const cost_models::SampleSizes> steps) {
  std::vector<uint32_t> exprs;
  std::vector<StageWork> stages;
  for (const fb::Executable *executable : *plan.executables()) {
    StageWork &stage = stages.emplace_back(StageWork{plan.sections()->Get(executable->section()), {}});
    for (const fb::Program *program : *executable->programs())
      if (isTaskOf(*executable, *program)) {
        stage.flops.push_back(exprs.size());
        exprs.push_back(program->flops());
      }
  }
  plan::DimSubset dims(plan, exprs);
  size_t width = plan.symbols()->size();
  StepWork work;
  for (const cost_models::SampleSizes &step : steps)
    for (size_t at = 0; width > 0 && at + width <= step.size(); at += width) {
      std::span<const int64_t> sample(step.data() + at, width), values = dims.evaluate(sample);
      work.tokens += static_cast<double>(tokensOf(plan, sample));
      for (const StageWork &stage : stages)
        for (size_t flops : stage.flops)
          if (takesPart(*stage.section, sample) && values[flops] != plan::DimTable::kUndefined)
            work.flops += static_cast<double>(values[flops]) * stage.section->layout()->tensor_parallel();
    }
  auto count = static_cast<double>(std::max<size_t>(1, steps.size()));
  return {work.flops / count, work.tokens / count};
}

} // namespace maestro::planner
