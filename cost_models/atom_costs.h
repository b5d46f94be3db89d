// What atoms cost and hold in each variant: measured when it is first asked for, and kept.
//
//   search ─ of(section, variant) ─▶ AtomCosts ─ first time ─▶ Measure: trial emissions (planner/driver/atom_trials.h)
#pragma once

#include "base/status.h"
#include "cost_models/compound.h"
#include "cost_models/variant.h"

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace maestro::cost_models {

/// Atoms with equal operators on equal shapes.
struct AtomClass {
  StageModel alone, pair; ///< One atom a stage; two neighbours a stage.
};
/// Of a section: by AtomicSection.classOf.
using AtomClasses = std::vector<AtomClass>;

/// Asked by one thread at a time.
class AtomCosts {
public:
  /// A variant's costs, by section, of all sections that have it.
  using Measure = std::function<Result<std::map<uint32_t, AtomClasses>>(const Variant &)>;
  using Known = std::map<std::pair<uint32_t, Variant>, AtomClasses>; ///< By section and variant.
  /// Without `measure` nothing is added to what is known.
  explicit AtomCosts(Measure measure = nullptr, Known known = {})
      : measure(std::move(measure)), costs(std::move(known)) {}

  void put(uint32_t section, const Variant &variant, AtomClasses classes);
  /// Of a variant that the section has. Stays where it is. Where it cannot be measured, status() is a failure, and
  /// these are the costs of Variant{}, which must be there.
  const AtomClasses &of(uint32_t section, const Variant &variant);
  /// The first failure. Whoever answers questions from costs asks it before answering.
  Status status() const;
  const Known &known() const { return costs; }
  /// The same costs after a change, whenever they are measured.
  std::shared_ptr<AtomCosts> changed(std::function<void(AtomClass &)> change) const;

private:
  Measure measure;
  Known costs;
  Status failure;
};

} // namespace maestro::cost_models
