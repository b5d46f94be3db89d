// What no schedule of a layout's sections can beat, by the scheduler's own bound (wavefront/lower_bound.h): samples
// that are padded to each other, pipelines that fill and drain, encoders that come before.
#pragma once

#include "planner/search/cuts.h"

#include <map>
#include <tuple>
#include <vector>

namespace maestro::planner {

/// A section that trains, as one of CutTable's, and where its stations are.
struct PlacedCut {
  uint32_t section = 0, cut = 0, microBatch = 0;
  std::vector<std::vector<uint32_t>> devices; ///< replica × stage; below SearchProblem.machine.devices.
};

/// Keeps what it is made of; of devices of one kind.
class ScheduleBound {
public:
  ScheduleBound(const SearchProblem &problem, const CutTable &cuts) : problem(problem), cuts(cuts) {}

  /// Seconds of the mean step from the first task of these sections to the last one, wherever else anything runs:
  /// transfers count for nothing, and of a backward that may be split in two, the part that nothing waits for may come
  /// last in every stage.
  double seconds(const std::vector<PlacedCut> &sections);

  /// Whether every schedule of a section as `b` is one of it as `a`: the same stages and replicas, no smaller
  /// micro-batches, no longer tasks.
  bool isNoWorse(const PlacedCut &a, const PlacedCut &b);

private:
  using Stages = std::vector<wavefront::Stage>;
  const Stages &stagesOf(const PlacedCut &section);
  bool maySplit(const PlacedCut &section) const;
  void addEdges(const std::vector<PlacedCut> &sections, wavefront::Problem &schedule) const;

  const SearchProblem &problem;
  const CutTable &cuts;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Stages> stages; ///< By section, cut, micro-batch.
};

} // namespace maestro::planner
