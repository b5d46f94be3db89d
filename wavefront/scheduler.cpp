#include "wavefront/scheduler.h"

#include "wavefront/formation.h"
#include "wavefront/lower_bound.h"
#include "wavefront/small_changes.h"
#include "wavefront/trial.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace maestro::wavefront {

namespace {

// What a step's search may cost, in nanoseconds of an unhurried core as Trial counts them.
constexpr int64_t kNsPerTask = 700;      ///< So that all of scheduling takes 1 µs a task (bench/wavefront).
constexpr int64_t kNsPerTaskFar = 28800; ///< While the best is far from the bound: some hundred trials.
constexpr int64_t kFarFromBound = 16;    ///< More than a 16th above it: 1 in 8 problems without hints.
constexpr int64_t kPartOfStep = 180;     ///< Never more than this part of the step, whose goal is a hundredth,
constexpr int64_t kMinNs = 20'000;       ///< but so much for any.
constexpr size_t kFewTasks = 200;        ///< With so few, whatever the step allows is taken, up to
constexpr int64_t kMaxNsForFew = 20'000'000;
constexpr int64_t kPartForChoices = 4; ///< this: a quarter of it for choices, the others for small changes,
constexpr int64_t kChangeTaskNs = 40;  ///< each of which takes so much a task,
constexpr int64_t kWalk = 64;          ///< in walks of so many.
/// Draws in a row that change nothing: there is nothing to change.
constexpr uint64_t kMaxIdleDraws = 64;
/// Draws while every schedule was stuck: slots and rings are so few that only blocks() will do.
constexpr uint64_t kMaxStuckDraws = 8;

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

/// A section that does not read an unpadded dim has micro-batches of samples that differ in it: theirs is the largest
/// value.
void replaceDiffering(const Problem &problem, Schedule &schedule) {
  size_t dims = problem.dims.size();
  for (const MicroBatch &group : schedule.microBatches)
    for (size_t d = 0; d < dims; ++d)
      if (int64_t &value = schedule.dims[group.firstDim + d]; problem.dims[d].unpadded && value == kDiffering) {
        value = 0;
        for (uint32_t sample : schedule.samplesOf(group))
          value = combineLargest(problem.dims[d], value, problem.sizes[sample * dims + d]);
      }
}

void write(const Problem &problem, const Groups &groups, const ListScheduler &list, Schedule &schedule) {
  schedule.samples = groups.samples;
  schedule.dims = groups.dims;
  schedule.microBatches = groups.list;
  replaceDiffering(problem, schedule);
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

} // namespace

struct Scheduler::State {
  ProblemIndex index;
  LowerBound bound;
  Trial trial;
  SmallChanges changes;
  std::vector<int64_t> key;
  std::vector<uint32_t> order;
  uint64_t fixedParts = 0;
  int64_t maxNsPerTask = INT64_MAX;

  const Problem *problem = nullptr;
  Schedule *schedule = nullptr; ///< The best so far.
  int64_t boundNs = 0, bestNs = kUnknown;

