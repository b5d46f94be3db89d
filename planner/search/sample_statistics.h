// What the samples of the steps that a search simulates add up to, section by section: sums and extremes of products of
// their sizes, and the fewest micro-batches that hold them.
#pragma once

#include "cost_models/atoms.h"
#include "cost_models/simulator.h"

#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace maestro::planner {

class SampleStatistics {
public:
  /// Both must outlive it.
  SampleStatistics(const cost_models::AtomicModel &model, std::span<const cost_models::SampleSizes> steps)
      : model(model), steps(steps) {}

  /// A product of dims over the samples of one step that take part in a section.
  struct StepProduct {
    size_t samples = 0;
    double sum = 0, largest = 0, least = std::numeric_limits<double>::infinity();
  };
  struct Product {
    std::vector<StepProduct> steps;
    bool isSum = false; ///< A summed dim is among the factors.
  };
  const Product &product(const cost_models::AtomicSection &section, const std::vector<uint32_t> &dims) const;

  /// Samples of the mean step that take part.
  double samples(const cost_models::AtomicSection &section) const;
  /// No fewer micro-batches hold the section's samples of a step, by samples, rows and padded tokens.
  double fewestMicroBatches(const cost_models::AtomicSection &section, const cost_models::MicroBatchCapacity &capacity,
                            size_t step) const;

private:
  template <typename Visit>
  void forEachSample(const cost_models::AtomicSection &section, size_t step, Visit visit) const;
  const cost_models::AtomicModel &model;
  std::span<const cost_models::SampleSizes> steps;
  using ActiveDims = std::vector<uint32_t>;
  mutable std::map<std::pair<ActiveDims, std::vector<uint32_t>>, Product> products;
};

} // namespace maestro::planner
