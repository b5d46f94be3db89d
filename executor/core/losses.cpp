#include "executor/core/losses.h"

#include "plan/plan_generated.h"

#include <algorithm>

namespace maestro::executor {

double divisor(const plan::fb::Loss &loss, double count) {
  return loss.count_floor() > 0 ? std::max(count, loss.count_floor()) : count;
}

double weightedLoss(const plan::Plan &plan, const LossTotals &totals) {
  double loss = 0;
  for (uint32_t k = 0; k < plan->losses()->size(); ++k) {
    const plan::fb::Loss &own = *plan->losses()->Get(k);
    if (double count = divisor(own, totals.counts[k]); count != 0)
      loss += own.weight() * own.term_weight() * totals.sums[k] / count;
  }
  return loss;
}

void namedLosses(const plan::Plan &plan, const LossTotals &totals, std::vector<metrics::LossValue> &values) {
  size_t used = 0;
  for (uint32_t k = 0; k < plan->losses()->size(); ++k) {
    const plan::fb::Loss &loss = *plan->losses()->Get(k);
    double count = divisor(loss, totals.counts[k]),
           value = count != 0 ? loss.term_weight() * totals.sums[k] / count : 0.0;
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
