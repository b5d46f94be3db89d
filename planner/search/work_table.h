// Work of sections, whichever way they are cut: what no schedule of the steps' samples avoids.
#pragma once

#include "planner/search/search_problem.h"

#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace maestro::planner {

/// Seconds of one device in the mean step. Costs are polynomials with coefficients of 0 or more: a term with a summed
/// dim costs at least its samples' sum, another one at least its largest value once and the least in each further
/// micro-batch. Of mixed devices the fastest kind counts.
class WorkTable {
public:
  /// The problem must outlive it.
  explicit WorkTable(const SearchProblem &problem);

  /// Work of atoms [first, last) of a section as one stage.
  double work(uint32_t section, const RecomputeChoice &recompute, uint32_t microBatch, uint32_t first,
              uint32_t last) const;
  /// Work of a whole section with what pins leave and is cheapest.
  double least(uint32_t section) const { return leastWork[section]; }
  /// Samples of the mean step that take part in a section.
  double samples(uint32_t section) const;
  /// Micro-batches of the mean step, at least: that hold its samples, rows and padded tokens.
  double microBatches(uint32_t section, uint32_t microBatch) const;

private:
  /// A product of dims over the samples of one step that take part in a section.
  struct Product {
    size_t samples = 0;
    double sum = 0, largest = 0, least = std::numeric_limits<double>::infinity();
  };
  /// By step.
  const std::vector<Product> &products(uint32_t section, const std::vector<uint32_t> &dims) const;
  double fewestMicroBatches(uint32_t section, const cost_models::MicroBatchCapacity &capacity, size_t step) const;

  /// Of atoms before each position, each behind the one before it; and of each at the head of a stage.
  struct Sums {
    std::vector<double> chained{0}, alone;
    double between(uint32_t first, uint32_t last) const {
      return first >= last ? 0 : chained[last] - chained[first + 1] + alone[first];
    }
  };
  using Key = std::tuple<uint32_t, RecomputeChoice, uint32_t>; ///< section, recompute, micro-batch
  const Sums &sums(uint32_t section, const RecomputeChoice &recompute, uint32_t microBatch) const;
  Sums sumOfKind(uint32_t section, const cost_models::Variant &variant, uint32_t microBatch) const;
  double seconds(uint32_t section, const cost_models::StageCosts &costs, uint32_t microBatch) const;
  double taskSeconds(uint32_t section, const wavefront::Cost &cost, uint32_t microBatch) const;

  const SearchProblem &problem;
  mutable std::map<std::pair<uint32_t, std::vector<uint32_t>>, std::vector<Product>> knownProducts; ///< section, dims
  std::vector<std::vector<std::vector<double>>> fewest; ///< section, micro-batch, step: micro-batches
  mutable std::map<Key, Sums> known;
  std::vector<double> leastWork;
};

} // namespace maestro::planner
