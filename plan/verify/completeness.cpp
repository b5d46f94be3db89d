// What only all executables together can have: someone binds each loss and each trainable parameter.
#include "plan/verify/checks.h"
#include "plan/verify/parts.h"

#include <algorithm>
#include <vector>

namespace maestro::plan {
namespace {

/// Which indices of a kind of binding occur in any executable.
std::vector<bool> indicesBound(const fb::Plan &plan, fb::BindingKind kind, size_t count) {
  std::vector<bool> seen(count, false);
  for (const fb::Executable *executable : *plan.executables())
    for (const fb::Binding *binding : *executable->bindings())
      if (binding->kind() == kind)
        seen[binding->index()] = true;
  return seen;
}

Status checkLosses(const fb::Plan &plan, const Place &root, bool trains) {
  if (trains && plan.losses()->size() == 0)
    return wrong(root / "losses", "there is none, and a section trains");
  for (fb::BindingKind kind : {fb::BindingKind::LossSum, fb::BindingKind::LossCount}) {
    std::vector<bool> seen = indicesBound(plan, kind, plan.losses()->size());
    auto missing = std::find(seen.begin(), seen.end(), false);
    if (missing != seen.end())
      return wrong(root.item("losses", static_cast<size_t>(missing - seen.begin())), "no executable binds its {}",
                   fb::EnumNameBindingKind(kind));
  }
  return {};
}

Status checkTrainables(const fb::Plan &plan, const Place &root, bool trains) {
  std::vector<bool> values = indicesBound(plan, fb::BindingKind::Value, plan.parameters()->size());
  std::vector<bool> gradients = indicesBound(plan, fb::BindingKind::Gradient, plan.parameters()->size());
  bool any = false;
  for (uint32_t i = 0; i < plan.parameters()->size(); ++i) {
    if (!plan.parameters()->Get(i)->trainable())
      continue;
    any = true;
    if (!values[i] || !gradients[i])
      return wrong(root.item("parameters", i), "it is trainable, and no executable binds its {}",
                   values[i] ? "Gradient" : "Value");
  }
  return any == trains ? Status()
                       : wrong(root / "sections", "{}",
                               any ? "no section trains, and a parameter is trainable"
                                   : "a section trains, and no parameter is trainable");
}

} // namespace

Status verifyCompleteness(const fb::Plan &plan) {
  Place root = Place::root();
  bool trains = std::any_of(plan.sections()->begin(), plan.sections()->end(),
                            [](const fb::Section *section) { return section->trains(); });
  MAESTRO_TRY(checkLosses(plan, root, trains));
  return checkTrainables(plan, root, trains);
}

} // namespace maestro::plan
