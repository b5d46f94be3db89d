#include "executor/wavefront/scheduler.h"

#include "executor/wavefront/formation.h"
#include "executor/wavefront/list_schedule.h"
#include "executor/wavefront/lower_bound.h"
#include "executor/wavefront/polish.h"
#include "executor/wavefront/regroup.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace maestro::wavefront {

namespace {

/// What a schedule may cost, in units of about a nanosecond, counted and not clocked: so much a task, and for small problems
/// half a percent of the step that they predict, up to a limit. (Steps below a millisecond are not real ones.)
constexpr int64_t budgetPerTask = 400, mostForSmall = 4'000'000, realStepNs = 1'000'000;
constexpr size_t fewTasks = 200;
constexpr int64_t simulatedTask = 100, changeCost = 500;
constexpr uint32_t roundsPerStart = 64;

int64_t budgetFor(size_t tasks, int64_t makespanNs) {
  if (tasks > fewTasks)
    return static_cast<int64_t>(tasks) * budgetPerTask;
  int64_t small = makespanNs < realStepNs ? mostForSmall : std::min(mostForSmall, makespanNs / 200);
  return std::max(static_cast<int64_t>(tasks) * budgetPerTask, small);
}

} // namespace

struct Scheduler::State {
  ProblemIndex index;
  LowerBound bound;
  Groups groups;
  Regrouper regrouper;
  Polisher polisher;
  Sequences sequences;
  ListScheduler list;
  std::vector<int64_t> tails, key;
  std::vector<uint32_t> order;
  int64_t bestNs = 0;

  int64_t boundNs = 0;
  int64_t budget = 0; ///< What may still be spent, in units of about a nanosecond on a fast machine; counted, not clocked.

  struct Choice {
    Recipe recipe;
    Rule rule = Rule::LongestTail;
  };

  void fileOrder(const Problem &problem, Schedule &schedule);
  void blocks(const Problem &problem, bool inTurn, Schedule &schedule);
  void wavefront(const Problem &problem, Schedule &schedule);
  void arrange(const Problem &problem, const std::vector<int64_t> &forwardKey, const std::vector<int64_t> &backwardKey);
  int64_t attempt(const Problem &problem, Rule rule, Schedule &schedule);
  int64_t attemptInOrder(const Problem &problem, Schedule &schedule);
  bool tryChoice(const Problem &problem, const Choice &choice, bool regroup, Schedule &schedule);
  void polish(const Problem &problem, Rule rule, Schedule &schedule);
  void write(const Problem &problem, int64_t makespan, Schedule &schedule);
};

/// Orders for the groups as they stand.
void Scheduler::State::arrange(const Problem &problem, const std::vector<int64_t> &forwardKey,
                               const std::vector<int64_t> &backwardKey) {
  sequences.sort(index, groups, forwardKey, backwardKey);
  computeTails(problem, index, groups, tails);
}

/// Schedules what is arranged and keeps the result if it is the best so far.
int64_t Scheduler::State::attempt(const Problem &problem, Rule rule, Schedule &schedule) {
  int64_t makespan = list.run(problem, index, groups, sequences, tails, rule, bestNs);
  if (makespan >= 0 && makespan < bestNs) {
    bestNs = makespan;
    write(problem, makespan, schedule);
  }
  return makespan;
}

int64_t Scheduler::State::attemptInOrder(const Problem &problem, Schedule &schedule) {
  key.resize(groups.list.size());
  std::iota(key.begin(), key.end(), int64_t{0});
  arrange(problem, key, key);
  return attempt(problem, Rule::BackwardFirst, schedule);
}

void Scheduler::State::write(const Problem &problem, int64_t makespan, Schedule &schedule) {
  schedule.samples = groups.samples;
  schedule.dims = groups.dims;
  schedule.microBatches = groups.list;
  schedule.makespanNs = makespan;
  schedule.deviceTasks.assign(problem.devices + 2, 0);
  for (const ListScheduler::Started &task : list.log)
    ++schedule.deviceTasks[task.device + 2];
  for (size_t d = 2; d < schedule.deviceTasks.size(); ++d)
    schedule.deviceTasks[d] += schedule.deviceTasks[d - 1];
  schedule.tasks.resize(list.log.size());
  for (const ListScheduler::Started &task : list.log)
    schedule.tasks[schedule.deviceTasks[task.device + 1]++] = {
        task.group, task.stage, task.kind, task.startNs,
        task.startNs + groups.taskNs[groups.task(task.group, task.stage, task.kind)]};
  schedule.deviceTasks.pop_back();
}

void Scheduler::State::fileOrder(const Problem &problem, Schedule &schedule) {
  groupInOrder(problem, index, order, std::numeric_limits<int64_t>::max(), groups);
  dealInTurn(problem, groups);
  if (attemptInOrder(problem, schedule) == ListScheduler::stuck)
    blocks(problem, true, schedule);
}

/// Never stuck (formation.h).
void Scheduler::State::blocks(const Problem &problem, bool inTurn, Schedule &schedule) {
  groupInBlocks(problem, index, order, groups);
  inTurn ? dealInTurn(problem, groups) : dealByWork(problem, groups);
  attemptInOrder(problem, schedule);
}

/// Whether the choice is the best so far.
bool Scheduler::State::tryChoice(const Problem &problem, const Choice &choice, bool regroup, Schedule &schedule) {
  if (regroup) {
    regrouper.form(problem, index, choice.recipe, groups);
    arrange(problem, regrouper.forwardKey, regrouper.backwardKey);
    budget -= static_cast<int64_t>(problem.sampleCount() * problem.sections.size()) * 30;
  }
  int64_t before = bestNs;
  attempt(problem, choice.rule, schedule);
  budget -= static_cast<int64_t>(list.log.size()) * simulatedTask;
  return bestNs < before;
}

