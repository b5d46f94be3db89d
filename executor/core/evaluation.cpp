#include "executor/core/evaluation.h"

#include "base/log.h"
#include "base/system_failure.h"
#include "plan/plan_generated.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdio>

namespace maestro::executor {

namespace {
/// Values come while the batch before is evaluated.
Result<data::SampleBatch *> beginBatch(const plan::Plan &plan, Job &job, data::SampleSource &source) {
  MAESTRO_ASSIGN(data::SampleBatch * batch, source.next(plan->training()->global_batch()));
  job.prepareEvaluation(*batch);
  source.read(*batch);
  return batch;
}
} // namespace

Result<Evaluation> evaluate(const plan::Plan &plan, Job &job, data::SampleSource &source,
                            std::optional<uint64_t> steps) {
  Evaluation all;
  all.totals.sums.assign(plan->losses()->size(), 0);
  all.totals.counts.assign(plan->losses()->size(), 0);
  Result<data::SampleBatch *> next = beginBatch(plan, job, source);
  for (uint64_t begun = 1; !all.stops;) {
    MAESTRO_ASSIGN(const data::SampleBatch *batch, std::move(next));
    MAESTRO_TRY(source.await(*batch));
    bool isLast = batch->endsPass || (steps && begun >= *steps);
    if (!isLast) {
      next = beginBatch(plan, job, source);
      ++begun;
    }
    MAESTRO_ASSIGN(const StepResult *result, job.evaluate(*batch));
    for (size_t k = 0; k < all.totals.sums.size(); ++k) {
      all.totals.sums[k] += result->totals.sums[k];
      all.totals.counts[k] += result->totals.counts[k];
    }
    all.samples += batch->count;
    all.tokens += result->tokens;
    all.stops = result->stops;
    if (isLast)
      break;
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
