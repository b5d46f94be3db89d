#include "planner/explain/explain.h"

#include "cost_models/collectives.h"
#include "cost_models/simulations.h"
#include "planner/explain/alternatives.h"
#include "planner/explain/phrases.h"
#include "planner/explain/quantities.h"
#include "planner/search/pinned.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace maestro::planner {
namespace {

using cost_models::Machine;
using cost_models::Simulation;
using cost_models::Simulator;

/// More memory, in a what-if.
constexpr uint64_t kMoreBytes = 10'000'000'000;
/// A step this near to its lower bound is the shortest.
constexpr double kProven = 1e-4;

/// The layout where it is simulated or found too large.
struct Tried {
  Alternative option;
  uint64_t missingBytes = 0; ///< 0: it fits.
  Simulation simulation;
};

class Explainer {
public:
  Explainer(const SearchProblem &problem, const SearchResult &result, const ExplainBudget &budget)
      : problem(problem), result(result), cuts(problem), own(modelOf(problem.model, result.layout)),
        choices(place(result.layout, problem.machine)),
        simulator(problem.steps, problem.budget.tasksAtOnce, result.hints, problem.budget.nsPerTask),
        simulations(problem.steps, problem.budget.tasksAtOnce, result.hints, problem.budget.nsPerTask),
        tasksLeft(budget.tasks / 2), tasksLater(budget.tasks - budget.tasks / 2) {}

  Result<Explanation> run(const Simulation &simulation) {
    addComparison();
    bool tries = tasksLeft + tasksLater > 0;
    if (tries)
      MAESTRO_TRY(addAlternatives());
    tasksLeft += tasksLater;
    MAESTRO_TRY(addTimeLimits());
    addMemoryLimit();
    if (tries)
      MAESTRO_TRY(addWhatIfs());
    explanation.quantities = quantitiesOf(problem, result, cuts, simulation);
    return std::move(explanation);
  }

private:
  double step() const { return result.simulation.stepSeconds; }

  // ---- The comparison ----------------------------------------------------------------------------------------------

  /// The plan's own layout first, under the name of what found it.
  void addComparison() {
    double gap = 100 * (step() / std::max(result.lowerBoundSeconds, 1e-12) - 1);
    std::optional<double> cost = costOfPins(result);
    bool isPinned = cost.has_value();
    std::string reach = gap < 100 * kProven
                            ? std::string(isPinned ? "no layout that obeys is faster" : "no layout is faster")
                            : fmt::format("{} simulated, no layout takes less than {}: a gap of {:.1f} %",
                                          result.simulations, duration(result.lowerBoundSeconds), gap);
    if (problem.isNarrowed)
      reach += ", of those that the deadline left";
    if (cost)
      reach += "; " + phraseOfCost(*cost);
    explanation.candidates.push_back({Candidate::Kind::Layout, result.winner,
                                      describe(problem.model, problem.machine, result.layout), step(), 0, false,
                                      std::move(reach)});
    for (const ComparedLayout &row : result.compared)
      if (row.name != result.winner && !(row.name == "search" && row.layout == result.layout && !row.isWithoutPins))
        explanation.candidates.push_back(candidateOf(problem, row, result.simulation));
  }

  // ---- Alternatives ------------------------------------------------------------------------------------------------

  /// Whether the budget has room for simulating the layout; then it is taken.
  bool affords(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout) {
    uint64_t tasks = simulator.tasks(model, machine, layout);
    if (tasks > tasksLeft)
      return false;
    tasksLeft -= tasks;
    return true;
  }

  /// Those for which the budget is enough.
  Result<std::vector<Tried>> attempt(const std::vector<Alternative> &options, const Machine &machine) {
    std::vector<Tried> list;
    std::vector<cost_models::SimulationQuestion> questions;
    std::vector<size_t> asked; // Of the list.
    for (const Alternative &option : options) {
      auto model = std::make_shared<const CompoundModel>(modelOf(problem.model, option.layout));
      CompoundLayout layout = place(option.layout, machine);
      uint64_t missing = missingBytes(*model, machine, layout);
      if (missing == 0) {
        if (!affords(*model, machine, layout))
          continue;
        asked.push_back(list.size());
        questions.push_back({std::move(model), &machine, std::move(layout), wavefront::Order::Wavefront});
      }
      list.push_back({option, missing, {}});
    }
    std::vector<Result<Simulation>> answers = simulations.run(questions);
    for (size_t i = 0; i < asked.size(); ++i) {
      MAESTRO_ASSIGN(list[asked[i]].simulation, std::move(answers[i]));
    }
    return list;
  }

