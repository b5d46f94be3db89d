#include "planner/driver/layout_search.h"

#include "ir/section/section.h"
#include "planner/driver/trial_models.h"
#include "planner/search/search.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::planner {
namespace {

/// Trial emissions of so many operators together: about a second.
constexpr size_t kTrialOperators = 60'000, kMostTrials = 40;
/// More stages than this are tried only where they are pinned.
constexpr uint32_t kMostStages = 4;

std::string duration(double seconds) {
  return seconds >= 1 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.3g} ms", seconds * 1e3);
}

size_t countOperators(mlir::ModuleOp module) {
  size_t count = 0;
  module.walk([&](mlir::Operation *) { ++count; });
  return count;
}

std::vector<std::string> sectionNames(mlir::ModuleOp module) {
  std::vector<std::string> names;
  for (auto op : module.getOps<section::SectionOp>())
    if (std::string name = op.getSectionName().str(); names.empty() || names.back() != name)
      names.push_back(name);
  return names;
}

} // namespace

size_t LayoutSearch::trialsAllowed() const {
  return std::clamp<size_t>(kTrialOperators / std::max<size_t>(1, countOperators(base.sections)), 2, kMostTrials);
}

/// Around the size that is taken where nothing is searched, and what is pinned.
std::vector<int64_t> LayoutSearch::microBatchSizes() const {
  int64_t globalBatch = base.workload->train.globalBatch;
  std::vector<int64_t> sizes;
  bool allPinned = true;
  for (const auto &[name, layout] : base.layouts) {
    allPinned &= layout.microBatchIsPinned;
    sizes.push_back(layout.microBatch);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (!allPinned) {
    int64_t usual = 1;
    for (const auto &[name, layout] : base.layouts)
      if (!layout.microBatchIsPinned)
        usual = layout.microBatch;
    for (int64_t size : {usual * 2, usual / 2, usual * 4, usual / 4})
      if (size >= 1 && size <= globalBatch && sizes.size() < std::max<size_t>(2, trialsAllowed() / 2) &&
          std::find(sizes.begin(), sizes.end(), size) == sizes.end())
        sizes.push_back(size);
    std::sort(sizes.begin(), sizes.end());
  }
  return sizes;
}

/// Beside what is pinned: each section alone in 2 … stages, and all of them.
std::vector<std::map<std::string, int64_t>> LayoutSearch::stageCounts() const {
  std::vector<std::map<std::string, int64_t>> list;
  std::vector<std::string> open;
  for (const std::string &name : sectionNames(base.sections))
    if (!pins.of(name, &SectionPins::stages))
      open.push_back(name);
  for (uint32_t stages = 2; stages <= std::min(base.machine.devices, kMostStages); ++stages) {
    if (open.size() > 1) {
      std::map<std::string, int64_t> all;
      for (const std::string &name : open)
        all[name] = stages;
      list.push_back(std::move(all));
    }
    for (const std::string &name : open)
      list.push_back({{name, stages}});
  }
  return list;
}

Status LayoutSearch::addModel(mlir::ModuleOp sections) {
  EmitInput input = base;
  input.sections = sections;
  for (auto &[name, layout] : input.layouts)
    layout.stages = 0;
  for (auto op : sections.getOps<section::SectionOp>())
    ++input.layouts.at(op.getSectionName().str()).stages;
  MAESTRO_ASSIGN(CompoundModel model, collectModel(input, microBatchSizes()));
  problem.models.push_back(std::move(model));
  return Status();
}

void LayoutSearch::addPins() {
  const CompoundModel &model = problem.models.front();
  for (const cost_models::SectionModel &section : model.sections) {
    SearchPins &own = problem.pins.emplace_back();
    const SectionLayout &layout = base.layouts.at(section.name);
    if (auto degree = pins.of(section.name, &SectionPins::dataParallel))
      own.dataParallel = static_cast<uint32_t>(*degree);
    if (auto stages = pins.of(section.name, &SectionPins::stages))
      own.stages = static_cast<uint32_t>(*stages);
    own.devices = pins.of(section.name, &SectionPins::devices);
    if (layout.microBatchIsPinned)
      own.microBatch = static_cast<uint32_t>(
          std::find(model.microBatches.begin(), model.microBatches.end(), layout.microBatch) - model.microBatches.begin());
  }
}

Status LayoutSearch::collect() {
  MAESTRO_TRY(addModel(base.sections));
  size_t trials = microBatchSizes().size(), allowed = trialsAllowed();
  for (const auto &stages : stageCounts()) {
    if (trials + microBatchSizes().size() > allowed)
      break;
    mlir::OwningOpRef<mlir::ModuleOp> module = cutStages(stages);
    if (!module)
      continue;
    trials += microBatchSizes().size();
    MAESTRO_TRY(addModel(*module));
    cutModules.push_back(std::move(module));
  }
  addPins();
  problem.steps = stepsToSimulate(*base.workload, *base.graph);
  problem.machine = base.machine;
  problem.budget = {64, 50'000};
  return Status();
}

Status LayoutSearch::run(uint64_t deviceBytes) {
  if (problem.models.empty())
    MAESTRO_TRY(collect());
  for (cost_models::DeviceModel &kind : problem.machine.kinds)
    kind.memoryBytes = std::min(kind.memoryBytes, deviceBytes);
  MAESTRO_ASSIGN(result, searchLayouts(problem));
  return verify(problem, result);
}

std::map<std::string, SectionLayout> LayoutSearch::layouts() const {
  const CompoundModel &model = problem.models[result.model];
  std::map<std::string, SectionLayout> layouts;
  for (size_t s = 0; s < model.sections.size(); ++s) {
    SectionLayout &layout = layouts[model.sections[s].name] = base.layouts.at(model.sections[s].name);
    layout.microBatch = model.microBatches[result.layout[s].microBatch];
    layout.microBatchReason = layout.microBatchIsPinned ? "pinned" : "by search";
    layout.stages = static_cast<int64_t>(model.sections[s].stages.size());
    layout.devices = result.layout[s].devices;
  }
  return layouts;
}

mlir::ModuleOp LayoutSearch::sections() const { return result.model == 0 ? base.sections : *cutModules[result.model - 1]; }

std::vector<Decision> LayoutSearch::decisions() const {
  std::vector<Decision> list;
  const CompoundModel &model = problem.models[result.model];
  double best = result.simulation.stepSeconds;
  std::string how = result.winner == "search" ? "by search" : result.winner + ", which nothing beats";
  std::string reach = result.isProven ? "no layout is faster"
                                      : fmt::format("{} simulated, no layout takes less than {}", result.simulations,
                                                    duration(result.lowerBoundSeconds));
  list.push_back({"layout", duration(best) + " a step", fmt::format("{}: {}; {}", how, describe(model, result.layout), reach), true});
  for (const ComparedLayout &row : result.compared) {
    if (row.name == result.winner || row.name == "search")
      continue;
    std::string choice = "none", reason = row.what;
    if (row.possible) {
      choice = fmt::format("{}, {:.2f} x", duration(row.simulation.stepSeconds), row.simulation.stepSeconds / best);
      reason += row.inFileOrder ? ", in file order" : "";
    }
    list.push_back({"layout, compared: " + row.name, choice, reason, true});
  }
  for (size_t s = 0; s < model.sections.size(); ++s) {
    const cost_models::Simulation::Section &own = result.simulation.sections[s];
    list.push_back({model.sections[s].name + ".time", fmt::format("{} busy", duration(own.busySeconds)),
                    fmt::format("simulated, a device's mean a step; {} idle, {:.3g} micro-batches", duration(own.idleSeconds),
                                own.microBatches),
                    true});
  }
  double overBound = result.simulation.makespanSeconds / std::max(result.simulation.lowerBoundSeconds, 1e-12);
  list.push_back({"schedule", fmt::format("{:.3f} x its bound", overBound),
                  fmt::format("simulated: tasks {}, then gradients' reduction and updates", duration(result.simulation.makespanSeconds)),
                  true});
  return list;
}

} // namespace maestro::planner
