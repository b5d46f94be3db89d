// Layouts at scale: which sections share devices, how many each group has, and how each section runs on them, ranked by
// estimates.
//
//   option of a section on n devices ─▶ seconds, bytes   (a table: section × n)
//   group of sections on n devices   ─▶ seconds          (a table: set of sections × n)
//   grouping ─▶ the least time for which the fewest devices that each group needs fit the cluster
//
// All groupings are looked at; what is estimated is simulated afterwards.
#pragma once

#include "planner/search/cuts.h"
#include "planner/search/ways.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace maestro::planner {

/// How a section runs in its group: `replicas` × the stages of a cut.
struct ShapeOption {
  uint32_t cut = 0; ///< CutTable.of(section)
  uint32_t microBatch = 0;
  uint32_t replicas = 1;
  auto operator<=>(const ShapeOption &) const = default;
};

/// Sections that share consecutive devices, or those pinned.
struct ShapeGroup {
  std::vector<uint32_t> sections;
  uint32_t devices = 1;
  std::vector<uint32_t> pinned;
  auto operator<=>(const ShapeGroup &) const = default;
};

struct Shape {
  std::vector<ShapeGroup> groups;
  std::vector<ShapeOption> options; ///< By section.
  double seconds = 0;               ///< Estimated.
  bool byStage = false;             ///< Devices go to sections stage by stage (search_space.h).
};

/// A section that has so many replicas of so many stages.
struct HeldShape {
  uint32_t section = 0, replicas = 1, stages = 1;
};

class Shapes {
public:
  Shapes(const SearchProblem &problem, const CutTable &cuts, const WorkTable &work);

  /// The best of each grouping, by estimate: at most `most`. Devices come in multiples of `stride`; a device is taken
  /// to have `share` of its memory.
  std::vector<Shape> best(size_t most, uint32_t stride, double share);
  /// The same of every grouping in which the section is as held.
  std::vector<Shape> bestWith(const HeldShape &held, uint32_t stride, double share);
  /// Of given groups: the best option of each section, then others; nothing where none fits.
  std::vector<Shape> baselineDataParallel(double share);
  std::vector<Shape> baselineOneLayout(double share);
  std::vector<Shape> baselineStaticSplit(const std::vector<std::vector<uint32_t>> &placement, double share);
  /// Shapes one change away, best estimate first; `keepsGroups`: devices stay where they are.
  std::vector<Shape> neighbours(const Shape &shape, uint32_t stride, bool keepsGroups);
  /// Gives one of these sections, whose devices hold `excess` too much, the fastest option that holds so much less.
  /// False where there is none.
  bool shrink(Shape &shape, const std::vector<uint32_t> &sections, uint64_t excess) const;

  Layout layoutOf(const Shape &shape) const;
  /// The bytes of the fullest device of a section, by its smallest option among those that did not fit; UINT64_MAX: all
  /// did.
  uint64_t leastBytes(uint32_t section) const { return least[section]; }
  /// Sets and returns its estimate.
  double evaluate(Shape &shape) const;
  /// The same, placed in the better way.
  double evaluatePlaced(Shape &shape) const;

private:
  struct Estimate {
    ShapeOption option;
    double busy = 0, fill = 0, update = 0;
    double way = 0; ///< Of the longest sample, where the section trains.
    uint64_t bytes = 0;
    double seconds() const { return std::max(busy + fill, way) + update; }
    /// Another section on the same devices.
    void add(const Estimate &other) {
      busy += other.busy;
      fill = std::max(fill, other.fill);
      update += other.update;
      way = std::max(way, other.way);
    }
  };
  struct GroupEstimate {
    double seconds = 0;
    std::vector<Estimate> chosen; ///< By the group's sections.
  };
  using Filter = bool (*)(const SectionCut &);

