#include "executor/core/evaluation.h"

#include "base/log.h"
#include "base/system_failure.h"
#include "plan/plan_generated.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdio>

namespace maestro::executor {

Result<Evaluation> evaluate(const plan::Plan &plan, Job &job, data::SampleSource &source, data::SampleBatch &batch,
                            std::optional<uint64_t> steps) {
  Evaluation all;
  all.totals.sums.assign(plan->losses()->size(), 0);
  all.totals.counts.assign(plan->losses()->size(), 0);
  for (uint64_t done = 0; !all.stops && !(done > 0 && batch.endsPass) && !(steps && done >= *steps); ++done) {
    MAESTRO_TRY(source.next(plan->training()->global_batch(), batch));
    MAESTRO_ASSIGN(const StepResult *result, job.evaluate(batch));
    for (size_t k = 0; k < all.totals.sums.size(); ++k) {
      all.totals.sums[k] += result->totals.sums[k];
      all.totals.counts[k] += result->totals.counts[k];
    }
    all.samples += batch.count;
    all.tokens += result->tokens;
    all.stops = result->stops;
  }
  return all;
}

Status printEvaluation(const plan::Plan &plan, const Evaluation &evaluation) {
  std::vector<metrics::LossValue> values;
  namedLosses(plan, evaluation.totals, values);
  auto number = [](double value) { return std::isfinite(value) ? fmt::format("{:.9g}", value) : "null"; };
  std::string text = fmt::format("{{\"samples\": {}, \"loss\": {}, \"losses\": {{", evaluation.samples,
                                 number(weightedLoss(plan, evaluation.totals)));
  for (size_t i = 0; i < values.size(); ++i)
    text += fmt::format("{}\"{}\": {}", i ? ", " : "", escapeJson(values[i].name), number(values[i].value));
  if (std::printf("%s}}\n", text.c_str()) < 0 || std::fflush(stdout) != 0)
    return systemFailure("write", "standard output", errno);
  return Status();
}

} // namespace maestro::executor
