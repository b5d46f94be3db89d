#include "cost_models/atom_costs.h"

#include <algorithm>
#include <string>

namespace maestro::cost_models {

void AtomCosts::put(uint32_t section, const Variant &variant, AtomClasses classes) {
  costs.insert_or_assign({section, variant}, std::move(classes));
}

const AtomClasses &AtomCosts::of(uint32_t section, const Variant &variant) {
  if (auto found = costs.find({section, variant}); found != costs.end())
    return found->second;
  if (failure.isOk() && measure) {
    auto measured = measure(variant);
    if (measured)
      for (auto &[own, classes] : *measured)
        costs.try_emplace({own, variant}, std::move(classes));
    else
      failure = std::move(measured).takeStatus();
  }
  if (auto found = costs.find({section, variant}); found != costs.end())
    return found->second;
  if (failure.isOk())
    failure = Status::internal("a section's atoms have no costs in a variant that is to choose from");
  return costs.at({section, Variant{}});
}

Status AtomCosts::status() const {
  return failure.isOk() ? Status() : Status(failure.code(), std::string(failure.message()));
}

std::shared_ptr<AtomCosts> AtomCosts::changed(std::function<void(AtomClass &)> change) const {
  Known known = costs;
  for (auto &[key, classes] : known)
    std::for_each(classes.begin(), classes.end(), change);
  Measure changing = [measure = measure, change](const Variant &variant) {
    auto measured = measure(variant);
    if (measured)
      for (auto &[section, classes] : *measured)
        std::for_each(classes.begin(), classes.end(), change);
    return measured;
  };
  return std::make_shared<AtomCosts>(measure ? std::move(changing) : nullptr, std::move(known));
}

} // namespace maestro::cost_models
