#include "small_problems.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace maestro::planner {
namespace {

using cost_models::AtomClass;
using cost_models::AtomClasses;
using cost_models::AtomicSection;
using cost_models::StageModel;
using cost_models::Variant;

constexpr uint32_t kBatch = 0, kSeq = 1;

constexpr int64_t kLongest = 8;

/// Steps take milliseconds, as real ones do: the scheduler spends a part of a step on its schedule, so that thousands
/// are cheap.
constexpr int64_t kPsPerNs = 1000;

AtomicModel emptyModel(std::vector<int64_t> microBatches) {
  AtomicModel model;
  model.dims = {{"batch", true, 1}, {"seq", false, 1}};
  model.microBatches = std::move(microBatches);
  return model;
}

/// With `stretch` above 1 micro-batches are bounded by padded tokens, and have so many times the samples if they are
/// short.
void setCapacities(AtomicModel &model, int64_t stretch) {
  for (AtomicSection &section : model.sections)
    for (int64_t size : model.microBatches) {
      cost_models::MicroBatchCapacity &capacity = section.capacities.emplace_back();
      capacity.samples = stretch * size;
      capacity.dims = {stretch * size, kLongest};
      if (stretch > 1)
        capacity.areas = {{kBatch, kSeq, size * kLongest}};
    }
}

/// `perToken` picoseconds for each padded token, `perTask` for each task.
wavefront::Cost cost(int64_t perToken, int64_t perTask) { return {{{perToken, {kBatch, kSeq}}, {perTask, {}}}}; }

StageModel stage(bool trains, size_t sizes, int64_t perToken, int64_t perTask, uint64_t times) {
  cost_models::ParameterBytes parameters =
      trains ? cost_models::ParameterBytes{1000, 1000, 2000} : cost_models::ParameterBytes{1000, 0, 0};
  StageModel result{parameters * times, {}};
  for (size_t m = 0; m < sizes; ++m)
    result.at.push_back(
        {cost(perToken, perTask), cost(2 * perToken, perTask), (uint64_t{100} << m) * times, 50, 10, {}});
  return result;
}

/// An atom of one class for each number of picoseconds; neighbours of equal ones are a class, a pair of which costs a
/// bit less. Returns the section.
uint32_t addSection(AtomicModel &model, std::string name, bool trains, const std::vector<int64_t> &atomsPs,
                    int64_t perTask) {
  AtomicSection &own = model.sections.emplace_back(AtomicSection{std::move(name), trains, {}, {}, {}, {Variant{}}});
  auto section = static_cast<uint32_t>(model.sections.size()) - 1;
  AtomClasses classes;
  size_t sizes = model.microBatches.size();
  for (size_t atom = 0; atom < atomsPs.size(); ++atom) {
    if (atom == 0 || atomsPs[atom] != atomsPs[atom - 1])
      classes.push_back(
          {stage(trains, sizes, atomsPs[atom], perTask, 1), stage(trains, sizes, 2 * atomsPs[atom], perTask, 2)});
    own.classOf.push_back(static_cast<uint32_t>(classes.size()) - 1);
  }
  model.costs->put(section, Variant{}, std::move(classes));
  return section;
}

/// Another variant of a section, with these changes of another one's costs.
template <typename Change>
void addVariant(AtomicModel &model, uint32_t section, const Variant &variant, const Variant &from, Change change) {
  AtomClasses classes = model.classesOf(section, from);
  for (AtomClass &own : classes)
    for (StageModel *stages : {&own.alone, &own.pair})
      for (cost_models::StageCosts &costs : stages->at)
        change(costs);
  model.sections[section].variants.insert(variant);
  model.costs->put(section, variant, std::move(classes));
}

/// Also with recompute: each kind takes a third more time than the one before, and keeps half of it.
void addRecompute(AtomicModel &model, uint32_t section, Recompute kind = Recompute::Selective) {
  addVariant(model, section, {kind}, {lighterThan(kind)}, [](cost_models::StageCosts &costs) {
    costs.backward.terms.front().picoseconds += costs.backward.terms.front().picoseconds / 3;
    costs.slotBytes /= 2;
  });
}

/// Also with a split backward: half of it are weights' gradients, and a micro-batch in flight keeps half as much again.
void addSplit(AtomicModel &model, uint32_t section) {
  for (Variant own : std::set<Variant>(model.sections[section].variants))
    addVariant(model, section, {own.recompute, true}, own, [](cost_models::StageCosts &costs) {
      costs.weightGradient = costs.backward;
      for (wavefront::CostTerm &term : costs.backward.terms)
        term.picoseconds /= 2;
      for (wavefront::CostTerm &term : costs.weightGradient.terms)
        term.picoseconds -= term.picoseconds / 2;
      costs.slotBytes += costs.slotBytes / 2;
    });
}

void join(AtomicModel &model, uint32_t producer, uint32_t atom, uint32_t consumer, uint32_t consumerAtom,
          bool gradient) {
  model.tensors.push_back({producer,
                           atom,
                           {{consumer, consumerAtom}},
                           gradient,
                           {{1, {kBatch, kSeq}}},
                           std::vector<uint64_t>(model.microBatches.size(), 30),
                           {}});
}

/// Each atom feeds the next.
void chain(AtomicModel &model, uint32_t section) {
  for (uint32_t atom = 0; atom + 1 < model.sections[section].classOf.size(); ++atom)
    join(model, section, atom, section, atom + 1, model.sections[section].trains);
}

/// Devices of one process, 500 ns from each other and 20 ns a byte.
cost_models::Machine machineOf(uint32_t devices, double streamBytesPerSecond) {
  cost_models::Machine machine;
  machine.devices = devices;
  cost_models::DeviceRates &rates = machine.kinds[0].rates;
  rates.stream = cost_models::BytesPerSecond(streamBytesPerSecond);
  rates.channel = cost_models::BytesPerSecond(1e9 / 20);
  rates.wake = cost_models::Seconds(500e-9);
  return machine;
}

uint32_t lastAtom(const AtomicModel &model, uint32_t section) {
  return static_cast<uint32_t>(model.sections[section].classOf.size()) - 1;
}

} // namespace

