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
  uint32_t section = 0;
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

/// By section and symbol: whether it is a padded one that bounds the section's work.
std::vector<std::vector<bool>> paddedSymbols(const fb::PlanT &plan) {
  std::vector<std::vector<bool>> padded(plan.sections.size(), std::vector<bool>(plan.symbols.size(), false));
  for (const auto &executable : plan.executables)
    for (const auto &bound : executable->bounds)
      padded[executable->section][bound->symbol] = plan.symbols[bound->symbol]->combine == fb::Combine::Max;
  return padded;
}

int64_t longestOf(const std::vector<bool> &padded, std::span<const int64_t> sample) {
  int64_t longest = 0;
  for (uint32_t symbol = 0; symbol < sample.size(); ++symbol)
    if (padded[symbol])
      longest = std::max({longest, sample[symbol], int64_t{1}});
  return longest;
}

} // namespace

StepWork workOf(const fb::PlanT &plan, std::span<const cost_models::SampleSizes> steps) {
  std::vector<uint32_t> exprs;
  std::vector<StageWork> stages;
  for (const auto &executable : plan.executables) {
    StageWork &stage = stages.emplace_back(StageWork{executable->section, {}});
    for (const auto &program : executable->programs)
      if (isTaskOf(*executable, program->kind)) {
        stage.flops.push_back(exprs.size());
        exprs.push_back(program->flops);
      }
  }
  plan::DimSubset dims(plan.exprs, exprs);
  size_t width = plan.symbols.size();
  std::vector<bool> allPadded;
  for (const auto &symbol : plan.symbols)
    allPadded.push_back(symbol->combine == fb::Combine::Max);
  std::vector<std::vector<bool>> padded = paddedSymbols(plan);
  auto share = 1 / static_cast<double>(std::max<size_t>(1, steps.size()));
  StepWork work;
  work.sections.resize(plan.sections.size());
  for (const cost_models::SampleSizes &step : steps)
    for (size_t at = 0; width > 0 && at + width <= step.size(); at += width) {
      std::span<const int64_t> sample(step.data() + at, width), values = dims.evaluate(sample);
      work.tokens += static_cast<double>(longestOf(allPadded, sample)) * share;
      for (uint32_t s = 0; s < plan.sections.size(); ++s)
        if (takesPart(*plan.sections[s], sample))
          work.sections[s].tokens += static_cast<double>(longestOf(padded[s], sample)) * share;
      for (const StageWork &stage : stages)
        for (size_t flops : stage.flops)
          if (const fb::SectionT &section = *plan.sections[stage.section];
              takesPart(section, sample) && values[flops] != plan::DimTable::kUndefined)
            work.sections[stage.section].flops +=
                static_cast<double>(values[flops]) * section.layout->tensor_parallel * share;
    }
  for (const SectionWork &own : work.sections)
    work.flops += own.flops;
  return work;
}

} // namespace maestro::planner
