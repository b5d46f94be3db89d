#include "planner/search/search.h"

#include "planner/search/best_first.h"
#include "planner/search/finalists.h"
#include "planner/search/shapes.h"
#include "planner/search/space_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <thread>

namespace maestro::planner {
namespace {

using wavefront::Order;

/// Spaces of no more placements, on no more devices, are searched as a whole.
constexpr size_t kMostPlacements = 3000;
constexpr uint32_t kFewDevices = 8;
/// Stages of one section.
constexpr uint32_t kMostStages = 64;
/// So many sections have layers with a lighter recompute in eighths, more in quarters.
constexpr size_t kFewSections = 2;
/// Groupings that are simulated, by estimate.
constexpr size_t kMostShapes = 24;
/// Shapes in which one section is held, by estimate.
constexpr size_t kMostHeld = 48;
/// Groupings that are improved by changes.
constexpr size_t kMostStarts = 4;
/// Groupings, by simulation, of which backward tasks are split.
constexpr size_t kMostSplit = 6;
/// A neighbour whose estimate is worse by this factor than the best's is not simulated.
constexpr double kHopeless = 1.15;

/// What more micro-batches in flight, or a split backward, must gain, and where there is nothing to gain.
constexpr double kWorthMemory = 0.997, kNearBound = 1.01;

/// Changes of the best layout that are kept, one after the other.
constexpr int kMostChanges = 8;
/// Where two changes of another layout do not bring it nearer to the best than this, it is left.
constexpr double kPromising = 1.08;

/// Times that a shape is made smaller until it fits.
constexpr int kMostRounds = 6;

/// Estimates of memory may be too low: where nothing fits, the same with less of it.
constexpr double kMemoryShares[] = {1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3};

/// Whether there are parts of layers to choose that have a lighter recompute.
bool hasParts(const SearchProblem &problem) {
  for (uint32_t s = 0; s < problem.pins.size(); ++s)
    for (Recompute most : kRecomputes)
      if (!problem.pins[s].recompute && choiceOf(problem.model, s, most, kLighterParts / 2))
        return true;
  return false;
}

/// Of the whole space, or without parts of layers: a smaller space, in which as much looking finds more. Or of the
/// whole space as at scale, however few devices there are.
enum class Space : uint8_t { Whole, WithoutParts, AsAtScale };

class Search {
public:
  explicit Search(const SearchProblem &problem, Space space = Space::Whole)
      : problem(problem), space(space), work(problem),
        cuts(problem, work, mostStages(problem), problem.machine.devices <= kFewDevices,
             space == Space::WithoutParts ? kLighterParts : kCoarseParts),
        bounds(problem, cuts, work), candidates(problem), shapes(problem, cuts, work),
        isSmall(problem.machine.devices <= kFewDevices && space != Space::AsAtScale) {
    if (isSmall)
      placements = enumeratePlacements(problem, kMostPlacements);
    isSmall = !placements.empty();
  }

  bool looksAtAll() const { return isSmall; }

  /// Of the whole space as it is at scale, where a layout takes so long.
  double bound(double seconds) const {
    CutTable all(problem, work, mostStages(problem), false, finestParts()); // keepMore() is not as coarse.
    return std::min(seconds, spaceBound(problem, all, work, seconds));
  }

  /// Baselines are the whole space's.
  Result<SearchResult> run() {
    Best best;
    if (!problem.baselinesLast && space == Space::Whole)
      MAESTRO_TRY(addBaselines(best));
    double simplest = best.seconds;
    if (isSmall)
      MAESTRO_TRY(searchAll(best));
    else
      MAESTRO_TRY(searchShapes(best));
    if (problem.baselinesLast && best.layout.empty() && space == Space::Whole)
      MAESTRO_TRY(addBaselines(best));
    if (best.layout.empty())
      return nothingFits();
    if (best.seconds < simplest)
      result.winner = "search";
    result.layout = best.layout;
    result.simulation = best.simulation;
    result.wasCutShort = candidates.wasCutShort();
    result.isProven = isSmall && best.leastLeft >= best.seconds;
    result.hints = problem.hints;
    if (isSmall)
      result.lowerBoundSeconds =
          std::min(best.seconds, std::max(best.leastLeft, spaceBound(problem, cuts, work, best.seconds)));
    ComparedLayout row = compared("search", best, Order::Wavefront);
    result.compared.insert(result.compared.begin(), std::move(row));
    result.simulations = candidates.simulations();
    result.simulated = candidates.ranked();
    return std::move(result);
  }

private:
  /// The bound's families grow with it to the power of sections.
  uint32_t finestParts() const { return problem.pins.size() <= kFewSections ? 1 : kCoarseParts; }

