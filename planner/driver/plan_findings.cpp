#include "planner/driver/plan_findings.h"

#include "planner/driver/step_work.h"

namespace maestro::planner {

namespace {

namespace fb = plan::fb;

void addPrediction(const PlanFindings &findings, const StepSizes &sizes, fb::PlanT &plan) {
  StepWork work = workOf(plan, sizes.steps);
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

void addFindings(const PlanFindings &findings, const StepSizes &sizes, fb::PlanT &plan) {
  addPrediction(findings, sizes, plan);
  for (size_t i = 0; !sizes.data.empty() && i < sizes.steps.size(); ++i) {
    fb::StepSamplesT &samples = *plan.step_samples.emplace_back(std::make_unique<fb::StepSamplesT>());
    samples.sizes.assign(sizes.steps[i].begin(), sizes.steps[i].end());
  }
  addExplanation(findings.explanation, plan);
  for (const Decision &source : findings.decisions)
    plan.decisions.push_back(decisionTable(source));
}

} // namespace maestro::planner
