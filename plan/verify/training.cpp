// Losses, optimizer, schedule.
#include "plan/verify/checks.h"
#include "plan/verify/parts.h"

namespace maestro::plan {
namespace {

Status verifyLosses(const fb::Plan &plan, const Place &root) {
  for (uint32_t i = 0; i < plan.losses()->size(); ++i) {
    const fb::Loss &loss = *plan.losses()->Get(i);
    Place place = root.item("losses", i);
    MAESTRO_TRY(checkName(place / "name", loss.name()));
    MAESTRO_TRY(checkNumber(place / "weight", loss.weight(), -HUGE_VAL));
    MAESTRO_TRY(checkNumber(place / "term_weight", loss.term_weight(), -HUGE_VAL));
    MAESTRO_TRY(checkText(place / "note", loss.note()));
  }
  return {};
}

Status verifyOptimizer(const fb::Training &training, const Place &place) {
  MAESTRO_TRY(checkEnum(place / "optimizer", training.optimizer()));
  MAESTRO_TRY(checkPositive(place / "lr", training.lr()));
  MAESTRO_TRY(checkNumber(place / "clip_grad_norm", training.clip_grad_norm(), 0));
  if (training.optimizer() == fb::Optimizer::Sgd) {
    MAESTRO_TRY(checkNumber(place / "momentum", training.momentum(), 0));
    if (training.nesterov() && training.momentum() == 0)
      return wrong(place / "nesterov", "needs a momentum above 0");
    return {};
  }
  constexpr double kBelowOne = 1 - 1e-12; // 1 − β^t is a divisor.
  MAESTRO_TRY(checkNumber(place / "beta1", training.beta1(), 0, kBelowOne));
  MAESTRO_TRY(checkNumber(place / "beta2", training.beta2(), 0, kBelowOne));
  return checkNumber(place / "eps", training.eps(), 0);
}

Status verifySchedule(const fb::Training &training, const Place &place) {
  MAESTRO_TRY(checkEnum(place / "decay", training.decay()));
  MAESTRO_TRY(checkNumber(place / "min_lr", training.min_lr(), 0));
  if (training.decay() != fb::Decay::Constant && training.total_steps() <= training.warmup_steps())
    return wrong(place / "total_steps", "{} is not more than warmup_steps, {}", training.total_steps(),
                 training.warmup_steps());
  return {};
}

} // namespace

Status verifyTraining(const fb::Plan &plan) {
  Place root = Place::root();
  Place place = root / "training";
  MAESTRO_TRY(verifyLosses(plan, root));
  if (plan.training()->global_batch() == 0 || plan.training()->global_batch() > uint64_t{1} << 31)
    return wrong(place / "global_batch", "{} is not in [1, {}]", plan.training()->global_batch(), uint64_t{1} << 31);
  MAESTRO_TRY(verifyOptimizer(*plan.training(), place));
  return verifySchedule(*plan.training(), place);
}

} // namespace maestro::plan