  /// What is possible before what is not, then the faster, then what lacks less.
  static bool isBetter(const Tried &a, const Tried &b) {
    return std::tuple(a.missingBytes, a.simulation.stepSeconds) < std::tuple(b.missingBytes, b.simulation.stepSeconds);
  }

  /// Of those that fit; none does, or the budget is spent: nothing.
  Result<std::optional<Tried>> fastest(const std::vector<Alternative> &options, const Machine &machine) {
    MAESTRO_ASSIGN(std::vector<Tried> list, attempt(options, machine));
    auto best = std::min_element(list.begin(), list.end(), isBetter);
    return best != list.end() && best->missingBytes == 0 ? std::optional(*best) : std::optional<Tried>();
  }

  Status addAlternatives() {
    for (Decided decided : {Decided::MicroBatch, Decided::Replicas, Decided::Stages, Decided::Recompute,
                            Decided::LossChunks, Decided::SplitBackward, Decided::InFlight, Decided::Devices})
      for (uint32_t s = 0; s < own.sections.size(); ++s) {
        MAESTRO_ASSIGN(std::vector<Tried> list,
                       attempt(alternativesOf(problem, cuts, result.layout, s, decided), problem.machine));
        std::copy_if(list.begin(), list.end(), std::back_inserter(refused),
                     [](const Tried &tried) { return tried.missingBytes > 0; });
        if (auto best = std::min_element(list.begin(), list.end(), isBetter); best != list.end())
          addAlternative(*best, s, decided);
      }
    return Status();
  }

  void addAlternative(const Tried &best, uint32_t section, Decided decided) {
    Candidate candidate{Candidate::Kind::Alternative,
                        own.sections[section].name + "." + nameOf(decided),
                        best.option.choice,
                        best.simulation.stepSeconds,
                        best.missingBytes,
                        false,
                        ""};
    candidate.reason = best.missingBytes > 0 ? "on its fullest device" : difference(result.simulation, best.simulation);
    if (!obeys(problem, best.option.layout))
      candidate.reason += "; the plan's is pinned";
    else if (best.missingBytes == 0 && best.simulation.stepSeconds < step() * (1 - kSame))
      candidate.reason += "; the search ended before it came to this";
    explanation.candidates.push_back(std::move(candidate));
  }

  // ---- Limits ------------------------------------------------------------------------------------------------------

  Status addTimeLimits() {
    MAESTRO_TRY(addBusiestDevice());
    for (size_t e = 0; e < own.edges.size(); ++e) {
      MAESTRO_ASSIGN(double without,
                     stepWith([&](CompoundModel &changed, Machine &) { changed.edges[e].bytes.clear(); }));
      exposedSeconds.push_back(std::max(0.0, step() - without));
      if (exposedSeconds.back() > kSame * step())
        explanation.limits.push_back({Limit::Kind::Time, "edge " + edgeName(own, e), exposedSeconds.back(), step(),
                                      "transfers that no work hides"});
    }
    for (size_t s = 0; s < own.sections.size(); ++s)
      if (double seconds = longestReduction(s); seconds > 0)
        explanation.limits.push_back(
            {Limit::Kind::Time, "gradients of " + own.sections[s].name, seconds, step(),
             fmt::format("added up over {} replicas after the step's last task", result.layout.sections[s].replicas)});
    return Status();
  }

  double longestReduction(size_t section) const {
    cost_models::Seconds longest;
    for (size_t i = 0; i < own.sections[section].stages.size(); ++i) {
      if (own.sections[section].stages[i].parameters.gradients == 0) // Frozen.
        continue;
      std::vector<uint32_t> devices;
      for (const std::vector<uint32_t> &replica : choices[section].devices)
        devices.push_back(replica[i]);
      longest = std::max(longest, cost_models::reductionSeconds(own.sections[section].stages[i].parameters.gradients,
                                                                devices, problem.machine));
    }
    return longest.value;
  }

  /// Which stations take the time of the device that works longest.
  Status addBusiestDevice() {
    size_t device = busiestOf(result.simulation);
    double busy = result.simulation.deviceBusySeconds[device], rest = busy;
    MAESTRO_ASSIGN(StationSeconds seconds, stationsOf(static_cast<uint32_t>(device)));
    std::vector<std::pair<double, std::string>> parts;
    for (const auto &[station, taken] : seconds) {
      parts.emplace_back(taken, stationName(own, station.first, station.second));
      rest -= taken;
    }
    parts.emplace_back(rest, "sums of gradients, norm and update");
    explanation.limits.push_back(
        {Limit::Kind::Time, fmt::format("device {}", device), busy, step(), largest(std::move(parts), duration)});
    return Status();
  }

