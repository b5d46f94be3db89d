#include "planner/search/search.h"

#include "executor/wavefront/lower_bound.h"
#include "planner/search/search_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <tuple>

namespace maestro::planner {
namespace {

using cost_models::Simulation;
using cost_models::Simulator;

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Bounds are sums of doubles in another order than the simulator's: they may be too high by this share.
constexpr double kRounding = 1e-9;

/// A layout, or the first choices of one.
struct Node {
  double bound = 0;
  uint32_t family = 0;
  bool isRefined = false; ///< Whole, and bounded by the scheduler's own bound.
  uint64_t number = 0;    ///< In order of creation.
  CompoundLayout chosen;

  /// std::priority_queue takes the largest: least bound, then the furthest decided, then the oldest.
  bool operator<(const Node &other) const {
    return std::tuple(bound, other.chosen.size(), other.isRefined, number) >
           std::tuple(other.bound, chosen.size(), isRefined, other.number);
  }
};

struct Best {
  double seconds = kNever;
  uint32_t model = 0;
  CompoundLayout layout;
  Simulation simulation;
  double leastLeft = kNever; ///< The least bound of what was not looked at.
  uint64_t largestNeed = 0;  ///< Bytes of the fullest device of the smallest layout that did not fit; 0: all fitted.
};

class Search {
public:
  explicit Search(const SearchProblem &problem) : problem(problem), bounds(problem), simulator(problem.steps) {}

  Result<SearchResult> run() {
    MAESTRO_TRY(addBaseline("all data parallel", dataParallelFamilies(problem), wavefront::Order::Wavefront));
    MAESTRO_TRY(addBaseline("one layout for all", oneLayoutFamilies(problem), wavefront::Order::Wavefront));
    MAESTRO_TRY(addBaseline("static split", staticSplitFamilies(problem), wavefront::Order::FileOrder));
    Best best;
    for (const ComparedLayout &row : result.compared)
      if (row.possible) {
        // What runs is reordered; a baseline's layout is a candidate as it would run.
        MAESTRO_ASSIGN(Simulation simulation, simulate(row.model, row.layout, wavefront::Order::Wavefront));
        if (simulation.stepSeconds < best.seconds) {
          best = {simulation.stepSeconds, row.model, row.layout, simulation, kNever, 0};
          result.winner = row.name;
        }
      }
    double simplest = best.seconds;
    MAESTRO_TRY(explore(allFamilies(problem), wavefront::Order::Wavefront, problem.budget.simulations, best));
    if (best.layout.empty())
      return Status::invalidInput(fmt::format(
          "no layout fits: the smallest one needs {} bytes on its fullest device, which has {}", best.largestNeed,
          problem.machine.deviceBytes));
    if (best.seconds < simplest)
      result.winner = "search";
    result.model = best.model;
    result.layout = best.layout;
    result.simulation = best.simulation;
    result.isProven = best.leastLeft == kNever;
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
    row.model = best.model;
    row.layout = best.layout;
    row.simulation = best.simulation;
    row.what = row.possible         ? describe(problem.models[best.model], best.layout)
               : best.largestNeed > 0 ? "does not fit the devices' memory"
                                      : "not possible under the pins";
    return row;
  }

  Status addBaseline(std::string name, const std::vector<Family> &families, wavefront::Order order) {
    Best best;
    MAESTRO_TRY(explore(families, order, std::max(1u, problem.budget.simulations / 4), best));
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

  /// Improves `best` with layouts of the families, in order of their bounds.
  Status explore(const std::vector<Family> &families, wavefront::Order order, uint32_t simulations, Best &best) {
    std::priority_queue<Node> open;
    uint64_t number = 0, nodes = 0;
    auto push = [&](Node node) {
      node.number = number++;
      node.bound *= 1 - kRounding;
      if (node.bound < best.seconds)
        open.push(std::move(node));
    };
    for (uint32_t f = 0; f < families.size(); ++f)
      push({bounds.bound(families[f], {}), f, false, 0, {}});
    while (!open.empty() && open.top().bound < best.seconds) {
      if (simulations == 0 || nodes >= problem.budget.nodes) {
        best.leastLeft = std::min(best.leastLeft, open.top().bound);
        break;
      }
      Node node = open.top();
      open.pop();
      ++nodes;
      const Family &family = families[node.family];
      if (node.isRefined) {
        --simulations;
        MAESTRO_ASSIGN(Simulation simulation, simulate(family.model, node.chosen, order));
        if (simulation.stepSeconds < best.seconds)
          best = {simulation.stepSeconds, family.model, node.chosen, simulation, best.leastLeft, best.largestNeed};
      } else if (node.chosen.size() == family.placement.size()) {
        if (!noteFit(family.model, node.chosen, best))
          continue;
        MAESTRO_ASSIGN(double tasks, tasksBound(family.model, node.chosen));
        push({std::max(node.bound, bounds.bound(family, node.chosen, tasks)), node.family, true, 0, std::move(node.chosen)});
      } else {
        for (SectionChoice &option : optionsOf(problem, family, static_cast<uint32_t>(node.chosen.size()))) {
          Node next{0, node.family, false, 0, node.chosen};
          next.chosen.push_back(std::move(option));
          next.bound = std::max(node.bound, bounds.bound(family, next.chosen));
          push(std::move(next));
        }
      }
    }
    result.nodes += nodes;
    return Status();
  }

  bool noteFit(uint32_t model, const CompoundLayout &layout, Best &best) const {
    std::vector<uint64_t> bytes = cost_models::deviceBytes(problem.models[model], problem.machine, layout);
    uint64_t fullest = *std::max_element(bytes.begin(), bytes.end());
    if (fullest <= problem.machine.deviceBytes)
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
