// Layouts at scale: which sections share devices, how many each group has, and how each section runs on them, ranked by estimates.
//
//   option of a section on n devices ─▶ seconds, bytes   (a table: section × n)
//   group of sections on n devices   ─▶ seconds          (a table: set of sections × n)
//   grouping ─▶ the least time for which the fewest devices that each group needs fit the cluster
//
// All groupings are looked at; what is estimated is simulated afterwards.
#pragma once

#include "planner/search/cuts.h"

#include <map>
#include <optional>
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
};

class Shapes {
public:
  Shapes(const SearchProblem &problem, const CutTable &cuts, const WorkTable &work);

  /// The best of each grouping, by estimate: at most `most`. Devices come in multiples of `stride`; a device is taken to
  /// have `share` of its memory.
  std::vector<Shape> best(size_t most, uint32_t stride, double share);
  /// Of given groups: the best option of each section, then others; nothing where none fits.
  std::vector<Shape> baselineDataParallel(double share);
  std::vector<Shape> baselineOneLayout(double share);
  std::vector<Shape> baselineStaticSplit(const std::vector<std::vector<uint32_t>> &placement, double share);
  /// Shapes one change away, best estimate first; `keepsGroups`: devices stay where they are.
  std::vector<Shape> neighbours(const Shape &shape, uint32_t stride, bool keepsGroups) const;

  Layout layoutOf(const Shape &shape) const;
  /// The bytes of the fullest device of a section, by its smallest option among those that did not fit; UINT64_MAX: all did.
  uint64_t leastBytes(uint32_t section) const { return least[section]; }
  /// Sets and returns its estimate.
  double evaluate(Shape &shape) const;

private:
  struct Estimate {
    ShapeOption option;
    double busy = 0, fill = 0, update = 0;
    uint64_t bytes = 0;
    double seconds() const { return busy + fill + update; }
  };
  struct GroupEstimate {
    double seconds = 0;
    std::vector<Estimate> chosen; ///< By the group's sections.
  };
  using Filter = bool (*)(const SectionCut &);

  std::vector<uint32_t> menu(uint32_t stride, uint32_t devices) const;
  Estimate estimate(uint32_t section, const ShapeOption &option) const;
  double updateSeconds(uint32_t section, uint32_t cut, uint32_t replicas) const;
  /// Options that nothing beats in both time and bytes, fastest first.
  std::vector<Estimate> options(uint32_t section, uint32_t devices, Filter filter) const;
  const std::vector<Estimate> &tabled(uint32_t section, uint32_t devices);
  GroupEstimate fit(const std::vector<const std::vector<Estimate> *> &lists) const;
  /// Of the shape's groups; false where one has none that fits.
  bool chooseOptions(Filter filter, Shape &shape) const;
  std::optional<Shape> oneLayout(uint32_t stages, Recompute recompute, uint32_t microBatch) const;
  GroupEstimate group(const std::vector<uint32_t> &sections, uint32_t devices, Filter filter) const;
  std::vector<ShapeGroup> pinnedGroups(std::vector<uint32_t> &open, uint32_t &devices) const;
  bool allocate(const std::vector<std::vector<uint32_t>> &groups, const std::vector<uint32_t> &sizes, uint32_t devices, Shape &shape);
  const std::vector<double> &timesOf(uint32_t mask, const std::vector<uint32_t> &open, const std::vector<uint32_t> &sizes);

  const SearchProblem &problem;
  const CutTable &cuts;
  const WorkTable &work;
  uint64_t deviceBytes = UINT64_MAX; ///< Of the smallest kind.
  double share = 1;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Estimate>> table; ///< section, devices
  std::map<uint32_t, std::vector<double>> times;                         ///< By set of open sections: by size, the best up to it.
  mutable std::map<std::pair<std::pair<uint32_t, uint32_t>, uint32_t>, double> updates;
  mutable std::vector<uint64_t> least;
  std::vector<uint8_t> sendsGradients; ///< By section: to another one.
};

} // namespace maestro::planner