SearchResult verified(const SearchProblem &problem, Result<SearchResult> result) {
  EXPECT_TRUE(result.isOk()) << result.status().message();
  if (!result.isOk())
    return {};
  Status obeys = verify(problem, *result);
  EXPECT_TRUE(obeys.isOk()) << obeys.message();
  return std::move(*result);
}

const ComparedLayout &row(const SearchResult &result, const std::string &name) {
  return *std::find_if(result.compared.begin(), result.compared.end(),
                       [&](const ComparedLayout &r) { return r.name == name; });
}

SearchProblem smallProblem(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto pick = [&](int64_t least, int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1)) + least;
  };
  SearchProblem problem;
  uint32_t sections = seed % 20 == 0 ? 3 : 2;
  uint32_t count = sections == 3 || pick(0, 3) ? 2 : 3;
  problem.machine = machineOf(count, pick(0, 1) ? 1e9 : 1e6); // Updates that hardly count, and that decide.
  std::vector<int64_t> sizes =
      sections == 2 && pick(0, 4) == 0 ? std::vector<int64_t>{1, 2, 4} : std::vector<int64_t>{1, 2};
  AtomicModel model = emptyModel(sizes);
  bool fork = sections == 3 && pick(0, 1);
  std::vector<bool> trains;
  for (uint32_t s = 0; s < sections; ++s) {
    bool receivesGradients = s > 0 && !fork && trains[s - 1]; // Then it has a backward task.
    trains.push_back(s + 1 == sections || pick(0, 1) || receivesGradients);
    std::vector<int64_t> atoms{pick(1, 20) * 10'000 * kPsPerNs};
    if (pick(0, 2) == 0)
      atoms.push_back(pick(0, 1) ? atoms[0] : pick(1, 20) * 10'000 * kPsPerNs);
    addSection(model, fmt::format("s{}", s), trains[s], atoms, pick(0, 4) * 20'000 * kPsPerNs);
    if (trains[s] && pick(0, 3) == 0)
      addRecompute(model, s);
    if (trains[s] && seed % 3 == 1)
      addSplit(model, s);
    chain(model, s);
    if (s > 0 && !(fork && s == 1)) // A fork's first two sections both feed the third.
      join(model, s - 1, lastAtom(model, s - 1), s, 0, trains[s - 1]);
  }
  if (fork)
    join(model, 0, lastAtom(model, 0), 2, 0, trains[0]);
  setCapacities(model, seed % 4 == 3 ? 2 : 1);
  problem.model = std::move(model);
  problem.pins.resize(sections);
  if (pick(0, 5) == 0)
    problem.pins[0].microBatch = 1;
  if (pick(0, 5) == 0)
    problem.pins[sections - 1].dataParallel = 2;
  if (pick(0, 3) == 0)
    problem.machine.kinds.front().memoryBytes = static_cast<uint64_t>(pick(4500, 9000));
  size_t samples = static_cast<size_t>(pick(3, 5));
  cost_models::SampleSizes step;
  for (size_t i = 0; i < samples; ++i)
    step.insert(step.end(), {1, pick(1, kLongest)});
  problem.steps.push_back(std::move(step));
  problem.budget.simulations = 1'000'000;
  return problem;
}

SearchProblem distillation(uint32_t devices, int64_t teacherNs, int64_t studentNs) {
  SearchProblem problem;
  problem.machine = machineOf(devices, 1e6);
  AtomicModel model = emptyModel({1, 2, 4});
  addSection(model, "teacher", false, {teacherNs * kPsPerNs}, 0);
  addSection(model, "student", true, {studentNs * kPsPerNs}, 0);
  join(model, 0, 0, 1, 0, false);
  setCapacities(model, 1);
  problem.model = std::move(model);
  problem.pins.resize(2);
  cost_models::SampleSizes step;
  for (int i = 0; i < 16; ++i)
    step.insert(step.end(), {1, kLongest});
  problem.steps = {step};
  return problem;
}

SearchProblem layered(uint32_t devices, uint32_t layers, uint64_t seed) {
  std::mt19937_64 random(seed);
  auto pick = [&](int64_t least, int64_t most) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1)) + least;
  };
  SearchProblem problem;
  problem.machine = machineOf(devices, 1e11);
  problem.machine.kinds.front().memoryBytes = static_cast<uint64_t>(pick(20'000, 60'000));
  if (devices > 8)
    problem.machine.links = {{"inner", 8, cost_models::gigabytesPerSecond(450), cost_models::microseconds(2)},
                             {"outer", devices, cost_models::gigabytesPerSecond(50), cost_models::microseconds(6)}};
  AtomicModel model = emptyModel({1, 2, 4, 8});
  std::vector<int64_t> teacher(layers, pick(20, 100) * 10'000'000), student(layers / 2 + 1, pick(5, 40) * 10'000'000);
  student.back() *= 2; // A head.
  addSection(model, "teacher", false, teacher, 1'000'000);
  uint32_t last = addSection(model, "student", true, student, 1'000'000);
  addRecompute(model, last);
  addRecompute(model, last, Recompute::Full);
  addSplit(model, last);
  chain(model, 0);
  chain(model, 1);
  join(model, 0, lastAtom(model, 0), 1, lastAtom(model, 1), false);
  setCapacities(model, seed % 2 == 1 ? 2 : 1);
  problem.model = std::move(model);
  problem.pins.resize(2);
  cost_models::SampleSizes step;
  for (uint32_t i = 0; i < 8 * devices; ++i)
    step.insert(step.end(), {1, pick(4, kLongest)});
  problem.steps = {step};
  problem.budget.tasks = 400'000;
  problem.budget.tasksAtOnce = 20'000;
  return problem;
}

} // namespace maestro::planner
