#include "planner/driver/plan_findings.h"

#include "planner/driver/step_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace maestro::planner {

namespace {

namespace fb = plan::fb;

/// The devices of each section.
std::vector<std::set<uint32_t>> devicesOf(const fb::PlanT &plan) {
  std::vector<std::set<uint32_t>> devices(plan.sections.size());
  for (const auto &station : plan.stations)
    for (uint32_t rank : station->ranks)
      devices[plan.executables[station->executable]->section].insert(plan.ranks[rank]->device);
  return devices;
}

/// Model FLOPs utilisation; where whole layers are computed again these operations count, too.
const char *utilizationName(bool again) { return again ? "hfu" : "mfu"; }

/// A section's operations, tokens and share of what its devices could do in the step, whoever else works there.
void addSectionWork(const StepWork &work, const cost_models::Machine &machine, const TrainSpec &train,
                    fb::PlanT &plan) {
  auto add = [&](std::string name, double value, const char *unit, std::string source) {
    fb::QuantityT &quantity = *plan.quantities.emplace_back(std::make_unique<fb::QuantityT>());
    quantity.name = std::move(name);
    quantity.value = value;
    quantity.unit = unit;
    quantity.source = std::move(source);
  };
  std::vector<std::set<uint32_t>> devices = devicesOf(plan);
  double step = plan.prediction->step_seconds, used = 0;
  bool again = false;
  for (size_t s = 0; s < plan.sections.size(); ++s) {
    const fb::SectionT &section = *plan.sections[s];
    bool narrow = std::any_of(section.components.begin(), section.components.end(), [&](uint32_t component) {
      return train.precisionFor(plan.components[component]->name) == DType::BF16;
    });
    double peak = 0;
    for (uint32_t device : devices[s])
      peak += machine.device(device).peakOf(narrow).value;
    add(section.name + ".flops", work.sections[s].flops, "FLOP",
        "counted: of a step's samples, without padding, what is computed again included");
    if (work.sections[s].tokens > 0 && step > 0)
      add(section.name + ".tokens_per_second", work.sections[s].tokens / step, "tokens/s",
          "a step's samples that take part, without padding, over the predicted step");
    if (peak <= 0 || step <= 0)
      continue;
    add(section.name + "." + utilizationName(section.layout->full_recompute),
        100 * work.sections[s].flops / (peak * step), "%",
        fmt::format(
            "its operations over what its {} devices multiply at most in {} in the predicted step{}, other sections' "
            "time there included{}",
            devices[s].size(), narrow ? "bf16" : "f32",
            machine.device(*devices[s].begin()).peak.value > 0 ? ", by data sheet" : "",
            section.layout->full_recompute ? "; layers that are computed again count" : ""));
    used += work.sections[s].flops / (peak / static_cast<double>(devices[s].size()) * step);
    again |= section.layout->full_recompute;
  }
  if (used > 0 && !plan.ranks.empty())
    add(std::string("step.") + utilizationName(again), 100 * used / static_cast<double>(plan.ranks.size()), "%",
        "all sections' operations over what the ranks' devices multiply at most in the predicted step");
}

void addPrediction(const PlanFindings &findings, const StepWork &work, fb::PlanT &plan) {
  fb::PredictionT &prediction = *plan.prediction;
  prediction.step_seconds = findings.stepSeconds.value_or(prediction.step_seconds);
  prediction.step_flops = work.flops;
  prediction.tokens_per_second = prediction.step_seconds > 0 ? work.tokens / prediction.step_seconds : 0;
}

void addExplanation(const Explanation &explanation, fb::PlanT &plan) {
  for (const Candidate &source : explanation.candidates) {
    fb::CandidateT &candidate = *plan.candidates.emplace_back(std::make_unique<fb::CandidateT>());
    candidate.kind = static_cast<fb::CandidateKind>(source.kind);
    candidate.subject = source.subject;
    candidate.choice = source.choice;
    candidate.step_seconds = source.stepSeconds;
    candidate.missing_bytes = source.missingBytes;
    candidate.in_file_order = source.inFileOrder;
    candidate.reason = source.reason;
  }
  for (const Limit &source : explanation.limits) {
    fb::LimitT &limit = *plan.limits.emplace_back(std::make_unique<fb::LimitT>());
    limit.kind = static_cast<fb::LimitKind>(source.kind);
    limit.place = source.place;
    limit.used = source.used;
    limit.limit = source.limit;
    limit.reason = source.reason;
  }
  for (const Quantity &source : explanation.quantities) {
    fb::QuantityT &quantity = *plan.quantities.emplace_back(std::make_unique<fb::QuantityT>());
    quantity.name = source.name;
    quantity.value = source.value;
    quantity.unit = source.unit;
    quantity.source = source.source;
  }
}

} // namespace

void addFindings(const PlanFindings &findings, const StepSizes &sizes, const cost_models::Machine &machine,
                 const TrainSpec &train, fb::PlanT &plan) {
  StepWork work = workOf(plan, sizes.steps);
  addPrediction(findings, work, plan);
  for (size_t i = 0; !sizes.data.empty() && i < sizes.steps.size(); ++i) {
    fb::StepSamplesT &samples = *plan.step_samples.emplace_back(std::make_unique<fb::StepSamplesT>());
    samples.sizes.assign(sizes.steps[i].begin(), sizes.steps[i].end());
  }
  addExplanation(findings.explanation, plan);
  addSectionWork(work, machine, train, plan);
  for (const Decision &source : findings.decisions)
    plan.decisions.push_back(decisionTable(source));
}

} // namespace maestro::planner
