#include "cost_models/simulations.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>

namespace maestro::cost_models {
namespace {

/// A search looks at few layouts that do not depend on each other.
constexpr unsigned kMostThreads = 8;

} // namespace

Simulations::Simulations(std::span<const SampleSizes> steps, uint64_t mostTasks,
                         const std::vector<wavefront::Choice> &hints, int64_t maxNsPerTask) {
  for (unsigned i = 0; i < std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads); ++i)
    simulators.emplace_back(steps, mostTasks, hints, maxNsPerTask);
}

std::vector<Result<Simulation>> Simulations::run(std::span<const SimulationQuestion> questions) {
  std::vector<std::optional<Result<Simulation>>> answers(questions.size());
  std::atomic<size_t> next = 0;
  auto work = [&](Simulator &simulator) {
    for (size_t i = next++; i < questions.size(); i = next++) {
      const SimulationQuestion &question = questions[i];
      answers[i].emplace(simulator.run(*question.model, *question.machine, question.layout, question.order));
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(simulators.size(), questions.size()); ++i)
    threads.emplace_back(work, std::ref(simulators[i]));
  work(simulators[0]);
  for (std::thread &thread : threads)
    thread.join();
  std::vector<Result<Simulation>> results;
  for (auto &answer : answers)
    results.push_back(std::move(*answer));
  return results;
}

} // namespace maestro::cost_models
