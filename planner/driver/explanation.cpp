#include "planner/driver/explanation.h"

namespace maestro::planner {

namespace fb = plan::fb;

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

} // namespace maestro::planner