  static uint32_t mostStages(const SearchProblem &problem) { return std::min(problem.machine.devices, kMostStages); }

  /// Sections, that with most work first.
  std::vector<uint32_t> byWork() const {
    std::vector<uint32_t> sections(problem.pins.size());
    std::iota(sections.begin(), sections.end(), 0u);
    std::stable_sort(sections.begin(), sections.end(),
                     [&](uint32_t a, uint32_t b) { return work.least(a) > work.least(b); });
    return sections;
  }

  Allowance allowance(uint32_t share) const {
    return {std::max(2u, problem.budget.simulations / share), problem.budget.tasks / share,
            problem.budget.nodes / share};
  }

  /// Granularity of devices' shares: sixteenths of a large cluster, then sixty-fourths.
  std::vector<uint32_t> strides() const {
    uint32_t devices = problem.machine.devices, coarse = std::max(1u, devices / 16), fine = std::max(1u, devices / 64);
    return devices <= 64 ? std::vector<uint32_t>{1} : std::vector<uint32_t>{coarse, fine};
  }

  // ---- baselines ----------------------------------------------------------------------------------------------------

  Status addBaselines(Best &best) {
    if (isSmall) {
      MAESTRO_TRY(addFamilies("all data parallel", dataParallelFamilies(problem, cuts), Order::Wavefront, best));
      MAESTRO_TRY(addFamilies("one layout for all", oneLayoutFamilies(problem, cuts), Order::Wavefront, best));
      return addFamilies("static split", staticSplitFamilies(problem, cuts, work), Order::FileOrder, best);
    }
    MAESTRO_TRY(addShapes(
        "all data parallel", [&](double share) { return shapes.baselineDataParallel(share); }, Order::Wavefront,
        uncutOnly, best));
    MAESTRO_TRY(addShapes(
        "one layout for all", [&](double share) { return shapes.baselineOneLayout(share); }, Order::Wavefront, nothing,
        best));
    Placement split = staticSplit(problem, work);
    return addShapes(
        "static split", [&](double share) { return shapes.baselineStaticSplit(split, share); }, Order::FileOrder,
        anything, best);
  }

  Status addFamilies(std::string name, const std::vector<Family> &families, Order order, Best &overall) {
    Best best;
    MAESTRO_TRY(searchFamilies(problem, cuts, bounds, candidates, families, order, allowance(4), result.nodes, best));
    return addRow(std::move(name), best, order, overall);
  }

  /// What of a shape's neighbourhood a baseline may look at.
  static bool anything(const Shape &, const CutTable &) { return true; }
  static bool nothing(const Shape &, const CutTable &) { return false; }
  static bool uncutOnly(const Shape &shape, const CutTable &cuts) {
    for (uint32_t s = 0; s < shape.options.size(); ++s)
      if (cuts.of(s)[shape.options[s].cut].cut.stages() > 1)
        return false;
    return true;
  }
  using Allows = bool (*)(const Shape &, const CutTable &);

  Status addShapes(std::string name, const std::function<std::vector<Shape>(double)> &shapesWithin, Order order,
                   Allows allows, Best &overall) {
    Best best;
    Allowance left = allowance(4);
    std::vector<Found> found;
    size_t first = left.simulations - left.simulations / 2;
    for (double share : kMemoryShares) {
      MAESTRO_TRY(simulateShapes(shapesWithin(share), order, first, left, best, found));
      if (!found.empty() || candidates.isOver())
        break;
    }
    if (!found.empty())
      MAESTRO_TRY(improve(found.front(), 1, true, order, allows, left, best));
    if (Layout layout = splitBackwards(best.layout); layout != best.layout && !candidates.isOver())
      MAESTRO_TRY(replace(layout, order, best));
    MAESTRO_TRY(fillMemory(order, best));
    return addRow(std::move(name), best, order, overall);
  }

  /// What runs is reordered, so a baseline's layout is a candidate as it would run.
  Status addRow(std::string name, const Best &best, Order order, Best &overall) {
    if (!best.layout.empty()) {
      Allowance one{1, UINT64_MAX, 0};
      MAESTRO_ASSIGN(const cost_models::Simulation *simulation,
                     candidates.simulate(best.layout, Order::Wavefront, one));
      if (simulation->stepSeconds < overall.seconds) {
        Family family = best.family;
        family.only.clear();
        overall = {simulation->stepSeconds, std::move(family), best.layout, *simulation, overall.leastLeft};
        result.winner = name;
      }
    }
    result.compared.push_back(compared(std::move(name), best, order));
    return Status();
  }

