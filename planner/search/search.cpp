#include "planner/search/search.h"

#include "executor/wavefront/lower_bound.h"
#include "planner/search/search_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace maestro::planner {
namespace {

using cost_models::Simulation;
using cost_models::Simulator;

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Bounds are sums of doubles in another order than the simulator's: they may be too high by this share.
constexpr double kRounding = 1e-9;
/// Nodes beyond the budget in search of any layout at all.
constexpr uint64_t kMostDives = 10'000;

/// A layout, or the first choices of one.
struct Node {
  double bound = 0;
  uint32_t family = 0;
  bool isRefined = false; ///< Whole, and bounded by the scheduler's own bound.
  uint64_t number = 0;    ///< In order of creation.
  CompoundLayout chosen;
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
    double least = kNever;
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

struct Best {
  double seconds = kNever;
  Family family;
  CompoundLayout layout;
  Simulation simulation;
  double leastLeft = kNever; ///< The least bound of what was not looked at.
  uint64_t largestNeed = 0;  ///< The least bytes that were found too many for a device; 0: all fitted.
};

class Search {
public:
  explicit Search(const SearchProblem &problem) : problem(problem), bounds(problem), simulator(problem.steps) {}

  Result<SearchResult> run() {
    Best best;
    MAESTRO_TRY(addBaseline("all data parallel", dataParallelFamilies(problem), wavefront::Order::Wavefront, best));
    MAESTRO_TRY(addBaseline("one layout for all", oneLayoutFamilies(problem), wavefront::Order::Wavefront, best));
    MAESTRO_TRY(addBaseline("static split", staticSplitFamilies(problem), wavefront::Order::FileOrder, best));
    double simplest = best.seconds;
    MAESTRO_TRY(explore(allFamilies(problem), wavefront::Order::Wavefront, problem.budget.simulations, best));
    if (best.layout.empty())
      return Status::invalidInput(fmt::format(
          "no layout fits: a device needs {:.3f} GiB at least and has {:.3f}",
          static_cast<double>(best.largestNeed) / 0x1p30, static_cast<double>(problem.machine.kinds[0].memoryBytes) / 0x1p30));
    if (best.seconds < simplest)
      result.winner = "search";
    result.model = best.family.model;
    result.layout = best.layout;
    result.simulation = best.simulation;
    result.isProven = best.leastLeft >= best.seconds;
    result.lowerBoundSeconds = std::min(best.seconds, best.leastLeft);
    ComparedLayout row = compared("search", best, wavefront::Order::Wavefront);
    result.compared.insert(result.compared.begin(), std::move(row));
    return std::move(result);
  }

private:
  ComparedLayout compared(std::string name, const Best &best, wavefront::Order order) const {
    ComparedLayout row;
    row.name = std::move(name);
    row.possible = !best.layout.empty();
    row.inFileOrder = order == wavefront::Order::FileOrder;
    row.model = best.family.model;
    row.layout = best.layout;
    row.simulation = best.simulation;
    row.what = row.possible           ? describe(problem.models[row.model], best.layout)
               : best.largestNeed > 0 ? "does not fit the devices' memory"
                                      : "not possible under the pins";
    return row;
  }

  /// What runs is reordered, so a baseline's layout is a candidate as it would run.
  Status addBaseline(std::string name, const std::vector<Family> &families, wavefront::Order order, Best &overall) {
    Best best;
    MAESTRO_TRY(explore(families, order, std::max(2u, problem.budget.simulations / 4), best));
    if (!best.layout.empty()) {
      MAESTRO_ASSIGN(Simulation simulation, simulate(best.family.model, best.layout, wavefront::Order::Wavefront));
      if (simulation.stepSeconds < overall.seconds) {
        overall = {simulation.stepSeconds, {best.family.model, best.family.placement, {}}, best.layout, simulation, kNever, 0};
        result.winner = name;
      }
    }
    result.compared.push_back(compared(std::move(name), best, order));
    return Status();
  }

  Result<Simulation> simulate(uint32_t model, const CompoundLayout &layout, wavefront::Order order) {
    auto [found, isNew] = known.try_emplace(std::tuple(model, order, layout));
    if (isNew) {
      ++result.simulations;
      MAESTRO_ASSIGN(found->second, simulator.run(problem.models[model], problem.machine, layout, order));
    }
    return found->second;
  }

  /// The scheduler's lower bound of the mean step's tasks.
  Result<double> tasksBound(uint32_t model, const CompoundLayout &layout) {
    wavefront::Problem schedule = cost_models::makeProblem(problem.models[model], problem.machine, layout);
    double total = 0;
    for (const cost_models::SampleSizes &sizes : problem.steps) {
      schedule.sizes = sizes;
      MAESTRO_TRY(wavefront::check(schedule));
      total += static_cast<double>(wavefront::lowerBound(schedule)) * 1e-9;
    }
    return total / static_cast<double>(problem.steps.size());
  }

  /// Improves `best` with layouts of the families: best first, and where that does not come to an end, with the other half
  /// of the simulations in the neighbourhood of what was found.
  Status explore(const std::vector<Family> &families, wavefront::Order order, uint32_t simulations, Best &best) {
    MAESTRO_TRY(bestFirst(families, order, simulations - simulations / 2, best));
    if (best.leastLeft < best.seconds && !best.layout.empty())
      MAESTRO_TRY(improve(order, simulations / 2, best));
    return Status();
  }