  std::vector<uint32_t> menu(uint32_t stride, uint32_t devices) const;
  Estimate estimate(uint32_t section, const ShapeOption &option, bool byStage) const;
  /// Placed as gradients are added up faster.
  Estimate estimate(uint32_t section, const ShapeOption &option) const;
  /// Of a cut with one size of micro-batches, whatever the replicas.
  struct Facts {
    double groups = 0, longest = 0; ///< Micro-batches; the busiest stage's work.
    double fill = 0;                ///< Before that stage is busy, and after,
    double leastFill = 0;           ///< and with the best size up to this one.
    double way = 0;                 ///< Of the longest sample, where the section trains.
    uint64_t bytes = 0;             ///< Of the fullest stage,
    uint64_t leastBytes = 0;        ///< and with as few places for what waits in other sections as any layout has.
  };
  Facts measure(uint32_t section, uint32_t cut, uint32_t microBatch) const;
  double updateSeconds(uint32_t section, uint32_t cut, uint32_t replicas, bool byStage) const;
  uint32_t replicasOf(uint32_t section, uint32_t stages, uint32_t devices) const;
  template <typename Visit> void forEachOption(uint32_t section, uint32_t devices, Filter filter, Visit visit) const;
  /// Options that nothing beats in both time and bytes, fastest first.
  std::vector<Estimate> options(uint32_t section, uint32_t devices, Filter filter) const;
  double busiest(const Shape &shape, const ShapeGroup &group) const;
  void addSections(const Shape &shape, uint32_t section, uint32_t devices, std::vector<Shape> &found) const;
  uint64_t placesBeyond(const Shape &shape, uint32_t section, const ShapeOption &option) const;
  /// Of the fullest stage, with the places that the other sections' options ask for.
  uint64_t bytesIn(const Shape &shape, uint32_t section, const ShapeOption &option) const;
  std::vector<ShapeOption> fastestWithin(const Shape &shape, uint32_t section, uint32_t devices, uint64_t most) const;
  bool refit(Shape &shape, size_t group);
  void addMoves(const Shape &shape, uint32_t stride, std::vector<Shape> &found);
  const std::vector<Estimate> &tabled(uint32_t section, uint32_t devices);
  std::vector<Shape> ofAllGroupings(uint32_t stride);
  GroupEstimate fit(const std::vector<const std::vector<Estimate> *> &lists) const;
  /// Of the shape's groups; false where one has none that fits.
  bool chooseOptions(Filter filter, Shape &shape) const;
  std::optional<Shape> oneLayout(uint32_t stages, Recompute recompute, uint32_t lighter, uint32_t microBatch) const;
  GroupEstimate group(const std::vector<uint32_t> &sections, uint32_t devices, Filter filter) const;
  std::vector<ShapeGroup> pinnedGroups(std::vector<uint32_t> &open, uint32_t &devices) const;
  bool allocate(const std::vector<std::vector<uint32_t>> &groups, const std::vector<uint32_t> &sizes, uint32_t devices,
                Shape &shape);
  const std::vector<double> &timesOf(const std::vector<uint32_t> &group, const std::vector<uint32_t> &sizes);

  const SearchProblem &problem;
  const CutTable &cuts;
  const WorkTable &work;
  Ways ways;
  uint64_t deviceBytes = UINT64_MAX; ///< Of the smallest kind.
  double share = 1;
  std::optional<HeldShape> held;                                        ///< bestWith()'s.
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Estimate>> table; ///< section, devices
  std::map<std::vector<uint32_t>, std::vector<double>> times; ///< By group, ascending: by size, the best up to it.
  mutable std::vector<std::vector<std::map<std::pair<uint32_t, bool>, double>>>
      updates; ///< section, cut; replicas, whether stage by stage
  mutable std::vector<uint64_t> least;
  std::vector<std::set<uint32_t>> gradientsFrom;         ///< By section: others that send it gradients.
  std::vector<std::vector<std::vector<Facts>>> measured; ///< section, cut, micro-batch
};

} // namespace maestro::planner