  ComparedLayout compared(std::string name, const Best &best, Order order) const {
    ComparedLayout row;
    row.name = std::move(name);
    row.possible = !best.layout.empty();
    row.inFileOrder = order == Order::FileOrder;
    row.layout = best.layout;
    row.simulation = best.simulation;
    row.what = row.possible                  ? describe(problem.model, best.layout)
               : candidates.lack().needs > 0 ? "does not fit the devices' memory"
               : candidates.wasCutShort()    ? "the deadline came first"
                                             : "not possible under the pins or in the devices' memory";
    return row;
  }

  // ---- small spaces -------------------------------------------------------------------------------------------------

  Status searchAll(Best &best) {
    std::vector<Family> families;
    for (Placement &placement : placements)
      families.push_back({std::move(placement), {}});
    return searchFamilies(problem, cuts, bounds, candidates, families, Order::Wavefront, allowance(1), result.nodes,
                          best);
  }

  // ---- at scale -----------------------------------------------------------------------------------------------------

  struct Found {
    double seconds = 0;
    Shape shape;
  };

  Status searchShapes(Best &best) {
    Allowance left = allowance(1);
    std::vector<Found> found;
    std::vector<uint32_t> steps = strides();
    for (double share : kMemoryShares) {
      for (uint32_t stride : steps)
        MAESTRO_TRY(simulateShapes(shapes.best(kMostShapes, stride, share), Order::Wavefront,
                                   problem.budget.simulations / 3 / steps.size(), left, best, found));
      if (!found.empty() || candidates.isOver())
        break;
    }
    MAESTRO_TRY(addHeld(steps.front(), left, best, found));
    // Estimates err by more than groupings differ: each of the best has its chance, and the best of all what is left.
    size_t starts = std::min(kMostStarts, found.size());
    for (size_t start = 0; start < starts; ++start) {
      Allowance own{static_cast<uint32_t>(left.simulations / (starts - start + 1)), left.tasks / (starts - start + 1),
                    0},
          before = own;
      for (uint32_t stride : steps)
        MAESTRO_TRY(improve(found[start], stride, false, Order::Wavefront, anything, own, best));
      left.simulations -= before.simulations - own.simulations;
      left.tasks -= before.tasks - own.tasks;
    }
    auto fastest = std::min_element(found.begin(), found.end(),
                                    [](const Found &a, const Found &b) { return a.seconds < b.seconds; });
    for (uint32_t stride : steps)
      if (fastest != found.end())
        MAESTRO_TRY(improve(*fastest, stride, false, Order::Wavefront, anything, left, best));
    std::vector<Layout> split{splitBackwards(best.layout)};
    for (size_t start = 0; start < std::min(kMostSplit, found.size()); ++start)
      split.push_back(splitBackwards(shapes.layoutOf(found[start].shape)));
    std::erase_if(split, [&](const Layout &layout) { return layout.empty() || layout == best.layout; });
    if (!candidates.isOver())
      candidates.simulateAhead(split, Order::Wavefront);
    for (const Layout &layout : split)
      if (layout != best.layout && !candidates.isOver())
        MAESTRO_TRY(replace(layout, Order::Wavefront, best));
    MAESTRO_TRY(keepMore(best));
    MAESTRO_TRY(fillMemory(Order::Wavefront, best));
    const bool isShared = hasParts(problem); // With the search of the other space, beside this one.
    for (size_t i = 0; i < problem.starts.size() && !candidates.isOver(); ++i) {
      if (isShared && (i % 2 == 1) != (space == Space::WithoutParts))
        continue;
      Best near;
      MAESTRO_TRY(replace(problem.starts[i], Order::Wavefront, near, 1));
      MAESTRO_TRY(refine(near, kPromising * best.seconds));
      if (near.seconds < best.seconds)
        best = std::move(near);
    }
    return refine(best);
  }

