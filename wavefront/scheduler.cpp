#include "wavefront/scheduler.h"

#include "wavefront/formation.h"
#include "wavefront/lower_bound.h"
#include "wavefront/polish.h"
#include "wavefront/trial.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace maestro::wavefront {

namespace {

/// What a schedule may cost, in nanoseconds of an unhurried core, counted and not clocked: so much a task, more where
/// the best is far from the bound, for small problems a fixed number, and never more than a part of the step. (Steps
/// below a millisecond are not real ones.)
constexpr int64_t budgetPerTask = 600, budgetPerTaskWhenFar = 48 * budgetPerTask, mostForSmall = 150'000'000;
constexpr int64_t partOfStep = 180;
constexpr int64_t mostForUnreal = 8'000'000, realStepNs = 1'000'000;
constexpr size_t fewTasks = 200;
/// What they are spent on besides trials: reading a sample, for each place too, and a small change of all micro-batches
/// by task.
constexpr int64_t readSample = 200, readPlace = 75, changedTask = 40;
constexpr uint32_t roundsPerStart = 64;

bool isFar(int64_t makespanNs, int64_t boundNs) { return makespanNs - boundNs > boundNs / 10; }

int64_t budgetFor(size_t tasks, int64_t makespanNs, int64_t boundNs) {
  bool isSmall = tasks <= fewTasks;
  int64_t byTasks = static_cast<int64_t>(tasks) * (isFar(makespanNs, boundNs) ? budgetPerTaskWhenFar : budgetPerTask);
  if (makespanNs < realStepNs)
    return isSmall ? mostForUnreal : byTasks;
  return std::min(isSmall ? mostForSmall : byTasks, makespanNs / partOfStep);
}

/// Whether polishing takes a change whatever it costs: at the start of every other start, 5, 10 or 20 times.
bool kicks(uint32_t round) {
  uint32_t start = round / roundsPerStart;
  return start % 2 == 1 && round % roundsPerStart < 5u << (start / 2 % 3);
}

} // namespace

struct Scheduler::State {
  ProblemIndex index;
  LowerBound bound;
  Trial trial;
  Groups &groups = trial.groups;
  ListScheduler &list = trial.list;
  Polisher polisher;
  std::vector<int64_t> key;
  std::vector<int64_t>
      arrivals; ///< By group of the best: when its gradients came, or its forward task's end where it is the last.
  std::vector<uint32_t> order;
  int64_t bestNs = 0;

  int64_t boundNs = 0;
  int64_t maxNsPerTask = INT64_MAX;
  int64_t spent = 0, budget = 0; ///< As budgetFor() has it.

  void fileOrder(const Problem &problem, Schedule &schedule);
  int64_t inFileOrder(const Problem &problem, Schedule &schedule);
  void blocks(const Problem &problem, bool inTurn, Schedule &schedule);
  void wavefront(const Problem &problem, Schedule &schedule);
  int64_t attempt(const Problem &problem, Rule rule, Schedule &schedule);
  int64_t attemptInOrder(const Problem &problem, Schedule &schedule);
  bool tryChoice(const Problem &problem, const Choice &choice, bool regroup, Schedule &schedule);
  void noteArrivals(const Problem &problem);
  void reorder(const Problem &problem, const Choice &best, Schedule &schedule);
  void polish(const Problem &problem, Rule rule, Schedule &schedule);
  void write(const Problem &problem, int64_t makespan, Schedule &schedule);
};

/// Schedules what is arranged and keeps the result if it is the best so far.
int64_t Scheduler::State::attempt(const Problem &problem, Rule rule, Schedule &schedule) {
  int64_t makespan = trial.run(problem, index, rule, bestNs);
  if (makespan >= 0 && makespan < bestNs) {
    bestNs = makespan;
    auto tasks = static_cast<int64_t>(list.log.size());
    budget = budgetFor(list.log.size(), bestNs, boundNs);
    if (maxNsPerTask < INT64_MAX / std::max<int64_t>(1, tasks))
      budget = std::min(budget, maxNsPerTask * tasks);
    write(problem, makespan, schedule);
  }
  return makespan;
}

int64_t Scheduler::State::attemptInOrder(const Problem &problem, Schedule &schedule) {
  key.resize(groups.list.size());
  std::iota(key.begin(), key.end(), int64_t{0});
  trial.arrange(problem, index, key, key);
  return attempt(problem, Rule::BackwardFirst, schedule);
}

/// A section that does not read an unpadded dim has micro-batches of samples that differ in it: theirs is the largest
/// value.
static void replaceDiffering(const Problem &problem, Schedule &schedule) {
  size_t dims = problem.dims.size();
  for (const MicroBatch &group : schedule.microBatches)
    for (size_t d = 0; d < dims; ++d)
      if (int64_t &value = schedule.dims[group.firstDim + d]; problem.dims[d].unpadded && value == kDiffering) {
        value = 0;
        for (uint32_t sample : schedule.samplesOf(group))
          value = combineLargest(problem.dims[d], value, problem.sizes[sample * dims + d]);
      }
}

void Scheduler::State::write(const Problem &problem, int64_t makespan, Schedule &schedule) {
  schedule.samples = groups.samples;
  schedule.dims = groups.dims;
  schedule.microBatches = groups.list;
  replaceDiffering(problem, schedule);
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
  if (inFileOrder(problem, schedule) == ListScheduler::stuck)
    blocks(problem, true, schedule);
}