  /// By section and stage.
  using StationSeconds = std::map<std::pair<uint32_t, uint32_t>, double>;

  /// As scheduled; where only a part of the devices was simulated, the sections' means.
  Result<StationSeconds> stationsOf(uint32_t device) const {
    StationSeconds seconds;
    if (result.simulation.parts > 1) {
      for (uint32_t s = 0; s < choices.size(); ++s)
        for (const std::vector<uint32_t> &replica : choices[s].devices)
          for (uint32_t i = 0; i < replica.size(); ++i)
            if (replica[i] == device)
              seconds[{s, i}] = result.simulation.sections[s].busySeconds;
      return seconds;
    }
    wavefront::Problem schedule = cost_models::makeProblem(own, problem.machine, choices);
    wavefront::Scheduler scheduler;
    wavefront::Schedule found;
    for (const cost_models::SampleSizes &sizes : problem.steps) {
      schedule.sizes = sizes;
      MAESTRO_TRY(wavefront::check(schedule));
      scheduler.run(schedule, wavefront::Order::Wavefront, found);
      for (const wavefront::Task &task : found.tasksOf(device))
        seconds[{found.microBatches[task.microBatch].section, task.stage}] +=
            static_cast<double>(task.endNs - task.startNs) * 1e-9 / static_cast<double>(problem.steps.size());
    }
    return seconds;
  }