  /// One section's choice at a time, each change kept if it helps, until none does.
  Status improve(wavefront::Order order, uint32_t simulations, Best &best) {
    for (bool improved = true; improved;) {
      improved = false;
      for (uint32_t s = 0; s < best.layout.size(); ++s)
        for (const SectionChoice &option : optionsOf(problem, best.family, s)) {
          CompoundLayout layout = best.layout;
          layout[s] = option;
          if (option == best.layout[s] || bounds.bound(best.family, layout) >= best.seconds ||
              !noteFit(best.family.model, layout, best))
            continue;
          uint32_t before = result.simulations;
          MAESTRO_ASSIGN(Simulation simulation, simulate(best.family.model, layout, order));
          if (simulation.stepSeconds < best.seconds) {
            best.seconds = simulation.stepSeconds;
            best.layout = std::move(layout);
            best.simulation = std::move(simulation);
            improved = true;
          }
          if (result.simulations - before >= simulations)
            return Status();
          simulations -= result.simulations - before;
        }
    }
    return Status();
  }

  Status bestFirst(const std::vector<Family> &families, wavefront::Order order, uint32_t simulations, Best &best) {
    OpenNodes open;
    for (uint32_t f = 0; f < families.size(); ++f)
      open.push({bounds.bound(families[f], {}), f, false, 0, {}});
    uint64_t nodes = 0;
    for (; !open.isEmpty() && simulations > 0; ++nodes) {
      // Where the budget ends before any layout is whole, the furthest decided ones come first until one is.
      bool spent = nodes >= problem.budget.nodes;
      if (spent && (!best.layout.empty() || nodes >= problem.budget.nodes + kMostDives))
        break;
      Node node = open.pop(spent);
      if (node.bound >= best.seconds)
        continue;
      if (node.isRefined) {
        --simulations;
        const Family &family = families[node.family];
        MAESTRO_ASSIGN(Simulation simulation, simulate(family.model, node.chosen, order));
        if (simulation.stepSeconds < best.seconds)
          best = {simulation.stepSeconds, family, node.chosen, simulation, best.leastLeft, best.largestNeed};
      } else {
        MAESTRO_TRY(expand(families[node.family], std::move(node), open, best));
      }
    }
    best.leastLeft = std::min(best.leastLeft, open.leastBound());
    result.nodes += nodes;
    return Status();
  }

  /// A whole layout that fits comes back with the scheduler's bound; others with one more section's choice.
  Status expand(const Family &family, Node node, OpenNodes &open, Best &best) {
    if (node.chosen.size() == family.placement.size()) {
      if (!noteFit(family.model, node.chosen, best))
        return Status();
      MAESTRO_ASSIGN(double tasks, tasksBound(family.model, node.chosen));
      double bound = std::max(node.bound, bounds.bound(family, node.chosen, tasks));
      open.push({bound, node.family, true, 0, std::move(node.chosen)});
      return Status();
    }
    for (SectionChoice &option : optionsOf(problem, family, static_cast<uint32_t>(node.chosen.size()))) {
      if (!noteFitsAlone(family.model, node.chosen.size(), option, best))
        continue;
      Node next{0, node.family, false, 0, node.chosen};
      next.chosen.push_back(std::move(option));
      next.bound = std::max(node.bound, bounds.bound(family, next.chosen));
      if (next.bound < best.seconds)
        open.push(std::move(next));
    }
    return Status();
  }

  /// Whether a section's stages fit with one micro-batch in flight and nothing else on their devices.
  bool noteFitsAlone(uint32_t model, size_t section, const SectionChoice &choice, Best &best) const {
    uint64_t most = 0;
    for (const cost_models::StageModel &stage : problem.models[model].sections[section].stages) {
      const cost_models::StageCosts &costs = stage.at[choice.microBatch];
      most = std::max(most, stage.residentBytes + costs.slotBytes + costs.workspaceBytes + costs.hostBytes);
    }
    return noteBytes(most, best);
  }

  bool noteFit(uint32_t model, const CompoundLayout &layout, Best &best) const {
    std::vector<uint64_t> bytes = cost_models::deviceBytes(problem.models[model], problem.machine, layout);
    return noteBytes(*std::max_element(bytes.begin(), bytes.end()), best);
  }

  bool noteBytes(uint64_t fullest, Best &best) const {
    if (fullest <= problem.machine.kinds[0].memoryBytes)
      return true;
    best.largestNeed = best.largestNeed == 0 ? fullest : std::min(best.largestNeed, fullest);
    return false;
  }

  const SearchProblem &problem;
  WorkBounds bounds;
  Simulator simulator;
  SearchResult result;
  std::map<std::tuple<uint32_t, wavefront::Order, CompoundLayout>, Simulation> known;
};

} // namespace

Result<SearchResult> searchLayouts(const SearchProblem &problem) {
  MAESTRO_TRY(check(problem));
  return Search(problem).run();
}

} // namespace maestro::planner
