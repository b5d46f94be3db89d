// Losses, optimizer, schedule.
#include "plan/parameter_groups.h"
#include "plan/verify/checks.h"
#include "plan/verify/parts.h"

namespace maestro::plan {
namespace {

Status verifyLosses(const fb::Plan &plan, const Place &root, Work &work) {
  for (uint32_t i = 0; i < plan.losses()->size(); ++i) {
    const fb::Loss &loss = *plan.losses()->Get(i);
    Place place = root.item("losses", i);
    MAESTRO_TRY(checkName(place / "name", loss.name(), work));
    MAESTRO_TRY(checkNumber(place / "weight", loss.weight(), -HUGE_VAL));
    MAESTRO_TRY(checkNumber(place / "term_weight", loss.term_weight(), -HUGE_VAL));
    MAESTRO_TRY(checkText(place / "note", loss.note(), work));
    MAESTRO_TRY(checkNumber(place / "count_floor", loss.count_floor(), 0));
  }
  return {};
}

Status verifyOptimizer(const GroupOptimizer &optimizer, const Place &place) {
  MAESTRO_TRY(checkEnum(place / "optimizer", optimizer.kind));
  MAESTRO_TRY(checkPositive(place / "lr", optimizer.lr));
  if (optimizer.kind == fb::Optimizer::Sgd) {
    MAESTRO_TRY(checkNumber(place / "momentum", optimizer.momentum, 0));
    if (optimizer.nesterov && optimizer.momentum == 0)
      return wrong(place / "nesterov", "needs a momentum above 0");
    return {};
  }
  if (optimizer.kind == fb::Optimizer::Muon) {
    constexpr uint32_t kMostIterations = 100;
    if (optimizer.iterations < 1 || optimizer.iterations > kMostIterations)
      return wrong(place / "iterations", "{} is not from 1 to {}", optimizer.iterations, kMostIterations);
    MAESTRO_TRY(checkNumber(place / "momentum", optimizer.momentum, 0, 1));
    return checkNumber(place / "eps", optimizer.eps, 0);
  }
  if (optimizer.kind == fb::Optimizer::Adafactor) {
    MAESTRO_TRY(checkNumber(place / "eps", optimizer.eps, 0));
    MAESTRO_TRY(checkNumber(place / "eps2", optimizer.eps2, 0));
    MAESTRO_TRY(checkNumber(place / "beta2_decay", optimizer.beta2Decay, -HUGE_VAL, 0));
    return checkPositive(place / "clip", optimizer.clip);
  }
  constexpr double kBelowOne = 1 - 1e-12; // 1 − β^t is a divisor.
  MAESTRO_TRY(checkNumber(place / "beta1", optimizer.beta1, 0, kBelowOne));
  MAESTRO_TRY(checkNumber(place / "beta2", optimizer.beta2, 0, kBelowOne));
  return checkNumber(place / "eps", optimizer.eps, 0);
}

Status verifyGroups(const fb::Training &training, const Place &place) {
  constexpr uint32_t kMostGroups = 64;
  MAESTRO_TRY(verifyOptimizer(optimizerOf(training, 0), place));
  uint32_t count = groupCount(training);
  if (count - 1 > kMostGroups)
    return wrong(place / "groups", "{} are more than {}", count - 1, kMostGroups);
  for (uint32_t group = 1; group < count; ++group)
    MAESTRO_TRY(verifyOptimizer(optimizerOf(training, group), place.item("groups", group - 1)));
  return {};
}

Status verifySchedule(const fb::Training &training, const Place &place) {
  MAESTRO_TRY(checkEnum(place / "decay", training.decay()));
  MAESTRO_TRY(checkNumber(place / "min_lr", training.min_lr(), 0));
  if (training.decay() != fb::Decay::Constant && training.total_steps() <= training.warmup_steps())
    return wrong(place / "total_steps", "{} is not more than warmup_steps, {}", training.total_steps(),
                 training.warmup_steps());
  bool isWsd = training.decay() == fb::Decay::Wsd;
  uint64_t limit = isWsd ? training.total_steps() - training.warmup_steps() : 0;
  if (training.decay_steps() > limit || (isWsd && training.decay_steps() == 0))
    return wrong(place / "decay_steps", "{} is not from {} to {}", training.decay_steps(), isWsd ? 1 : 0, limit);
  return {};
}

/// Whole samples, no larger than any may be.
Status verifyStepSamples(const fb::Plan &plan, const Place &place, const fb::StepSamples &step, Work &work) {
  size_t symbols = plan.symbols()->size(), count = step.sizes()->size();
  MAESTRO_TRY(work.spend(place, count + 1));
  if (count == 0 || symbols == 0 || count % symbols != 0)
    return wrong(place / "sizes", "{} numbers are not those of one or more samples, {} each", count, symbols);
  for (uint32_t i = 0; i < count; ++i)
    if (int64_t most = plan.symbols()->Get(i % symbols)->sample_max(); step.sizes()->Get(i) > most)
      return wrong(place.item("sizes", i), "{} is above the sample_max of symbols[{}], {}", step.sizes()->Get(i),
                   i % symbols, most);
  return {};
}

Status verifySteps(const fb::Plan &plan, const Place &root, Work &work) {
  constexpr uint32_t kMostSteps = 16;
  if (!plan.step_samples())
    return {};
  if (plan.step_samples()->size() > kMostSteps)
    return wrong(root / "step_samples", "{} steps are more than {}", plan.step_samples()->size(), kMostSteps);
  for (uint32_t i = 0; i < plan.step_samples()->size(); ++i)
    MAESTRO_TRY(verifyStepSamples(plan, root.item("step_samples", i), *plan.step_samples()->Get(i), work));
  return {};
}

} // namespace

Status verifyTraining(const fb::Plan &plan, Work &work) {
  Place root = Place::root();
  Place place = root / "training";
  MAESTRO_TRY(verifyLosses(plan, root, work));
  if (plan.training()->global_batch() == 0 || plan.training()->global_batch() > uint64_t{1} << 31)
    return wrong(place / "global_batch", "{} is not in [1, {}]", plan.training()->global_batch(), uint64_t{1} << 31);
  if (plan.training()->bad_steps() == 0)
    return wrong(place / "bad_steps", "0 is not at least 1");
  MAESTRO_TRY(checkNumber(place / "clip_grad_norm", plan.training()->clip_grad_norm(), 0));
  MAESTRO_TRY(checkNumber(place / "ema_decay", plan.training()->ema_decay(), 0, 1));
  MAESTRO_TRY(verifyGroups(*plan.training(), place));
  MAESTRO_TRY(verifySchedule(*plan.training(), place));
  return verifySteps(plan, root, work);
}

} // namespace maestro::plan