  /// "student 3.1 ms, teacher 1 ms": the largest first, what is next to nothing left out.
  template <typename Text> static std::string largest(std::vector<std::pair<double, std::string>> parts, Text text) {
    constexpr size_t kMost = 4;
    std::stable_sort(parts.begin(), parts.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
    std::string list;
    for (size_t i = 0; i < std::min(kMost, parts.size()); ++i)
      if (parts[i].first > 0.01 * parts.front().first)
        list += fmt::format("{}{} {}", list.empty() ? "" : ", ", parts[i].second, text(parts[i].first));
    return list;
  }

  void addMemoryLimit() {
    std::vector<uint64_t> bytes = cost_models::deviceBytes(own, problem.machine, choices);
    uint32_t fullest = 0;
    for (uint32_t device = 1; device < bytes.size(); ++device)
      if (fullness(problem.machine, device, bytes[device]) > fullness(problem.machine, fullest, bytes[fullest]))
        fullest = device;
    uint64_t resident = 0;
    std::vector<std::pair<double, std::string>> parts;
    for (uint32_t s = 0; s < choices.size(); ++s)
      for (const std::vector<uint32_t> &replica : choices[s].devices)
        for (uint32_t i = 0; i < replica.size(); ++i)
          if (replica[i] == fullest) {
            const auto &parameters = own.sections[s].stages[i].parameters;
            uint64_t held = parameters.resident();
            resident += held;
            parts.emplace_back(gib(held), stationName(own, s, i) + (parameters.gradients > 0
                                                                        ? "'s parameters, gradients and optimizer state"
                                                                        : "'s parameters"));
          }
    parts.emplace_back(gib(bytes[fullest] - std::min(bytes[fullest], resident)),
                       "micro-batches in flight, workspace, rings and process");
    explanation.limits.push_back(
        {Limit::Kind::Memory, fmt::format("device {}", fullest), static_cast<double>(bytes[fullest]),
         memoryLimit(problem.machine, fullest),
         largest(std::move(parts), [](double gib) { return fmt::format("{:.3f} GiB", gib); })});
  }

  // ---- What-ifs ----------------------------------------------------------------------------------------------------

  /// The plan's layout where model and machine are changed; as long as before where the budget is spent.
  Result<double> stepWith(const std::function<void(CompoundModel &, Machine &)> &change) {
    if (!affords(own, problem.machine, choices))
      return step();
    CompoundModel changed = own;
    Machine machine = problem.machine;
    change(changed, machine);
    MAESTRO_ASSIGN(Simulation simulation, simulator.run(changed, machine, choices, wavefront::Order::Wavefront));
    return simulation.stepSeconds;
  }

  void addWhatIf(std::string subject, std::string choice, double seconds, std::string reason) {
    explanation.candidates.push_back(
        {Candidate::Kind::WhatIf, std::move(subject), std::move(choice), seconds, 0, false, std::move(reason)});
  }

  Status addWhatIfs() {
    MAESTRO_TRY(addMoreDevices());
    MAESTRO_TRY(addMoreMemory());
    MAESTRO_TRY(addFasterLinks());
    MAESTRO_ASSIGN(double seconds, stepWith([](CompoundModel &, Machine &machine) { doubleStreams(machine); }));
    addWhatIf("devices' memory bandwidth", "twice", seconds, "for sums of gradients, norm and update alone");
    return Status();
  }

  Status addMoreDevices() {
    SearchProblem more = problem;
    uint32_t added = addDevices(more.machine);
    std::vector<Alternative> options;
    for (uint32_t s = 0; s < own.sections.size(); ++s) {
      std::vector<Alternative> list = alternativesOnMore(more, cuts, result.layout, s, added);
      options.insert(options.end(), list.begin(), list.end());
    }
    MAESTRO_ASSIGN(std::optional<Tried> best, fastest(options, more.machine));
    std::string choice = added == 1 ? "one more" : fmt::format("{} more", added);
    if (best && best->simulation.stepSeconds < step() * (1 - kSame))
      addWhatIf("devices", choice, best->simulation.stepSeconds,
                fmt::format("given to {}: {}", sectionOf(best->option), best->option.choice));
    else if (best)
      addWhatIf("devices", choice, step(), "no section gains by having it, the others as they are");
    return Status();
  }

  const std::string &sectionOf(const Alternative &option) const { return own.sections[option.section].name; }

  /// Of the alternatives that did not fit.
  Status addMoreMemory() {
    std::string choice = "10 GB more each";
    if (refused.empty()) {
      addWhatIf("devices' memory", choice, step(), "no alternative was refused for memory");
      return Status();
    }
    Machine machine = problem.machine;
    addMemory(machine, kMoreBytes);
    std::vector<Alternative> options;
    for (const Tried &before : refused)
      options.push_back(before.option);
    MAESTRO_ASSIGN(std::optional<Tried> best, fastest(options, machine));
    if (best && best->simulation.stepSeconds < step() * (1 - kSame))
      addWhatIf("devices' memory", choice, best->simulation.stepSeconds,
                fmt::format("for {}: {}", sectionOf(best->option), best->option.choice));
    else
      addWhatIf("devices' memory", choice, step(),
                best ? "what then fits is not faster" : "what did not fit still does not");
    return Status();
  }

  Status addFasterLinks() {
    for (size_t level = 0; level < problem.machine.links.size(); ++level) {
      MAESTRO_ASSIGN(double seconds,
                     stepWith([&](CompoundModel &, Machine &machine) { machine.links[level].bandwidth *= 2; }));
      addWhatIf("links '" + problem.machine.links[level].name + "'", "twice the bandwidth", seconds,
                "for transfers and sums of gradients over them");
    }
    bool any = false;
    for (size_t e = 0; e < own.edges.size(); ++e) {
      if (exposedSeconds[e] <= kSame * step())
        continue;
      MAESTRO_ASSIGN(double seconds,
                     stepWith([&](CompoundModel &changed, Machine &) { halve(changed.edges[e].bytes); }));
      addWhatIf("edge " + edgeName(own, e), "twice the bandwidth", seconds, "its transfers take half as long");
      any = true;
    }
    if (!any && !own.edges.empty())
      addWhatIf("edges", "twice the bandwidth", step(), "work hides their transfers");
    return Status();
  }

  static void halve(std::vector<cost_models::BytesTerm> &bytes) {
    for (cost_models::BytesTerm &term : bytes)
      term.bytes /= 2;
  }

  const SearchProblem &problem;
  const SearchResult &result;
  Cuts cuts;
  CompoundModel own; ///< Cut as the answer is.
  CompoundLayout choices;
  Simulator simulator;
  cost_models::Simulations simulations;
  uint64_t tasksLeft, tasksLater;
  Explanation explanation;
  std::vector<Tried> refused;         ///< Alternatives that lack memory.
  std::vector<double> exposedSeconds; ///< By edge: how much shorter a step is without its transfers.
};

} // namespace

Result<Explanation> explain(const SearchProblem &problem, const SearchResult &result, const Simulation &own,
                            const ExplainBudget &budget) {
  Result<Explanation> explanation = Explainer(problem, result, budget).run(own);
  MAESTRO_TRY(problem.model.costs->status());
  return explanation;
}

} // namespace maestro::planner
