// maestro-plan's work as one object: what was read, the layouts, the programs, what they emit and what it is found to
// cost. planner.cpp reads and chooses layouts, planner_fit.cpp makes the answer fit the devices' memory,
// plan_command.cpp runs it and writes. Internal to planner/driver.
#pragma once

#include "passes/attributes.h"
#include "passes/section_atoms.h"
#include "planner/driver/default_layouts.h"
#include "planner/driver/diagnostics.h"
#include "planner/driver/layout_search.h"
#include "planner/driver/plan_command.h"
#include "planner/driver/plan_findings.h"
#include "planner/driver/plan_inputs.h"
#include "planner/driver/plan_report.h"
#include "planner/driver/programs.h"
#include "planner/driver/step_sizes.h"
#include "planner/emit/emit_plan.h"
#include "planner/import/link.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace maestro::planner {

/// Of a steady clock.
double nowSeconds();

class Planner {
public:
  explicit Planner(const PlanOptions &options) : options(options) {}

  /// Plans, writes, and says so.
  Status run(std::vector<std::vector<uint8_t>> spares);

  /// The plan's bytes, for within another one.
  Result<std::vector<uint8_t>> spare(int64_t nodesOfAll);

private:
  /// As far as emitted plans.
  Status make();

  mlir::func::FuncOp graph() { return module->lookupSymbol<mlir::func::FuncOp>(attributes::kGraphFunction); }

  /// A section is named after its component, so that a pin of either means the component's products.
  void usePrecisions();

  /// The programs of the workload with its sections cut like this.
  Result<mlir::OwningOpRef<mlir::ModuleOp>> makePrograms(const PartitionOptions &partition);

  std::vector<SectionFacts> sectionFacts() const;

  Status checkPins() const;

  /// Layouts as pinned, else over all devices.
  Status chooseLayouts();

  /// The programs of these layouts.
  Status useDefaults();

  /// Halves the largest micro-batch that is not pinned; false when there is none.
  bool halveMicroBatches();

  /// Several layouts are possible where there are several devices or sections.
  Status searchLayouts();

  /// Whether a share of the deadline is over, less so many seconds; null where there is none.
  std::function<bool()> over(double share, double seconds) const;
  LayoutSearch::Limits limits() const;

  /// Tensors are split where that is pinned, not by search: what is found without pins is for comparison.
  Status searchOpen();

  uint64_t deviceBytes() const { return target.machine.kinds.front().memoryBytes; }

  /// On this machine, where nothing fits, layouts stay as they were, and emission says what is missing.
  Status useSearch(uint64_t bytes);

  /// The search's answer, or one of the next best.
  Status useRank(size_t rank);

  /// Emits the layouts; where they fit, the plan says what a simulation of it says.
  Status tryLayouts(size_t rank);

  Result<PlanFindings> find(size_t rank) const;

  Status emit(const DiagnosticCollector &diagnostics);

  /// Programs, and what they emit.
  struct Tried {
    mlir::OwningOpRef<mlir::ModuleOp> programs;
    EmittedPlan emitted;
    std::vector<Decision> chunking;
  };

  /// With so many chunks, or the most below that a section has, where the user says nothing.
  Result<Tried> tryLossChunks(uint32_t count);

  /// Where nothing is searched: in chunks where that takes hardly any time and saves memory, or nothing else fits.
  Status chooseLossChunks();

  /// The search adds up what it was told of each atom; what emission finds beyond that is taken from its budget, and
  /// more the more often: each time another layout is the one that just fits.
  Status searchAgain();

  /// Without the search: smaller micro-batches, or another machine.
  Status makeFit();

  Status tooLarge() const;

  /// Returns how many bytes the plan has.
  Result<size_t> write(const std::string &path) const;

  /// plan.mpl, plan.2.mpl, …
  Status writeNextBest();

  PlannedJob job() const;

  const PlanOptions &options;
  double started = 0, readSeconds = 0, searchSeconds = 0;
  Workload workload;
  ClusterSpec cluster;
  GraphSummary summary;
  StepSizes sizes;
  Pins pins;
  std::map<std::string, SectionLayout> layouts;
  PlannedMachine target;
  mlir::MLIRContext context;
  LinkedGraph linked;
  mlir::OwningOpRef<mlir::ModuleOp> module;   ///< As far as Phase::Loss: the graph in one piece.
  AtomGraph atoms;                            ///< Of it.
  mlir::OwningOpRef<mlir::ModuleOp> programs; ///< Of the layouts.
  std::unique_ptr<LayoutSearch> search;       ///< Where there was a choice.
  struct {
    Pins pins;
    AtomGraph atoms;
    std::unique_ptr<LayoutSearch> search;
  } open;                         ///< Beside split tensors: without pins, for comparison.
  std::vector<Decision> chunking; ///< Where nothing is searched: of losses.
  std::vector<Decision> doubts;   ///< Of what trains.
  Unreached unreached;
  EmitInput input;
  EmittedPlan emitted;
  PlanFindings findings; ///< Of it.
};

} // namespace maestro::planner