  /// The section with most work in every number of replicas and of stages that leaves less than half of the devices
  /// over, in each grouping, whose groups may have whole nodes: from one of them to another is more than a change,
  /// since all others have to change with it. On few devices: at scale there are too many.
  Status addHeld(uint32_t stride, Allowance &left, Best &best, std::vector<Found> &found) {
    uint32_t section = byWork().front();
    const SearchPins &pins = problem.pins[section];
    if (problem.budget.finalists == 0 || found.empty() || pins.devices || pins.dataParallel || pins.stages)
      return Status();
    uint32_t devices = problem.machine.devices,
             node = problem.machine.links.empty() ? 1 : problem.machine.links.front().spans;
    auto atoms = static_cast<uint32_t>(problem.model.sections[section].classOf.size());
    std::vector<Shape> list;
    for (uint32_t stages = 1; stages <= std::min(atoms, mostStages(problem)); ++stages)
      for (uint32_t replicas = devices / stages; replicas * stages * 2 >= devices && !candidates.isOver(); --replicas)
        for (uint32_t each : {stride, std::max(stride, node)})
          for (Shape &shape : shapes.bestWith({section, replicas, stages}, each, 1))
            list.push_back(std::move(shape));
    std::stable_sort(list.begin(), list.end(), [](const Shape &a, const Shape &b) { return a.seconds < b.seconds; });
    list.resize(std::min(list.size(), kMostHeld));
    MAESTRO_TRY(simulateShapes(std::move(list), Order::Wavefront, kMostHeld, left, best, found));
    std::vector<Layout> layouts; // Estimates do not know which section's memory is worth most.
    for (const Found &own : found)
      for (Layout &layout : lightest(shapes.layoutOf(own.shape)))
        layouts.push_back(std::move(layout));
    candidates.simulateAhead(layouts, Order::Wavefront);
    for (const Layout &layout : layouts)
      if (!candidates.isOver())
        MAESTRO_TRY(replace(layout, Order::Wavefront, best, 1));
    return Status();
  }

  Result<bool> tryShape(const Shape &shape, Order order, Allowance &left, Best &best, double &seconds) {
    Layout layout = shapes.layoutOf(shape);
    if (!candidates.fits(layout) || candidates.tasks(layout) > left.tasks)
      return false;
    MAESTRO_ASSIGN(const cost_models::Simulation *simulation, candidates.simulate(layout, order, left));
    seconds = simulation->stepSeconds;
    if (seconds < best.seconds) {
      best.seconds = seconds;
      best.layout = std::move(layout);
      best.simulation = *simulation;
    }
    return true;
  }

  /// Options' bytes are estimates: of what does not fit after all some section gets a smaller one.
  void makeFit(Shape &shape) {
    for (int round = 0; round < kMostRounds; ++round) {
      Candidates::Excess excess = candidates.excess(shapes.layoutOf(shape));
      if (excess.bytes == 0 || !shapes.shrink(shape, excess.sections, excess.bytes))
        return;
    }
  }

  /// Of the shapes from `first` on, those that are next are made to fit, where asked for, and simulated ahead. Returns
  /// the first that was not looked at.
  size_t lookAhead(std::vector<Shape> &list, size_t first, bool fitsThem, Order order, const Allowance &left) {
    std::vector<Layout> layouts;
    for (; first < list.size() && layouts.size() < std::min<size_t>(candidates.atOnce(), left.simulations); ++first) {
      if (fitsThem)
        makeFit(list[first]);
      layouts.push_back(shapes.layoutOf(list[first]));
    }
    std::erase_if(layouts, [&](const Layout &layout) {
      return !candidates.fits(layout) || candidates.tasks(layout) > left.tasks;
    });
    candidates.simulateAhead(layouts, order);
    return first;
  }

  /// The first `most` that fit; `found` has them best first.
  Status simulateShapes(std::vector<Shape> list, Order order, size_t most, Allowance &left, Best &best,
                        std::vector<Found> &found) {
    size_t done = 0, ready = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      const Shape &shape = list[i];
      if (done >= most || left.isSpent() || candidates.isOver())
        break;
      if (i == ready)
        ready = lookAhead(list, i, true, order, left);
      double seconds = 0;
      MAESTRO_ASSIGN(bool fitted, tryShape(shape, order, left, best, seconds));
      if (!fitted)
        continue;
      ++done;
      found.push_back({seconds, shape});
    }
    std::stable_sort(found.begin(), found.end(), [](const Found &a, const Found &b) { return a.seconds < b.seconds; });
    return Status();
  }

