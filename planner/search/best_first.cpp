#include "planner/search/best_first.h"

#include <algorithm>
#include <tuple>

namespace maestro::planner {
namespace {

/// Bounds are sums of doubles in another order than the simulator's: they may be too high by this share.
constexpr double kRounding = 1e-9;
/// Nodes beyond the budget in search of any layout at all.
constexpr uint64_t kMostDives = 10'000;

/// A layout, or the first options of one.
struct Node {
  double bound = 0;
  uint32_t family = 0;
  bool isRefined = false; ///< Whole, and bounded by the scheduler's own bound.
  uint64_t number = 0;    ///< In order of creation.
  Layout chosen;
};

/// Nodes that wait: least bound first, then the furthest decided, then the oldest; or the furthest decided first.
class OpenNodes {
public:
  void push(Node node) {
    node.number = number++;
    node.bound *= 1 - kRounding;
    nodes.push_back(std::move(node));
    std::push_heap(nodes.begin(), nodes.end(), Later{deepestFirst});
  }
  Node pop(bool deepest) {
    if (deepest != deepestFirst) {
      deepestFirst = deepest;
      std::make_heap(nodes.begin(), nodes.end(), Later{deepestFirst});
    }
    std::pop_heap(nodes.begin(), nodes.end(), Later{deepestFirst});
    Node node = std::move(nodes.back());
    nodes.pop_back();
    return node;
  }
  bool isEmpty() const { return nodes.empty(); }
  double leastBound() const {
    double least = std::numeric_limits<double>::infinity();
    for (const Node &node : nodes)
      least = std::min(least, node.bound);
    return least;
  }

private:
  struct Later { // Heaps have the largest on top.
    bool deepestFirst;
    bool operator()(const Node &a, const Node &b) const {
      size_t decidedA = a.chosen.size() + a.isRefined, decidedB = b.chosen.size() + b.isRefined;
      if (deepestFirst && decidedA != decidedB)
        return decidedA < decidedB;
      return std::tuple(a.bound, decidedB, a.number) > std::tuple(b.bound, decidedA, b.number);
    }
  };

  std::vector<Node> nodes;
  uint64_t number = 0;
  bool deepestFirst = false;
};

class BestFirst {
public:
  BestFirst(const SearchProblem &problem, const CutTable &cuts, const WorkBounds &bounds, Candidates &candidates,
            const std::vector<Family> &families, wavefront::Order order, Best &best)
      : problem(problem), cuts(cuts), bounds(bounds), candidates(candidates), families(families), order(order),
        best(best) {}

  Status run(Allowance allowance, uint64_t &nodes) {
    Allowance first{allowance.simulations - allowance.simulations / 2, allowance.tasks - allowance.tasks / 2,
                    allowance.nodes};
    MAESTRO_TRY(explore(first, nodes));
    if (best.leastLeft < best.seconds && !best.layout.empty())
      MAESTRO_TRY(improve({allowance.simulations / 2, allowance.tasks / 2, 0}));
    return Status();
  }

private:
  Status explore(Allowance allowance, uint64_t &total) {
    OpenNodes open;
    for (uint32_t f = 0; f < families.size(); ++f)
      open.push({bounds.bound(families[f], {}), f, false, 0, {}});
    uint64_t nodes = 0;
    for (; !open.isEmpty() && !allowance.isSpent() && !candidates.isOver(); ++nodes) {
      // Where the budget ends before any layout is whole, the furthest decided ones come first until one is.
      bool spent = nodes >= allowance.nodes;
      if (spent && (!best.layout.empty() || nodes >= allowance.nodes + kMostDives))
        break;
      Node node = open.pop(spent);
      if (node.bound >= best.seconds)
        continue;
      if (node.isRefined) {
        MAESTRO_ASSIGN([[maybe_unused]] bool better, tryLayout(families[node.family], node.chosen, allowance));
      } else {
        MAESTRO_TRY(expand(std::move(node), open));
      }
    }
    best.leastLeft = std::min(best.leastLeft, open.leastBound());
    total += nodes;
    return Status();
  }

  Result<bool> tryLayout(const Family &family, const Layout &layout, Allowance &allowance) {
    MAESTRO_ASSIGN(const cost_models::Simulation *simulation, candidates.simulate(layout, order, allowance));
    if (simulation->stepSeconds >= best.seconds)
      return false;
    best = {simulation->stepSeconds, family, layout, *simulation, best.leastLeft};
    return true;
  }

  /// A whole layout that fits comes back with the scheduler's bound; others with one more section's option.
  Status expand(Node node, OpenNodes &open) {
    const Family &family = families[node.family];
    if (node.chosen.size() == family.placement.size()) {
      if (!candidates.fits(node.chosen))
        return Status();
      MAESTRO_ASSIGN(double tasks, candidates.tasksBound(node.chosen));
      double bound = std::max(node.bound, bounds.bound(family, node.chosen, tasks));
      open.push({bound, node.family, true, 0, std::move(node.chosen)});
      return Status();
    }
    auto section = static_cast<uint32_t>(node.chosen.size());
    for (LayoutOption &option : optionsOf(problem, cuts, family, section)) {
      if (!fitsAlone(section, option))
        continue;
      node.chosen.push_back(std::move(option));
      double bound = std::max(node.bound, bounds.bound(family, node.chosen));
      if (bound < best.seconds)
        open.push({bound, node.family, false, 0, node.chosen});
      node.chosen.pop_back();
    }
    return Status();
  }

  /// One section's option at a time, each change kept if it helps, until none does.
  Status improve(Allowance allowance) {
    const Family family = best.family;
    for (bool improved = true; improved;) {
      improved = false;
      for (uint32_t s = 0; s < best.layout.size(); ++s)
        for (const LayoutOption &option : optionsOf(problem, cuts, family, s)) {
          Layout layout = best.layout;
          layout[s] = option;
          if (allowance.isSpent() || candidates.isOver())
            return Status();
          if (option == best.layout[s] || bounds.bound(family, layout) >= best.seconds || !candidates.fits(layout))
            continue;
          MAESTRO_ASSIGN(bool better, tryLayout(family, layout, allowance));
          improved |= better;
        }
    }
    return Status();
  }

  /// Whether a section's stages fit with one micro-batch in flight and nothing else on their devices.
  bool fitsAlone(uint32_t section, const LayoutOption &option) const {
    const CutFacts &facts = cuts.find(section, option.cut);
    for (size_t stage = 0; stage < facts.stages.size(); ++stage) {
      const cost_models::StageModel &own = facts.stages[stage];
      const cost_models::StageCosts &costs = own.at[option.microBatch];
      uint64_t bytes = own.residentBytes + costs.slotBytes + costs.workspaceBytes + costs.hostBytes;
      for (const std::vector<uint32_t> &replica : option.devices)
        if (uint64_t has = problem.machine.memoryBytes(replica[stage]); bytes > has) {
          candidates.noteLack(bytes, has, problem.model.sections[section].name);
          return false;
        }
    }
    return true;
  }

  const SearchProblem &problem;
  const CutTable &cuts;
  const WorkBounds &bounds;
  Candidates &candidates;
  const std::vector<Family> &families;
  wavefront::Order order;
  Best &best;
};

} // namespace

Status searchFamilies(const SearchProblem &problem, const CutTable &cuts, const WorkBounds &bounds,
                      Candidates &candidates, const std::vector<Family> &families, wavefront::Order order,
                      Allowance allowance, uint64_t &nodes, Best &best) {
  return BestFirst(problem, cuts, bounds, candidates, families, order, best).run(allowance, nodes);
}

} // namespace maestro::planner
