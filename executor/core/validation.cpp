#include "executor/core/validation.h"

#include "base/log.h"
#include "executor/core/training_data.h"
#include "plan/plan_generated.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::executor {
namespace {

constexpr std::string_view kWeighted = "loss"; ///< The weighted sum of all, as in metrics.jsonl.

Status checkName(const plan::Plan &plan, const std::string &name) {
  LossTotals none{std::vector<double>(plan->losses()->size()), std::vector<double>(plan->losses()->size())};
  std::vector<metrics::LossValue> losses;
  namedLosses(plan, none, losses);
  std::string names(kWeighted);
  for (const metrics::LossValue &loss : losses)
    names += ", " + loss.name;
  bool isKnown = name == kWeighted ||
                 std::ranges::any_of(losses, [&](const metrics::LossValue &loss) { return loss.name == name; });
  return isKnown
             ? Status()
             : Status::invalidInput(fmt::format("--keep-best {}: no loss of this plan; its losses: {}", name, names));
}

} // namespace

Result<std::unique_ptr<Validation>> Validation::open(const plan::Plan &plan, const RunOptions &options,
                                                     const std::optional<checkpoint::BestLoss> &earlier) {
  std::unique_ptr<Validation> validation(new Validation(plan, options.validation));
  checkpoint::BestLoss &best = validation->best;
  best.name = options.validation.keepBest.empty() ? kWeighted : options.validation.keepBest;
  MAESTRO_TRY(checkName(plan, best.name));
  if (earlier && earlier->name == best.name)
    best = *earlier;
  RunOptions own = options;
  own.data = options.validation.data;
  own.shuffle = false;
  auto opened = openTrainingData(plan, own, 0);
  if (!opened)
    return std::move(opened).takeStatus().withContext("--validate");
  size_t ahead = std::max<size_t>(2 * plan->training()->global_batch(), 8);
  MAESTRO_ASSIGN(validation->source, data::SampleSource::create(std::move(opened->reader), {ahead, kEvaluatedBatches}));
  return validation;
}

bool Validation::isDue(uint64_t step, bool isLast) const {
  return isLast || (options.every > 0 && step % options.every == 0);
}

double Validation::watchedLoss(const metrics::ValidationRecord &record) const {
  for (const metrics::LossValue &loss : record.losses)
    if (loss.name == best.name)
      return loss.value;
  return record.loss;
}

Status Validation::run(Job &job, metrics::StepRecord &record) {
  job.drives("validating");
  int64_t startNs = transport::nowNs();
  auto all = evaluate(plan, job, *source);
  if (!all)
    return std::move(all).takeStatus().withContext("--validate");
  evaluation = *std::move(all);
  if (evaluation.stops)
    return Status();
  metrics::ValidationRecord &own = record.validation.emplace();
  own.loss = weightedLoss(plan, evaluation.totals);
  namedLosses(plan, evaluation.totals, own.losses);
  own.samples = evaluation.samples;
  own.tokens = evaluation.tokens;
  own.seconds = static_cast<double>(transport::nowNs() - startNs) * 1e-9;
  double loss = watchedLoss(own);
  if (loss < best.value) { // Never where it is not a number.
    best.value = loss;
    best.step = record.step;
    best.withoutGain = 0;
  } else {
    ++best.withoutGain;
  }
  if (isOver() && job.isRoot())
    logInfo(fmt::format("step {}: {} validations without a gain", record.step, best.withoutGain));
  return Status();
}

void Validation::sayBest() const {
  if (best.step > 0)
    logInfo(fmt::format("validation: the best {} is {:.6g}, of step {}", best.name, best.value, best.step));
}

} // namespace maestro::executor
