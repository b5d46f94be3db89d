#include "planner/driver/layout_search.h"

#include "ir/section/section.h"
#include "planner/driver/emitted_model.h"
#include "planner/driver/finer_sizes.h"
#include "planner/search/pinned.h"
#include "planner/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace maestro::planner {
namespace {

/// Trial emissions of so many operators together: about a second.
constexpr size_t kTrialOperators = 60'000;
constexpr size_t kMostSizes = 8;
/// Largest micro-batch that is tried unless it is pinned, as a multiple of the one taken where nothing is searched.
constexpr int64_t kLargest = 4;
/// On no more devices pipelines are short, and the whole space is searched: finer sizes would bring little, and cost
/// much.
constexpr uint32_t kFewDevices = 8;
/// What a search may spend: about two seconds. With 256, steps on 64 devices are 1 % shorter.
constexpr uint32_t kSimulations = 200;
constexpr uint64_t kTasks = 1'500'000, kTasksAtOnce = 30'000;
/// And searching again, where the emitted plan needs more memory than its layers add up to, as a part of that.
constexpr uint32_t kAgainShare = 6;
/// Schedules far from their bound would take ten times as long.
constexpr int64_t kNsPerTask = 800;
/// What explaining its answer may spend.
constexpr uint64_t kExplainTasks = 200'000;

/// "stages,devices" in the environment: moves that the search leaves out, for bench/planning.py --without.
std::set<std::string> movesLeftOut() {
  std::set<std::string> names;
  const char *text = std::getenv("MAESTRO_SEARCH_WITHOUT");
  std::istringstream list(text ? text : "");
  for (std::string name; std::getline(list, name, ',');)
    names.insert(name);
  return names;
}

/// The fewest devices, of those there are times a power of two up to 64, that hold the workload; nothing where none do.
std::optional<uint32_t> smallestCluster(const SearchProblem &problem) {
  for (const SearchPins &pins : problem.pins)
    if (pins.devices)
      return std::nullopt;
  if (!problem.machine.kindOf.empty())
    return std::nullopt;
  constexpr uint64_t kTasksEach = 60'000;
  SearchProblem larger = problem;
  larger.budget = {1, kTasksEach, std::min(problem.budget.tasksAtOnce, kTasksEach)};
  for (uint32_t factor = 2; factor <= 64; factor *= 2) {
    larger.machine.devices = problem.machine.devices * factor;
    if (!larger.machine.links.empty())
      larger.machine.links.back().spans = larger.machine.devices;
    if (searchLayouts(larger).isOk())
      return larger.machine.devices;
  }
  return std::nullopt;
}

} // namespace

void LayoutSearch::limit(Limits given, uint32_t topK) {
  limits = std::move(given);
  problem.isOver = limits.isOver;
  problem.topK = topK;
}