  /// Changes of the shape, the most promising first, each kept if it helps, until none does.
  Status improve(Found &found, uint32_t stride, bool keepsGroups, Order order, Allows allows, Allowance &left,
                 Best &best) {
    Shape &shape = found.shape;
    MAESTRO_ASSIGN(bool fitted, tryShape(shape, order, left, best, found.seconds));
    for (bool improved = fitted; improved;) {
      improved = false;
      double estimate = shapes.evaluate(shape);
      std::vector<Shape> list = shapes.neighbours(shape, stride, keepsGroups);
      std::erase_if(list,
                    [&](const Shape &next) { return next.seconds > kHopeless * estimate || !allows(next, cuts); });
      size_t ready = 0;
      for (size_t i = 0; i < list.size(); ++i) {
        const Shape &next = list[i];
        if (left.isSpent() || candidates.isOver())
          return Status();
        if (i == ready)
          ready = lookAhead(list, i, !keepsGroups, order, left);
        double seconds = 0;
        MAESTRO_ASSIGN(bool possible, tryShape(next, order, left, best, seconds));
        if (possible && seconds < found.seconds) {
          found.seconds = seconds;
          shape = next;
          improved = true;
          break;
        }
      }
    }
    return Status();
  }

  /// With the next lighter recompute in as many layers of a section as have memory for it, and in fewer where that
  /// leaves more stages with a split backward.
  std::vector<Layout> keepingMore(const Layout &layout, uint32_t s) {
    std::vector<Layout> found;
    const SectionCut &cut = layout[s].cut;
    int64_t mostSplit = -1;
    for (uint32_t parts = kLighterParts - finestParts(); parts > 0 && mostSplit < cut.splitStages;
         parts -= finestParts()) {
      std::optional<RecomputeChoice> lighter = choiceOf(problem.model, s, cut.recompute.most, parts);
      if (problem.pins[s].recompute || !lighter || lighter->lighter <= cut.recompute.lighter)
        continue;
      Layout next = layout;
      SectionCut &own = next[s].cut;
      own = cutOf(problem, work, s, *lighter, static_cast<uint32_t>(own.stages()), own.splitStages);
      while (!candidates.fits(next) && own.splitStages > 0 && !problem.pins[s].splitStages)
        --own.splitStages;
      if (own.splitStages <= mostSplit || !candidates.fits(next))
        continue;
      mostSplit = own.splitStages;
      found.push_back(std::move(next));
    }
    return found;
  }

  /// The section that gains most by it first. What gains too little is a candidate all the same (chooseTuned()).
  Status keepMore(Best &best) {
    for (bool gained = !best.layout.empty(); gained && !candidates.isOver();) {
      std::vector<Layout> all;
      for (uint32_t s = 0; s < best.layout.size(); ++s)
        for (Layout &layout : keepingMore(best.layout, s))
          all.push_back(std::move(layout));
      candidates.simulateAhead(all, Order::Wavefront);
      double before = best.seconds;
      for (const Layout &layout : all)
        if (!candidates.isOver())
          MAESTRO_TRY(replace(layout, Order::Wavefront, best));
      gained = best.seconds < before;
    }
    // All of them at once: one alone gains nothing where another section is slower.
    const Layout chosen = best.layout;
    for (bool most : {true, false}) {
      Layout layout = chosen;
      for (uint32_t s = 0; s < layout.size(); ++s)
        if (std::vector<Layout> more = keepingMore(layout, s); !more.empty())
          layout = std::move(most ? more.front() : more.back());
      if (layout != chosen && !candidates.isOver())
        MAESTRO_TRY(replace(layout, Order::Wavefront, best));
    }
    return Status();
  }

  /// With backward in two tasks, in as many sections and stages as that may help and that have the memory for it.
  /// Shapes are looked for without: schedules of whole backward tasks take less time to make.
  Layout splitBackwards(Layout layout) {
    for (uint32_t s = 0; s < layout.size(); ++s) {
      SectionCut &cut = layout[s].cut;
      if (problem.pins[s].splitStages || !mayGainBySplitting(problem, s, cut.stages()) ||
          !problem.model.sections[s].has(cut.recompute, true))
        continue;
      for (cut.splitStages = static_cast<uint32_t>(cut.stages()); cut.splitStages > 0 && !candidates.fits(layout);)
        --cut.splitStages;
    }
    return layout;
  }

  /// Where the layout is faster by more than what its memory is worth.
  Status replace(const Layout &layout, Order order, Best &best, double worth = kWorthMemory) {
    Allowance one{1, UINT64_MAX, 0};
    MAESTRO_ASSIGN(const cost_models::Simulation *simulation, candidates.simulate(layout, order, one));
    if (simulation->stepSeconds < worth * best.seconds) {
      best.seconds = simulation->stepSeconds;
      best.layout = layout;
      best.simulation = *simulation;
    }
    return Status();
  }

