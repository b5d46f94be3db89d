#include "small_problems.h"

#include <fmt/format.h>

#include <random>

namespace maestro::planner {
namespace {

using cost_models::EdgeModel;
using cost_models::SectionModel;
using cost_models::StageCosts;
using cost_models::StageModel;

constexpr uint32_t kBatch = 0, kSeq = 1;

CompoundModel emptyModel(std::vector<int64_t> microBatches, int64_t longest) {
  CompoundModel model;
  model.dims = {{"batch", true, 1}, {"seq", false, 1}};
  for (int64_t size : microBatches)
    model.capacities.push_back({size, longest});
  model.microBatches = std::move(microBatches);
  return model;
}

/// `perToken` picoseconds for each padded token, `perTask` for each task.
wavefront::Cost cost(int64_t perToken, int64_t perTask) { return {{{perToken, {kBatch, kSeq}}, {perTask, {}}}}; }

SectionModel section(std::string name, bool trains, size_t sizes, std::vector<int64_t> stagesPs, int64_t perTask) {
  SectionModel result{std::move(name), trains, {}, {}};
  for (int64_t perToken : stagesPs) {
    StageModel stage{trains ? 4000u : 1000u, trains ? 1000u : 0u, trains ? 9000u : 0u, {}};
    for (size_t m = 0; m < sizes; ++m)
      stage.at.push_back({cost(perToken, perTask), cost(2 * perToken, perTask), uint64_t{100} << m, 50, 10});
    result.stages.push_back(std::move(stage));
  }
  return result;
}

EdgeModel edge(uint32_t producer, uint32_t producerStage, uint32_t consumer, uint32_t consumerStage, bool gradient, size_t sizes) {
  return {producer, producerStage, consumer, consumerStage, gradient, false, {{1, {kBatch, kSeq}}},
          std::vector<uint64_t>(sizes, 30), std::vector<uint64_t>(sizes, 30)};
}

/// Devices of one process, 500 ps from each other and 20 ps a byte.
cost_models::Machine machineOf(uint32_t devices, double streamBytesPerSecond) {
  cost_models::Machine machine;
  machine.devices = devices;
  cost_models::DeviceRates &rates = machine.kinds[0].rates;
  rates.stream = cost_models::BytesPerSecond(streamBytesPerSecond);
  rates.channel = cost_models::BytesPerSecond(1e12 / 20);
  rates.wake = cost_models::Seconds(500e-12);
  return machine;
}

} // namespace

SearchProblem smallProblem(uint64_t seed) {
  std::mt19937_64 random(seed);
  auto pick = [&](int64_t least, int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1)) + least; };
  SearchProblem problem;
  size_t sections = seed % 20 == 0 ? 3 : 2;
  uint32_t devices = sections == 3 || pick(0, 3) ? 2 : 3;
  problem.machine = machineOf(devices, pick(0, 1) ? 1e12 : 1e9); // Updates that hardly count, and that decide.
  std::vector<int64_t> sizes = sections == 2 && pick(0, 4) == 0 ? std::vector<int64_t>{1, 2, 4} : std::vector<int64_t>{1, 2};
  CompoundModel model = emptyModel(sizes, 8);
  bool fork = sections == 3 && pick(0, 1);
  std::vector<int64_t> work, task;
  std::vector<bool> trains;
  for (size_t s = 0; s < sections; ++s) {
    work.push_back(pick(1, 20) * 10'000);
    task.push_back(pick(0, 4) * 20'000);
    bool receivesGradients = s > 0 && !fork && trains[s - 1]; // Then it has a backward task.
    trains.push_back(s + 1 == sections || pick(0, 1) || receivesGradients);
    model.sections.push_back(section(fmt::format("s{}", s), trains[s], sizes.size(), {work[s]}, task[s]));
    if (s > 0 && !(fork && s == 1)) // A fork's first two sections both feed the third.
      model.edges.push_back(edge(static_cast<uint32_t>(s - 1), 0, static_cast<uint32_t>(s), 0, trains[s - 1], sizes.size()));
  }
  if (fork)
    model.edges.push_back(edge(0, 0, 2, 0, trains[0], sizes.size()));
  problem.models.push_back(model);
  if (sections == 2 && pick(0, 2) == 0) { // The last section also in two stages.
    CompoundModel cut = model;
    cut.sections[1] = section("s1", true, sizes.size(), {work[1] / 2, work[1] - work[1] / 2}, task[1]);
    cut.edges.push_back(edge(1, 0, 1, 1, true, sizes.size()));
    problem.models.push_back(std::move(cut));
  }
  problem.pins.resize(sections);
  if (pick(0, 5) == 0)
    problem.pins[0].microBatch = 1;
  if (pick(0, 5) == 0)
    problem.pins[sections - 1].dataParallel = 2;
  if (pick(0, 3) == 0)
    problem.machine.kinds[0].memoryBytes = static_cast<uint64_t>(pick(4500, 7000));
  size_t samples = static_cast<size_t>(pick(3, 5));
  cost_models::SampleSizes step;
  for (size_t i = 0; i < samples; ++i)
    step.insert(step.end(), {1, pick(1, 8)});
  problem.steps.push_back(std::move(step));
  problem.budget = {1'000'000, 10'000'000};
  return problem;
}

SearchProblem distillation(uint32_t devices, int64_t teacherPs, int64_t studentPs) {
  SearchProblem problem;
  problem.machine = machineOf(devices, 1e9);
  CompoundModel model = emptyModel({1, 2, 4}, 8);
  model.sections = {section("teacher", false, 3, {teacherPs}, 0), section("student", true, 3, {studentPs}, 0)};
  model.edges = {edge(0, 0, 1, 0, false, 3)};
  problem.models = {model};
  problem.pins.resize(2);
  cost_models::SampleSizes step;
  for (int i = 0; i < 16; ++i)
    step.insert(step.end(), {1, 8});
  problem.steps = {step};
  return problem;
}

} // namespace maestro::planner
