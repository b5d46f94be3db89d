// Layouts by search: trial emissions become a search problem, its answer becomes layouts and the reasons for them.
#pragma once

#include "planner/driver/layouts.h"
#include "planner/search/search_problem.h"

#include "mlir/IR/BuiltinOps.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace maestro::planner {

/// The workload cut into other numbers of stages: programs, or null where a section cannot be cut so.
using CutStages = std::function<mlir::OwningOpRef<mlir::ModuleOp>(const std::map<std::string, int64_t> &stages)>;

class LayoutSearch {
public:
  /// `base` says everything but layouts; its sections are those that pins of stages make.
  LayoutSearch(const EmitInput &base, const Pins &pins, CutStages cutStages)
      : base(base), pins(pins), cutStages(std::move(cutStages)) {}

  /// Searches on devices of `deviceBytes`; models are collected once. InvalidInput where nothing fits.
  Status run(uint64_t deviceBytes);

  /// Of the answer: what to emit, by section; its module is the base's where that is not cut anew.
  std::map<std::string, SectionLayout> layouts() const;
  mlir::ModuleOp sections() const;
  /// The comparison: the chosen layout, each baseline, each section's time.
  std::vector<Decision> decisions() const;
  double stepSeconds() const { return result.simulation.stepSeconds; }
  const SearchResult &answer() const { return result; }

private:
  Status collect();
  Status addModel(mlir::ModuleOp sections);
  std::vector<int64_t> microBatchSizes() const;
  std::vector<std::map<std::string, int64_t>> stageCounts() const;
  size_t trialsAllowed() const;
  void addPins();

  EmitInput base;
  const Pins &pins;
  CutStages cutStages;
  SearchProblem problem;
  SearchResult result;
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> cutModules; ///< By models, after the first.
};

} // namespace maestro::planner
