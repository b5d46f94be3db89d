#include "planner/search/climb.h"

#include <algorithm>
#include <set>

namespace maestro::planner {
namespace {

/// Layouts that are simulated side by side before the next are chosen; the same on every machine, so that all find the
/// same.
constexpr size_t kBatch = 4;
/// A layout's changes come later the worse their estimates are beyond this factor of its own: estimates err by as much.
constexpr double kHopeless = 1.15;
/// Where none of the beginnings fits, so many of them are changed until they do.
constexpr size_t kMaxRepaired = 3;
/// A layout is looked at as if it took so much longer for each batch of its changes that was simulated.
constexpr double kFatigue = 0.004;
/// And so much for each batch that was spent on what came of the same beginning, so that other groupings have a turn.
constexpr double kFatigueOfStart = 0.004;

class Climber {
public:
  Climber(const MoveContext &context, const Family &family, wavefront::Order order, Allowance &allowance, Best &best)
      : context(context), family(family), order(order), allowance(allowance), best(best) {}

  Status run(const std::vector<Layout> &starts, size_t most) {
    std::vector<Layout> first;
    for (size_t i = 0; i < starts.size() && first.size() < most; ++i)
      if (std::optional<Layout> layout = fitted(starts[i], true))
        first.push_back(std::move(*layout));
    for (size_t i = 0; i < starts.size() && i < kMaxRepaired && first.empty() && family.climbs; ++i)
      if (std::optional<Layout> layout = repaired(starts[i]))
        first.push_back(std::move(*layout));
    MAESTRO_ASSIGN(bool isSpent, simulate(first, std::nullopt));
    while (!isSpent && family.climbs && !nodes.empty() && !context.candidates.isOver()) {
      auto next =
          std::min_element(nodes.begin(), nodes.end(), [&](const Node &a, const Node &b) { return rank(a) < rank(b); });
      if (next->estimate == 0)
        expand(*next);
      std::vector<Layout> batch = nextBatch(*next);
      if (batch.empty()) {
        nodes.erase(next);
        continue;
      }
      ++next->batches;
      ++batchesOfStart[next->start];
      MAESTRO_ASSIGN(isSpent, simulate(batch, next->start));
    }
    return Status();
  }

private:
  struct Change {
    double estimate = 0;
    Layout layout;
    bool refills = false;
  };
  struct Node {
    double seconds = 0;
    Layout layout;
    uint32_t batches = 0;        ///< Of changes that were simulated.
    double estimate = 0;         ///< 0: its changes are not known yet.
    std::vector<Change> changes; ///< Not looked at yet, the most promising last.
    size_t start = 0;            ///< The beginning that it came of.
  };

  /// As it fits; nothing where it does not, or was simulated.
  std::optional<Layout> fitted(const Layout &layout, bool refills) {
    std::optional<Layout> own = layout;
    if (refills)
      own = fillMemory(context.problem, context.cuts, context.candidates, layout);
    if (!own || !context.candidates.fits(*own) || !seen.insert(*own).second || !obeys(context.problem, *own))
      return std::nullopt;
    return own;
  }

  /// Changed, one decision at a time, to whatever lacks least memory, until it fits; nothing where that ends before.
  std::optional<Layout> repaired(Layout layout) {
    for (uint64_t missing = context.candidates.missingBytes(layout); missing > 0;) {
      std::optional<Layout> best;
      for (const NamedMove &move : kMoves)
        for (Layout &next : allowed(move, layout))
          if (uint64_t left = context.candidates.missingBytes(next); left < missing) {
            missing = left;
            best = std::move(next);
          }
      if (!best)
        return std::nullopt;
      layout = std::move(*best);
    }
    return fitted(layout, true);
  }

  /// The move's changes, without those that the family leaves out.
  std::vector<Layout> allowed(const NamedMove &move, const Layout &layout) const {
    if ((family.keepsGroups && !move.keepsGroups) || context.problem.without.count(std::string(move.name)))
      return {};
    std::vector<Layout> list = move.move(context, layout);
    std::erase_if(list, [&](const Layout &next) {
      return std::any_of(next.sections.begin(), next.sections.end(),
                         [&](const SectionOption &own) { return own.stages() > family.maxStages; });
    });
    return list;
  }

  void expand(Node &node) {
    node.estimate = context.estimator.seconds(node.layout);
    std::set<Layout> known;
    for (const NamedMove &move : kMoves)
      for (Layout &layout : allowed(move, node.layout))
        if (known.insert(layout).second)
          node.changes.push_back({context.estimator.seconds(layout), std::move(layout), move.refills});
    std::reverse(node.changes.begin(), node.changes.end()); // Of equal estimates, those of the first moves come first.
    std::stable_sort(node.changes.begin(), node.changes.end(),
                     [](const Change &a, const Change &b) { return a.estimate > b.estimate; });
  }

  std::vector<Layout> nextBatch(Node &node) {
    std::vector<Layout> batch;
    while (batch.size() < kBatch && !node.changes.empty()) {
      Change change = std::move(node.changes.back());
      node.changes.pop_back();
      if (std::optional<Layout> layout = fitted(change.layout, change.refills))
        batch.push_back(std::move(*layout));
    }
    return batch;
  }

  double rank(const Node &node) const {
    double hope = node.changes.empty() ? 1 : std::max(1.0, node.changes.back().estimate / (kHopeless * node.estimate));
    return node.seconds * hope * (1 + kFatigue * node.batches + kFatigueOfStart * batchesOfStart[node.start]);
  }

  /// What was simulated is where changes are looked for, as children of a beginning or as beginnings. Returns whether
  /// the allowance is spent before that.
  Result<bool> simulate(const std::vector<Layout> &layouts, std::optional<size_t> start) {
    MAESTRO_ASSIGN(auto simulations, context.candidates.simulate(layouts, order, allowance));
    for (size_t i = 0; i < layouts.size(); ++i) {
      if (!simulations[i])
        return true;
      if (!start)
        batchesOfStart.push_back(0);
      nodes.push_back({simulations[i]->stepSeconds, layouts[i], 0, 0, {}, start.value_or(batchesOfStart.size() - 1)});
      if (simulations[i]->stepSeconds < best.seconds)
        best = {simulations[i]->stepSeconds, layouts[i], *simulations[i]};
    }
    return false;
  }

  const MoveContext &context;
  Family family;
  wavefront::Order order;
  Allowance &allowance;
  Best &best;
  std::vector<Node> nodes;
  std::vector<uint32_t> batchesOfStart;
  std::set<Layout> seen;
};

} // namespace

Status climb(const MoveContext &context, const std::vector<Layout> &starts, size_t most, const Family &family,
             wavefront::Order order, Allowance &allowance, Best &best) {
  return Climber(context, family, order, allowance, best).run(starts, most);
}

} // namespace maestro::planner