/// Powers of two up to some multiple of the size that is taken where nothing is searched, that size, and beside them
/// what is pinned: what the pins cost is asked of the other sizes.
std::vector<int64_t> LayoutSearch::microBatchSizes() const {
  int64_t globalBatch = base.workload->train.globalBatch, usual = defaultMicroBatch(*base.graph, globalBatch).samples;
  std::vector<int64_t> sizes{usual}, pinned;
  for (const auto &[name, layout] : base.layouts)
    if (layout.microBatchIsPinned)
      pinned.push_back(layout.microBatch);
  size_t allowed = std::clamp<size_t>(kTrialOperators / std::max<size_t>(1, trialOperators(graph)), 2, kMostSizes);
  std::vector<int64_t> wanted{usual * 2, usual / 2, usual * 4, usual / 4};
  for (int64_t size = 1; size <= std::max<int64_t>(usual * kLargest, 16); size *= 2)
    wanted.push_back(size);
  for (int64_t size : wanted)
    if (size >= 1 && size <= globalBatch && sizes.size() < allowed &&
        std::find(sizes.begin(), sizes.end(), size) == sizes.end())
      sizes.push_back(size);
  sizes.insert(sizes.end(), pinned.begin(), pinned.end());
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

void LayoutSearch::addPins() {
  const AtomicModel &model = problem.model;
  for (const cost_models::AtomicSection &section : model.sections) {
    SearchPins &own = problem.pins.emplace_back();
    const SectionLayout &layout = base.layouts.at(section.name);
    if (auto degree = pins.of(section.name, &SectionPins::dataParallel))
      own.dataParallel = static_cast<uint32_t>(*degree);
    else if (!section.addsUp)
      own.dataParallel = 1;
    if (auto stages = pins.of(section.name, &SectionPins::stages))
      own.stages = static_cast<uint32_t>(*stages);
    if (auto recompute = pins.of(section.name, &SectionPins::recompute); recompute && section.trains)
      own.recompute = *recompute;
    if (auto chunks = pins.of(section.name, &SectionPins::lossChunks); chunks && section.trains)
      own.lossChunks = section.lossChunks.empty() ? 1 : static_cast<uint32_t>(*chunks); // '*' may mean others.
    if (auto splits = pins.of(section.name, &SectionPins::splitBackward); splits && section.trains)
      own.splitStages = static_cast<uint32_t>(*splits);
    own.devices = pins.of(section.name, &SectionPins::devices);
    if (auto more = pins.of(section.name, &SectionPins::moreInFlight))
      own.moreInFlight = static_cast<uint32_t>(*more);
    if (layout.microBatchIsPinned) // Behind finer ones of the same size.
      own.microBatch = static_cast<uint32_t>(
          std::upper_bound(model.microBatches.begin(), model.microBatches.end(), layout.microBatch) -
          model.microBatches.begin() - 1);
  }
}

Status LayoutSearch::collect() {
  MAESTRO_ASSIGN(Atoms atoms, collectAtoms(graph, base, pins.partition(*base.workload), microBatchSizes(), makePrograms,
                                           limits.noMoreTrials));
  problem.model = std::move(atoms.model);
  problem.isNarrowed = atoms.left > 0;
  variantsLeft = atoms.left;
  problem.model.stepSamples = base.workload->train.globalBatch;
  mostSamples.assign(problem.model.microBatches.size(), 0);
  if (base.machine.devices > kFewDevices)
    mostSamples = addFinerSizes(problem.model, *base.graph, base.workload->train.globalBatch);
  addPins();
  problem.budget = {kSimulations, kTasks, kTasksAtOnce, kNsPerTask};
  problem.without = movesLeftOut();
  return Status();
}

Status LayoutSearch::run(uint64_t deviceBytes) {
  if (!result.layout.empty()) { // Again, with less memory: what was found then is nearly what is found now.
    problem.starts = {result.layout};
    problem.budget.simulations = kSimulations / kAgainShare;
    problem.budget.tasks = kTasks / kAgainShare;
  }
  problem.machine = base.machine;
  for (cost_models::DeviceModel &kind : problem.machine.kinds)
    kind.memoryBytes = std::min(kind.memoryBytes, deviceBytes);
  MAESTRO_ASSIGN(result, searchBesidePins(problem));
  return verify(problem, result);
}

std::string LayoutSearch::remedy() const {
  if (std::optional<uint32_t> devices = smallestCluster(problem))
    return fmt::format("{} such devices would do", *devices);
  return "use devices of more memory, or lower the dims' max";
}

std::map<std::string, SectionLayout> LayoutSearch::layouts(size_t rank) const {
  const Layout &layout = result.ranked[rank].layout;
  CompoundLayout placed = place(layout, problem.machine);
  std::map<std::string, SectionLayout> layouts;
  for (size_t s = 0; s < placed.size(); ++s) {
    const SectionOption &option = layout.sections[s];
    const std::string &name = problem.model.sections[s].name;
    SectionLayout &own = layouts[name] = base.layouts.at(name);
    own.microBatch = problem.model.microBatches[option.microBatch];
    own.mostSamples = mostSamples[option.microBatch];
    own.microBatchReason = own.microBatchIsPinned ? "pinned" : "by search";
    own.stages = option.stages();
    own.devices = std::move(placed[s].devices);
    own.moreInFlight = option.moreInFlight;
  }
  return layouts;
}

Result<mlir::OwningOpRef<mlir::ModuleOp>> LayoutSearch::programs(size_t rank) const {
  PartitionOptions options = pins.partition(*base.workload);
  options.recompute.clear();
  options.splitBackward.clear();
  options.lossChunks.clear();
  const Layout &layout = result.ranked[rank].layout;
  for (size_t s = 0; s < layout.sections.size(); ++s) {
    const cost_models::AtomicSection &section = problem.model.sections[s];
    const SectionCut &cut = layout.sections[s].cut;
    options.firstAtoms[section.name] = {cut.firstAtoms.begin(), cut.firstAtoms.end()};
    options.recompute[section.name] = cut.recompute;
    options.lossChunks[section.name] = cut.recompute.lossChunks;
    options.splitBackward[section.name] = cut.splitStages;
  }
  return makePrograms(options);
}

Result<cost_models::Simulation> LayoutSearch::simulate(const EmittedPlan &emitted,
                                                       const std::map<std::string, SectionLayout> &layouts) const {
  cost_models::Simulator simulator(problem.steps, problem.budget.tasksAtOnce);
  bool tunes = !limits.isTooLateToTune || !limits.isTooLateToTune();
  return simulateEmitted(emitted, layouts, base.machine, sizes, simulator, tunes);
}

std::vector<Decision> LayoutSearch::decisions(size_t rank, const cost_models::Simulation &own) const {
  std::vector<Decision> list;
  const RankedLayout &chosen = result.ranked[rank];
  std::string how = rank > 0                    ? fmt::format("number {} of the layouts that were simulated", rank + 1)
                    : result.winner == "search" ? "by search"
                    : result.winner == "pinned" ? "the best as pinned"
                                                : result.winner + ", which nothing beats";
  list.push_back({"layout",
                  duration(own.meanSeconds) + " a step" +
                      (base.machine.kinds.front().source.starts_with("assumed") ? " (assumed)" : ""),
                  fmt::format("{}: {}", how, describe(problem.model, problem.machine, chosen.layout)), true});
  if (std::optional<double> cost = costOfPins(result); cost && rank == 0)
    list.push_back({"pins", *cost > 1 ? fmt::format("cost {:.2f} x", *cost) : "cost nothing",
                    *cost > 1 ? "without them, for comparison: " +
                                    describe(problem.model, problem.machine, result.compared[1].layout)
                              : "nothing faster was found without them",
                    false});
  std::string left =
      variantsLeft == 0 ? ""
                        : fmt::format("; {} ways to compute again, to split backward tasks or to have losses in chunks "
                                      "were not looked at",
                                      variantsLeft);
  if (result.wasCutShort || variantsLeft > 0)
    list.push_back({"deadline", fmt::format("cut in after {} simulations", result.simulations),
                    "the search would have gone on; another run may find another layout" + left, true});
  return list;
}

std::vector<Candidate> LayoutSearch::beside(std::string layout, const cost_models::Simulation &own) const {
  double cost = own.stepSeconds / result.simulation.stepSeconds;
  std::vector<Candidate> rows{
      {Candidate::Kind::Layout, "pinned", std::move(layout), own.stepSeconds, 0, false,
       cost < 1 ? fmt::format("a gain over the search, which does not know such layouts: {:.2f} x", cost)
                : phraseOfCost(cost)}};
  for (ComparedLayout row : result.compared) {
    row.isWithoutPins = true;
    rows.push_back(candidateOf(problem, row, own));
  }
  return rows;
}

Result<Explanation> LayoutSearch::explanation(size_t rank, const cost_models::Simulation &own) const {
  bool tries = !limits.isTooLateToTry || !limits.isTooLateToTry();
  ExplainBudget budget{tries ? kExplainTasks : 0};
  if (rank == 0)
    return explain(problem, result, own, budget);
  SearchResult nextBest = result;
  nextBest.layout = result.ranked[rank].layout;
  nextBest.simulation = result.ranked[rank].simulation;
  nextBest.winner = fmt::format("number {}", rank + 1);
  return explain(problem, nextBest, own, budget);
}

} // namespace maestro::planner