int64_t Scheduler::State::inFileOrder(const Problem &problem, Schedule &schedule) {
  std::iota(order.begin(), order.end(), 0u);
  groupInOrder(problem, index, order, std::numeric_limits<int64_t>::max(), groups);
  dealInTurn(problem, groups);
  return attemptInOrder(problem, schedule);
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
    trial.form(problem, index, choice.recipe);
    spent += trial.formingNs();
  }
  int64_t before = bestNs;
  attempt(problem, choice.rule, schedule);
  spent += trial.arrangingNs() + trial.simulatingNs();
  if (bestNs == before)
    return false;
  noteArrivals(problem);
  return true;
}

void Scheduler::State::noteArrivals(const Problem &problem) {
  arrivals.clear();
  for (uint32_t g = 0; g < groups.list.size(); ++g) {
    const Section &section = problem.sections[groups.list[g].section];
    uint32_t last = static_cast<uint32_t>(section.stages.size()) - 1;
    arrivals.push_back(section.trains ? list.readyAt(groups.task(g, last, TaskKind::Backward)) : 0);
  }
}

/// The best again, with backward tasks in the order in which they could have run: what came early no longer waits for
/// what stood before it. Twice, where it helps.
void Scheduler::State::reorder(const Problem &problem, const Choice &best, Schedule &schedule) {
  trial.form(problem, index, best.recipe);
  spent += trial.formingNs();
  for (int round = 0; round < 2 && spent < budget; ++round) {
    trial.arrange(problem, index, trial.regrouper.forwardKey, arrivals);
    if (!tryChoice(problem, best, false, schedule))
      break;
  }
}

/// The hints and starts from theory, the best of which is changed in one way at a time; what helps is kept, in turn
/// until nothing does or the budget is spent.
void Scheduler::State::wavefront(const Problem &problem, Schedule &schedule) {
  trial.prepare(problem, index);
  Traits &traits = trial.traits;
  Choice best;
  spent = static_cast<int64_t>(problem.sampleCount()) *
          (readSample + static_cast<int64_t>(index.sectionOfPlace.size()) * readPlace);
  budget = std::numeric_limits<int64_t>::max();
  bool formed = false; // Whether the groups are those of `best`.
  int64_t trialNs = 0; // Of the last one; kept for reorder().
  auto goesOn = [&, before = spent]() mutable {
    trialNs = spent - before;
    before = spent;
    return spent + trialNs < budget && bestNs > boundNs;
  };
  auto mayStart = [&](size_t i) {
    return i < startCount(traits) && (i < mostStartsWhenFar || !isFar(bestNs, boundNs));
  };
  auto startWith = [&](const Choice &choice, bool isFirst) {
    formed = tryChoice(problem, choice, true, schedule);
    if (formed || isFirst)
      best = choice;
  };
  for (size_t i = 0; i < problem.hints.size() && (i == 0 || goesOn()); ++i)
    startWith(within(traits, problem.hints[i]), i == 0);
  for (size_t i = 0; mayStart(i) && goesOn(); ++i)
    startWith(start(traits, i), i == 0 && problem.hints.empty());
  traits.far = isFar(bestNs, boundNs);
  size_t count = changeCount(traits);
  for (size_t move = 0, failures = 0; failures < count && goesOn(); move = (move + 1) % count, ++failures) {
    Choice choice = changed(traits, best, move);
    bool regroup = !(choice.recipe == best.recipe);
    if (choice == best)
      continue;
    if (!regroup && !formed)
      trial.form(problem, index, best.recipe);
    bool better = tryChoice(problem, choice, regroup, schedule);
    formed = !regroup || better;
    if (better)
      best = choice, failures = 0;
  }
  if (bestNs != std::numeric_limits<int64_t>::max() && bestNs > boundNs && spent < budget)
    reorder(problem, best, schedule);
  if (bestNs == std::numeric_limits<int64_t>::max()) {
    blocks(problem, false, schedule);
    for (bool flowing : {false, true}) {
      trial.regrouper.listSamples(flowing, order);
      blocks(problem, false, schedule);
    }
  }
  if (isFar(bestNs, boundNs) && spent < budget) // Few micro-batches may be served best as they come.
    inFileOrder(problem, schedule);
  polish(problem, best.rule, schedule);
}

/// What is left of the budget: much for small problems, nothing for large ones.
void Scheduler::State::polish(const Problem &problem, Rule rule, Schedule &schedule) {
  polisher.restart(rule);
  int64_t currentNs = bestNs;
  for (uint32_t round = 0; spent < budget && bestNs > boundNs; ++round) {
    uint32_t since = round % roundsPerStart;
    if (since == 0) { // Back to the best, from where it may get worse for a while, ever less.
      polisher.load(problem, schedule);
      currentNs = bestNs;
    }
    spent += static_cast<int64_t>(schedule.tasks.size()) * changedTask + trial.arrangingNs() +
             trial.simulatingNs(schedule.tasks.size());
    if (!polisher.change(problem, index, groups))
      continue;
    trial.arrange(problem, index, polisher.forwardKey, polisher.backwardKey);
    int64_t worse = bestNs / 8 * (roundsPerStart - since) / roundsPerStart;
    list.forced = polisher.forced;
    int64_t makespan = trial.run(problem, index, polisher.rule, kicks(round) ? INT64_MAX : currentNs + worse + 1);
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

Scheduler::Scheduler(int64_t maxNsPerTask) : state(std::make_unique<State>()) { state->maxNsPerTask = maxNsPerTask; }
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