  /// More micro-batches in flight than usual, in as many sections as have memory left for them, where that gains
  /// something.
  Status fillMemory(Order order, Best &best) {
    Layout layout = best.layout; // Where more does not fit, what did before stays.
    for (uint32_t more : kMoreInFlight) {
      if (layout.empty() || best.simulation.makespanSeconds < kNearBound * best.simulation.lowerBoundSeconds)
        return Status();
      const Layout before = layout;
      for (size_t s = 0; s < layout.size(); ++s) {
        if (problem.pins[s].moreInFlight)
          continue;
        layout[s].moreInFlight = more;
        if (!candidates.fits(layout))
          layout[s].moreInFlight = before[s].moreInFlight;
      }
      if (layout == before || candidates.isOver())
        continue;
      MAESTRO_TRY(replace(layout, order, best));
    }
    return Status();
  }

  // ---- one change of a layout at a time
  // -------------------------------------------------------------------------------

  /// With the recompute of a section that takes least of those that fit.
  Layout lightest(const Layout &layout, uint32_t s) {
    const cost_models::AtomicSection &section = problem.model.sections[s];
    if (!section.trains || problem.pins[s].recompute)
      return layout;
    std::vector<std::pair<double, RecomputeChoice>> all;
    for (Recompute most : kRecomputes)
      for (uint32_t parts = 0; parts < kLighterParts; parts += finestParts())
        if (std::optional<RecomputeChoice> choice = choiceOf(problem.model, s, most, parts))
          all.push_back(
              {work.work(s, *choice, layout[s].microBatch, 0, static_cast<uint32_t>(section.classOf.size())), *choice});
    std::stable_sort(all.begin(), all.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
    Layout next = layout;
    for (const auto &[seconds, choice] : all) {
      const SectionCut &now = layout[s].cut;
      if (problem.pins[s].splitStages.value_or(0) > 0 && !section.has(choice, true))
        continue;
      next[s].cut = cutOf(problem, work, s, choice, static_cast<uint32_t>(now.stages()),
                          section.has(choice, true) ? now.splitStages : 0);
      if (candidates.fits(next))
        return next;
    }
    return layout;
  }

  /// With the recompute of a section that holds least.
  Layout heaviest(Layout layout, uint32_t s) const {
    SectionCut &cut = layout[s].cut;
    if (problem.model.sections[s].trains && !problem.pins[s].recompute && !problem.pins[s].splitStages)
      if (std::optional<RecomputeChoice> choice = choiceOf(problem.model, s, Recompute::Full, 0))
        cut = cutOf(problem, work, s, *choice, static_cast<uint32_t>(cut.stages()), 0);
    return layout;
  }

  /// With what is lightest of all sections' recompute: each beside the others', and first that of the section with most
  /// work, then the others'. What fits.
  std::vector<Layout> lightest(const Layout &layout) {
    Layout next = layout, anew = layout;
    for (uint32_t s = 0; s < layout.size(); ++s)
      next = lightest(next, s);
    for (uint32_t s = 0; s < layout.size(); ++s)
      anew = heaviest(std::move(anew), s);
    for (uint32_t s : byWork())
      anew = lightest(anew, s);
    std::vector<Layout> found;
    for (Layout *own : {&next, &anew})
      if (candidates.fits(*own))
        found.push_back(std::move(*own));
    return found;
  }

  /// All devices of a section and of those that share some with it.
  static std::vector<uint32_t> sharedBy(const Layout &layout, uint32_t s) {
    std::set<uint32_t> shared = devicesOf(layout[s]);
    for (size_t before = 0; before != shared.size();) {
      before = shared.size();
      for (const LayoutOption &other : layout) {
        std::set<uint32_t> own = devicesOf(other);
        if (std::any_of(own.begin(), own.end(), [&](uint32_t device) { return shared.count(device) > 0; }))
          shared.insert(own.begin(), own.end());
      }
    }
    return {shared.begin(), shared.end()};
  }

  /// The next sizes of micro-batches, other stages and replicas, more or fewer in flight: each with the lightest
  /// recompute that fits then, in all sections, as what one holds less others may hold more.
  std::vector<Layout> changesOf(const Layout &layout) {
    std::vector<Layout> list;
    bool isSplit =
        std::any_of(layout.begin(), layout.end(), [](const LayoutOption &own) { return own.cut.splitStages > 0; });
    auto add = [&](const Layout &next, bool splits) {
      for (Layout own : lightest(next)) {
        if (splits)
          own = splitBackwards(std::move(own));
        if (own != layout && std::find(list.begin(), list.end(), own) == list.end())
          list.push_back(std::move(own));
      }
    };
    add(layout, isSplit);
    if (Layout split = splitBackwards(layout); split != layout)
      list.push_back(std::move(split));
    for (uint32_t s = 0; s < layout.size(); ++s) {
      const SearchPins &pins = problem.pins[s];
      const std::vector<cost_models::MicroBatchCapacity> &capacities = problem.model.sections[s].capacities;
      auto with = [&](auto change, bool splits) {
        Layout next = layout;
        change(next[s]);
        add(next, splits);
      };
      if (!pins.splitStages && layout[s].cut.splitStages > 0)
        with([&](LayoutOption &own) { own.cut.splitStages = 0; }, false);
      uint32_t m = layout[s].microBatch;
      if (!pins.microBatch && m > 0)
        with([&](LayoutOption &own) { own.microBatch = m - 1; }, isSplit);
      if (!pins.microBatch && m + 1 < capacities.size() && !isSame(capacities[m], capacities[m + 1]))
        with([&](LayoutOption &own) { own.microBatch = m + 1; }, isSplit);
      for (uint32_t more : {0u, kMoreInFlight[0]})
        if (!pins.moreInFlight && more != layout[s].moreInFlight)
          with([&](LayoutOption &own) { own.moreInFlight = more; }, isSplit);
      if (pins.stages || pins.dataParallel || pins.splitStages || pins.devices)
        continue;
      const std::vector<uint32_t> devices = sharedBy(layout, s);
      auto now = static_cast<uint32_t>(layout[s].cut.stages());
      for (uint32_t stages = 1; stages <= std::min({mostStages(problem), static_cast<uint32_t>(devices.size()),
                                                    static_cast<uint32_t>(problem.model.sections[s].classOf.size())});
           ++stages)
        if (auto replicas = static_cast<uint32_t>(devices.size()) / stages;
            stages != now && replicas * stages * 8 >= devices.size() * 7)
          with(
              [&](LayoutOption &own) {
                uint32_t more = own.moreInFlight;
                SectionCut cut = cutOf(problem, work, s, own.cut.recompute, stages, 0);
                own = placed(cut, own.microBatch, replicas, {devices.begin(), devices.begin() + replicas * stages},
                             isByStage(own));
                own.moreInFlight = more;
              },
              isSplit);
    }
    return list;
  }

  /// From the best layout as long as one of its changes makes the step shorter, and two of them make it no longer than
  /// `most`. On few devices: at scale schedules take too long.
  Status refine(Best &best, double most = std::numeric_limits<double>::infinity()) {
    bool gains = problem.budget.finalists > 0 && !best.layout.empty();
    for (int round = 0; gains && round < kMostChanges && (round < 2 || best.seconds <= most) && !candidates.isOver();
         ++round) {
      std::vector<Layout> list = changesOf(best.layout);
      candidates.simulateAhead(list, Order::Wavefront);
      double before = best.seconds;
      for (const Layout &layout : list)
        if (!candidates.isOver())
          MAESTRO_TRY(replace(layout, Order::Wavefront, best, 1));
      gains = best.seconds < before;
    }
    return Status();
  }

  // ---- the answer ---------------------------------------------------------------------------------------------------

  Status nothingFits() const {
    const Candidates::Lack &lack = candidates.lack();
    auto gib = [](uint64_t bytes) { return static_cast<double>(bytes) / 0x1p30; };
    if (lack.needs == 0)
      return Status::invalidInput("no layout fits: " + lackOfSections());
    return Status::invalidInput(
        fmt::format("no layout fits: a device needs {:.3f} GiB at least and has {:.3f} (it runs {})", gib(lack.needs),
                    gib(lack.has), lack.sections));
  }

  /// The sections that no cut makes small enough, or that are only together too much.
  std::string lackOfSections() const {
    uint64_t has = 0;
    for (const cost_models::DeviceModel &kind : problem.machine.kinds)
      has = std::max(has, kind.memoryBytes);
    auto gib = [](uint64_t bytes) { return static_cast<double>(bytes) / 0x1p30; };
    std::string text;
    for (uint32_t s = 0; s < problem.pins.size(); ++s)
      if (uint64_t needs = shapes.leastBytes(s); needs != UINT64_MAX && needs > has)
        text += fmt::format("{}section '{}' needs {:.3f} GiB on a device at least, {:.3f} more than one has",
                            text.empty() ? "" : "; ", problem.model.sections[s].name, gib(needs), gib(needs - has));
    return text.empty() ? fmt::format("the sections together need more than {} devices of {:.3f} GiB have",
                                      problem.machine.devices, gib(has))
                        : text;
  }

  const SearchProblem &problem;
  Space space;
  WorkTable work;
  CutTable cuts;
  WorkBounds bounds;
  Candidates candidates;
  Shapes shapes;
  bool isSmall;
  std::vector<Placement> placements;
  SearchResult result;
};

/// Adds what a search of a part of the space found.
void merge(const AtomicModel &model, SearchResult other, SearchResult &result) {
  result.simulations += other.simulations;
  result.nodes += other.nodes;
  result.wasCutShort |= other.wasCutShort;
  if (other.simulation.stepSeconds < result.simulation.stepSeconds) {
    answerWith(model, {std::move(other.layout), std::move(other.simulation)}, "search", result);
  }
  for (RankedLayout &own : other.simulated)
    if (std::none_of(result.simulated.begin(), result.simulated.end(),
                     [&](const RankedLayout &there) { return there.layout == own.layout; }))
      result.simulated.push_back(std::move(own));
  std::stable_sort(result.simulated.begin(), result.simulated.end(), [](const RankedLayout &a, const RankedLayout &b) {
    return a.simulation.stepSeconds < b.simulation.stepSeconds;
  });
}

void rank(uint32_t topK, SearchResult &result) {
  result.ranked.push_back({result.layout, result.simulation});
  for (const RankedLayout &own : result.simulated)
    if (result.ranked.size() < topK && own.layout != result.layout)
      result.ranked.push_back(own);
}

/// In the whole space, and beside it in the smaller one, on another processor, so that it takes no longer.
Result<SearchResult> searchSpaces(const SearchProblem &problem, Search &search) {
  std::future<Result<SearchResult>> beside;
  if (!search.looksAtAll() && hasParts(problem))
    beside = std::async(std::launch::async, [&] { return Search(problem, Space::WithoutParts).run(); });
  Result<SearchResult> result = search.run();
  if (search.looksAtAll() && result.isOk() && !result->isProven &&
      !result->wasCutShort) // The budget ended before the space did.
    beside = std::async(std::launch::deferred, [&] { return Search(problem, Space::AsAtScale).run(); });
  if (beside.valid())
    if (Result<SearchResult> other = beside.get(); other.isOk() && result.isOk()) {
      merge(problem.model, std::move(*other), *result);
      if (search.looksAtAll()) // What was looked at as at scale has more kinds of recompute and of split backward.
        result->lowerBoundSeconds = search.bound(result->simulation.stepSeconds);
    }
  return result;
}

/// Once more, near the best layouts of the first search and with schedules that begin where theirs do.
Status searchAgain(const SearchProblem &problem, SearchResult &result) {
  auto isOver = [&] { return problem.isOver && problem.isOver(); };
  SearchProblem again = problem;
  if (!isOver())
    beginWith(problem, result, again);
  if (isOver()) {
    result.wasCutShort = true;
    return Status();
  }
  Search search(again);
  Result<SearchResult> other = searchSpaces(again, search);
  if (!other.isOk() && isOver()) { // Before it found any.
    result.wasCutShort = true;
    return Status();
  }
  if (!other.isOk())
    return std::move(other).takeStatus();
  chooseTuned(again, *other);
  uint32_t simulations = result.simulations + other->simulations;
  bool wasCutShort = result.wasCutShort || other->wasCutShort;
  auto seconds = [](const SearchResult &own) {
    return own.tuned ? own.tuned->stepSeconds : own.simulation.stepSeconds;
  };
  if (seconds(*other) <= seconds(result))
    result = std::move(*other);
  else
    chooseTuned(problem, result);
  result.simulations = simulations;
  result.wasCutShort = wasCutShort;
  return Status();
}

} // namespace

Result<SearchResult> searchLayouts(const SearchProblem &problem) {
  MAESTRO_TRY(check(problem));
  Search search(problem);
  Result<SearchResult> result = searchSpaces(problem, search);
  if (!result.isOk())
    return result;
  if (!search.looksAtAll()) {
    if (problem.budget.finalists > 0)
      MAESTRO_TRY(searchAgain(problem, *result));
    tuneThoroughly(problem, *result);
    result->lowerBoundSeconds = search.bound(result->simulation.stepSeconds);
    result->wasCutShort |= problem.isOver && problem.isOver(); // The bound or the tuning.
  }
  rank(problem.topK, *result);
  return result;
}

} // namespace maestro::planner
