#include "executor/core/losses.h"

#include "plan/plan_generated.h"

namespace maestro::executor {

double weightedLoss(const plan::Plan &plan, const LossTotals &totals) {
  double loss = 0;
  for (uint32_t k = 0; k < plan->losses()->size(); ++k)
    if (totals.counts[k] != 0)
      loss += plan->losses()->Get(k)->weight() * plan->losses()->Get(k)->term_weight() * totals.sums[k] /
              totals.counts[k];
  return loss;
}

void namedLosses(const plan::Plan &plan, const LossTotals &totals, std::vector<metrics::LossValue> &values) {
  size_t used = 0;
  for (uint32_t k = 0; k < plan->losses()->size(); ++k) {
    const plan::fb::Loss &loss = *plan->losses()->Get(k);
    double value = totals.counts[k] != 0 ? loss.term_weight() * totals.sums[k] / totals.counts[k] : 0.0;
    bool continues = used > 0 && values[used - 1].name == loss.name()->string_view();
    if (continues) {
      values[used - 1].value += value;
      continue;
    }
    if (values.size() == used)
      values.push_back({loss.name()->str(), 0});
    values[used++].value = value;
  }
}

} // namespace maestro::executor
