// The critical path of a sample through the sections that train, alone: forward to the last layer and back again. It is
// cut among devices, but no two of its parts run at a time, so that no step takes less, however large the cluster is.
#pragma once

#include "planner/search/search_problem.h"

#include <map>
#include <tuple>
#include <vector>

namespace maestro::planner {

class CriticalPaths {
public:
  explicit CriticalPaths(const SearchProblem &problem);

  /// Seconds of a sample in one section, there and back, by samples of different sizes; 0 where it takes no part.
  using Times = std::vector<double>;
  const Times &of(uint32_t section, const RecomputeChoice &recompute, uint32_t microBatch) const;
  /// The longest of them in the mean step.
  double longest(const Times &times) const;
  /// The longest way in the mean step, with the times in each section; null for a section that does not train.
  double longest(const std::vector<const Times *> &bySection) const;

private:
  Times measure(uint32_t section, const RecomputeChoice &recompute, uint32_t microBatch) const;
  template <typename Seconds> double meanOfLongest(Seconds seconds) const;

  const SearchProblem &problem;
  std::vector<std::vector<int64_t>> rows;       ///< Different samples of all steps: sizes, step by step.
  std::vector<size_t> firstRows;                ///< Of each step, and the end.
  std::vector<std::vector<uint32_t>> producers; ///< By section: those that train and get gradients from it.
  mutable std::map<std::tuple<uint32_t, RecomputeChoice, uint32_t>, Times> known;
};

} // namespace maestro::planner