  void begin(const Problem &ofStep, Schedule &toMake);
  void fileOrder();
  void wavefront();
  Choice search();
  void changeLittle(Rule rule);
  void blocks(bool inTurn);
  int64_t inFileOrder();
  int64_t runInOrder();
  int64_t keepIfBest(int64_t makespanNs);
  bool isBetter(const Choice &choice);
  bool hasFewTasks() const { return bestNs != kUnknown && schedule->tasks.size() <= kFewTasks; }
  bool isFar() const { return bestNs - boundNs > boundNs / kFarFromBound; }
  int64_t budgetNs() const;
};

void Scheduler::State::begin(const Problem &ofStep, Schedule &toMake) {
  problem = &ofStep;
  schedule = &toMake;
  index.build(*problem);
  order.resize(problem->sampleCount());
  std::iota(order.begin(), order.end(), 0u);
  bestNs = kUnknown;
  boundNs = bound.compute(*problem, index);
  trial.prepare(*problem, index, fixedParts);
}

int64_t Scheduler::State::budgetNs() const {
  if (bestNs == kUnknown)
    return kUnknown;
  auto tasks = static_cast<int64_t>(schedule->tasks.size());
  int64_t wanted = hasFewTasks() ? kMaxNsForFew : tasks * std::min(maxNsPerTask, isFar() ? kNsPerTaskFar : kNsPerTask);
  return std::max(kMinNs, std::min(wanted, bestNs / kPartOfStep));
}

int64_t Scheduler::State::keepIfBest(int64_t makespanNs) {
  if (makespanNs >= 0 && makespanNs < bestNs) {
    bestNs = makespanNs;
    write(*problem, trial.groups, trial.list, *schedule);
  }
  return makespanNs;
}

int64_t Scheduler::State::runInOrder() {
  key.resize(trial.groups.list.size());
  std::iota(key.begin(), key.end(), int64_t{0});
  trial.arrange(key, key);
  return keepIfBest(trial.run(Rule::BackwardFirst, bestNs));
}

int64_t Scheduler::State::inFileOrder() {
  std::iota(order.begin(), order.end(), 0u);
  groupInOrder(*problem, index, order, std::numeric_limits<int64_t>::max(), trial.groups);
  dealInTurn(*problem, trial.groups);
  return runInOrder();
}

/// Never stuck (formation.h).
void Scheduler::State::blocks(bool inTurn) {
  groupInBlocks(*problem, index, order, trial.groups);
  inTurn ? dealInTurn(*problem, trial.groups) : dealByWork(*problem, trial.groups);
  runInOrder();
}

void Scheduler::State::fileOrder() {
  if (inFileOrder() == ListScheduler::stuck)
    blocks(true);
}

bool Scheduler::State::isBetter(const Choice &choice) {
  int64_t before = bestNs;
  trial.form(choice);
  keepIfBest(trial.run(choice.rule, bestNs));
  return bestNs < before;
}

/// The plan's hints, starts from theory, then the best with a part or two drawn anew: until the bound is reached, or
/// the next trial would exceed the budget.
Choice Scheduler::State::search() {
  Choice best;
  int64_t lastNs = 0;
  auto goesOn = [&] {
    return bestNs > boundNs && trial.spentNs + lastNs < budgetNs() / (hasFewTasks() ? kPartForChoices : 1);
  };
  auto attempt = [&](const Choice &choice) {
    int64_t before = trial.spentNs;
    if (isBetter(choice))
      best = choice;
    lastNs = trial.spentNs - before;
  };
  for (size_t i = 0; i < problem->hints.size() && goesOn(); ++i)
    attempt(within(trial.traits, problem->hints[i]));
  for (size_t i = 0; i < startCount(trial.traits) && goesOn(); ++i)
    attempt(start(trial.traits, i));
  uint64_t maxDraws = bestNs == kUnknown ? kMaxStuckDraws : UINT64_MAX;
  for (uint64_t counter = 0, idle = 0; counter < maxDraws && idle < kMaxIdleDraws && goesOn(); ++counter) {
    Choice choice = changed(trial.traits, best, counter);
    idle = choice == best ? idle + 1 : 0;
    if (idle == 0)
      attempt(choice);
  }
  return best;
}

/// Small problems again, micro-batch by micro-batch, while the budget lasts.
void Scheduler::State::changeLittle(Rule rule) {
  if (!hasFewTasks() || problem->sampleCount() == 0)
    return;
  int64_t currentNs = bestNs;
  for (uint64_t counter = 0; bestNs > boundNs && trial.spentNs < budgetNs(); ++counter) {
    auto since = static_cast<int64_t>(counter % kWalk);
    if (since == 0) { // Back to the best, from where it may get worse for a while, ever less.
      changes.begin(*problem, *schedule, rule);
      currentNs = bestNs;
    }
    trial.spentNs += static_cast<int64_t>(schedule->tasks.size()) * kChangeTaskNs;
    if (!changes.form(*problem, index, counter, trial.groups))
      continue;
    trial.arrange(changes.forwardKey, changes.backwardKey);
    int64_t ns = trial.run(changes.rule(), currentNs + bestNs / 8 * (kWalk - since) / kWalk + 1);
    if (ns < 0)
      continue;
    currentNs = ns;
    changes.keep();
    if (ns < bestNs) {
      keepIfBest(ns);
      rule = changes.rule();
    }
  }
}

void Scheduler::State::wavefront() {
  Choice best = search();
  if (bestNs == kUnknown) { // All were stuck.
    blocks(false);
    for (bool flowing : {false, true}) {
      trial.regrouper.listSamples(flowing, order);
      blocks(false);
    }
  }
  if (isFar()) // Few micro-batches may be served best as they come. So no schedule is much worse than file order's.
    inFileOrder();
  changeLittle(best.rule);
}

Scheduler::Scheduler(uint64_t fixedParts, int64_t maxNsPerTask) : state(std::make_unique<State>()) {
  state->fixedParts = fixedParts;
  state->maxNsPerTask = maxNsPerTask;
}
Scheduler::~Scheduler() = default;

void Scheduler::run(const Problem &problem, Order order, Schedule &schedule) {
  state->begin(problem, schedule);
  order == Order::FileOrder ? state->fileOrder() : state->wavefront();
  schedule.makespanNs = state->bestNs;
  schedule.lowerBoundNs = state->boundNs;
}

} // namespace maestro::wavefront