/// A start from theory, then one change of the best choice at a time, kept if it helps, in turn until none does or the
/// budget is spent.
void Scheduler::State::wavefront(const Problem &problem, Schedule &schedule) {
  regrouper.prepare(problem, index);
  bool colocated = false;
  for (size_t device = 0; device < index.deviceStations.size(); ++device)
    colocated |= index.deviceStations[device].size() > 1;
  bool splits = std::any_of(problem.sections.begin(), problem.sections.end(), [](const Section &s) { return s.splitsBackward; });
  Choice best;
  best.recipe.pace = regrouper.goodPace(problem, index);
  tryChoice(problem, best, true, schedule);
  budget = budgetFor(list.tasks(problem, groups), bestNs);
  constexpr uint32_t moves = 13;
  uint32_t failures = 0;
  bool formed = true; // Whether the groups are those of `best`.
  for (uint32_t move = 0; failures < moves && budget > 0 && bestNs > boundNs; move = (move + 1) % moves) {
    Choice choice = best;
    Recipe &recipe = choice.recipe;
    switch (move) {
    case 0: choice.rule = colocated ? Rule::ShortestFirst : Rule::ForwardFirst; break;
    case 1: choice.rule = splits && !colocated ? Rule::Thrifty : Rule::BackwardFirst; break;
    case 2: recipe.ends = !recipe.ends; break;
    case 3: recipe.slack = recipe.slack == 2 ? 4 : 2; break;
    case 4: recipe.pace = std::min(regrouper.mostPace, recipe.pace * 3 / 2 + 1); break;
    case 5: choice.rule = colocated ? Rule::UpstreamFirst : splits ? Rule::BackwardFirst : Rule::Alternate; break;
    case 6: recipe.shape = recipe.shape == Recipe::Shape::Even ? Recipe::Shape::Mountain : Recipe::Shape::Even; break;
    case 7: recipe.pace = std::max<int64_t>(1, recipe.pace * 2 / 3); break;
    case 8: recipe.alike = !recipe.alike; break;
    case 9: recipe.slack = recipe.slack == 1 ? 3 : 1; break;
    case 10: choice.rule = colocated ? Rule::ForwardFirst : splits ? Rule::Alternate : Rule::Thrifty; break;
    case 11: recipe.shape = Recipe::Shape::Falling; break;
    case 12: choice.rule = colocated && splits ? Rule::Thrifty : Rule::LongestTail; break;
    }
    bool regroup = !(choice.recipe == best.recipe);
    if (!regroup && choice.rule == best.rule) {
      ++failures;
      continue;
    }
    if (!regroup && !formed) {
      regrouper.form(problem, index, best.recipe, groups);
      arrange(problem, regrouper.forwardKey, regrouper.backwardKey);
    }
    bool better = tryChoice(problem, choice, regroup, schedule);
    formed = !regroup || better;
    failures = better ? 0 : failures + 1;
    if (better)
      best = choice;
  }
  if (bestNs == std::numeric_limits<int64_t>::max()) {
    blocks(problem, false, schedule);
    for (bool flowing : {false, true}) {
      regrouper.listSamples(flowing, order);
      blocks(problem, false, schedule);
    }
  }
  polish(problem, best.rule, schedule);
}

/// What is left of the budget: much for small problems, nothing for large ones.
void Scheduler::State::polish(const Problem &problem, Rule rule, Schedule &schedule) {
  polisher.restart(rule);
  int64_t currentNs = bestNs;
  for (uint32_t round = 0; budget > 0 && bestNs > boundNs; ++round) {
    uint32_t since = round % roundsPerStart;
    if (since == 0) { // Back to the best, from where it may get worse for a while, ever less.
      polisher.load(problem, schedule);
      currentNs = bestNs;
    }
    budget -= changeCost + static_cast<int64_t>(schedule.tasks.size()) * simulatedTask;
    if (!polisher.change(problem, index, groups))
      continue;
    arrange(problem, polisher.forwardKey, polisher.backwardKey);
    int64_t worse = bestNs / 4 * (roundsPerStart - since) / roundsPerStart;
    bool kick = round / roundsPerStart % 2 == 1 && since < 5;
    list.forced = polisher.forced;
    int64_t makespan = list.run(problem, index, groups, sequences, tails, polisher.rule, kick ? INT64_MAX : currentNs + worse + 1);
    list.forced.clear();
    if (makespan < 0) {
      polisher.undo();
      continue;
    }
    currentNs = makespan;
    if (makespan < bestNs) {
      bestNs = makespan;
      polisher.keep();
      write(problem, makespan, schedule);
    }
  }
}

Scheduler::Scheduler() : state(std::make_unique<State>()) {}
Scheduler::~Scheduler() = default;

void Scheduler::run(const Problem &problem, Order order, Schedule &schedule) {
  state->index.build(problem);
  state->order.resize(problem.sampleCount());
  std::iota(state->order.begin(), state->order.end(), 0u);
  state->bestNs = std::numeric_limits<int64_t>::max();
  state->boundNs = state->bound.compute(problem, state->index);
  order == Order::FileOrder ? state->fileOrder(problem, schedule) : state->wavefront(problem, schedule);
  schedule.lowerBoundNs = state->boundNs;
}

} // namespace maestro::wavefront
