#include "planner/driver/plan_command.h"

#include "base/log.h"
#include "passes/attributes.h"
#include "passes/section_atoms.h"
#include "plan/builder.h"
#include "planner/driver/default_layouts.h"
#include "planner/driver/diagnostics.h"
#include "planner/driver/emitted_model.h"
#include "planner/driver/layout_search.h"
#include "planner/driver/plan_findings.h"
#include "planner/driver/plan_inputs.h"
#include "planner/driver/plan_report.h"
#include "planner/driver/programs.h"
#include "planner/driver/sinusoidal_tables.h"
#include "planner/driver/step_sizes.h"
#include "planner/driver/unpadded_dims.h"
#include "planner/emit/emit_plan.h"
#include "planner/emit/weights_file.h"
#include "planner/import/link.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>

namespace maestro::planner {
namespace {

double nowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Of a deadline, counted from the command's start, the search may have so much; the rest is for emitting and
/// explaining the answer.
constexpr double kSearchShare = 0.6;
/// With less time left than this the answer's schedules are not tuned: that takes some seconds, which nothing
/// interrupts.
constexpr double kTuningSeconds = 10;

/// With less memory, where the answer needs more than its layers add up to.
constexpr int kSearchesAgain = 4;

/// Where nothing is searched, losses are done in chunks where that saves so much of the fullest device's peak, and
/// tasks take so many times as long at most.
constexpr double kLeastSaving = 0.05, kMostSlower = 1.02;

double gib(uint64_t bytes) { return static_cast<double>(bytes) / 1073741824.0; }

/// Of a micro-batch's tasks, at the bounds.
double taskSeconds(const EmittedPlan &plan) {
  double seconds = 0;
  for (const LoweringReport &report : plan.reports)
    for (const ProgramCost &program : report.costs)
      if (program.kind == plan::fb::ProgramKind::Forward || program.kind == plan::fb::ProgramKind::Backward ||
          program.kind == plan::fb::ProgramKind::WeightGradient)
        seconds += program.seconds;
  return seconds;
}

class Planner {
public:
  explicit Planner(const PlanOptions &options) : options(options) {}

  /// Plans, writes, and says so.
  Status run(std::vector<std::vector<uint8_t>> spares) {
    MAESTRO_TRY(make());
    if (options.stopAfter)
      return Status();
    for (std::vector<uint8_t> &spare : spares) {
      auto &own = *emitted.tables.spares.emplace_back(std::make_unique<plan::fb::SpareT>());
      own.plan = std::move(spare);
    }
    MAESTRO_ASSIGN(size_t bytes, write(options.output));
    logPlan(job(), findings, emitted);
    double seconds = nowSeconds() - started;
    logInfo(fmt::format("wrote {} ({} bytes) in {:.2f} s", options.output, bytes, seconds));
    if (options.deadlineSeconds && seconds > *options.deadlineSeconds)
      logWarning(
          fmt::format("--deadline {:g}s: it took {:.1f} s, of which reading the models took {:.1f} and the search "
                      "{:.1f}; one layout has to be tried and written",
                      *options.deadlineSeconds, seconds, readSeconds, searchSeconds));
    return writeNextBest();
  }

  /// The plan's bytes, for within another one.
  Result<std::vector<uint8_t>> spare(int64_t nodesOfAll) {
    MAESTRO_TRY(make().withContext(fmt::format("for {} of {} nodes", cluster.nodes, nodesOfAll)));
    logInfo(fmt::format("for {} of {} nodes: {}", cluster.nodes, nodesOfAll, describeLayouts(layouts)));
    return plan::finish(emitted.tables);
  }

private:
  /// As far as emitted plans.
  Status make() {
    started = nowSeconds();
    MAESTRO_TRY(checkOutput(options));
    MAESTRO_ASSIGN(PlanInputs inputs, readInputs(options));
    workload = std::move(inputs.workload);
    cluster = std::move(inputs.cluster);
    target = std::move(inputs.target);
    MAESTRO_TRY(checkOverwrites(options, workload));
    MAESTRO_ASSIGN(pins, Pins::parse(options.pins));
    context.disableMultithreading();
    context.printOpOnDiagnostic(false); // Messages are for people, who never saw the operator's text.
    DiagnosticCollector diagnostics(context);
    MAESTRO_ASSIGN(linked, importWorkload(workload, context));
    module = std::move(linked.module);
    MAESTRO_ASSIGN(summary, summarizeGraph(graph(), workload));
    MAESTRO_ASSIGN(sizes, stepSizes(workload, summary, options.stopAfter ? ReadSizes() : options.readSizes));
    MAESTRO_TRY(checkCuts(workload, summary));
    MAESTRO_TRY(applyWeightFiles(workload, summary));
    doubts = doubtsOfTables(graph(), summary);
    usePrecisions();
    MAESTRO_TRY(runPasses(*module, workload, {}, options.stopAfter.value_or(Phase::Loss), pins.partition(workload)));
    if (options.stopAfter) {
      module->print(llvm::outs(), mlir::OpPrintingFlags().enableDebugInfo(false));
      llvm::outs() << "\n";
      return Status();
    }
    MAESTRO_TRY(noteUnpadded(*module, sizes, summary, linked.notes));
    noteHeldTypes(graph(), summary);
    return emit(diagnostics);
  }

  mlir::func::FuncOp graph() { return module->lookupSymbol<mlir::func::FuncOp>(attributes::kGraphFunction); }

  /// A section is named after its component, so that a pin of either means the component's products.
  void usePrecisions() {
    for (const ComponentSpec &component : workload.components)
      workload.train.precisionOf[component.name] =
          pins.of(component.name, &SectionPins::precision).value_or(workload.train.precisionFor(component.name));
  }

  /// The programs of the workload with its sections cut like this.
  Result<mlir::OwningOpRef<mlir::ModuleOp>> makePrograms(const PartitionOptions &partition) {
    mlir::OwningOpRef<mlir::ModuleOp> made = module->clone();
    MAESTRO_TRY(runPasses(*made, workload, Phase::Loss, Phase::Split, partition));
    return made;
  }

  std::vector<SectionFacts> sectionFacts() const {
    std::vector<SectionFacts> sections;
    for (const SectionChain &chain : atoms.sections)
      sections.push_back({chain.name, pins.of(chain.name, &SectionPins::stages).value_or(1),
                          pins.of(chain.name, &SectionPins::tensor).value_or(1)});
    return sections;
  }

  Status checkPins() const {
    std::vector<std::string> names;
    for (const SectionChain &chain : atoms.sections)
      names.push_back(chain.name);
    MAESTRO_TRY(pins.check(names));
    for (const SectionChain &chain : atoms.sections) {
      auto places = static_cast<int64_t>(chain.classOf.size());
      if (pins.of(chain.name, &SectionPins::stages).value_or(1) > places)
        return Status::invalidInput(fmt::format("{}: section '{}' can be cut into {} stage{} at most; pin no more",
                                                pins.asGiven(chain.name, "stages"), chain.name, places,
                                                places == 1 ? "" : "s"));
    }
    return Status();
  }

  /// Layouts as pinned, else over all devices.
  Status chooseLayouts() {
    MAESTRO_ASSIGN(layouts, planner::chooseLayouts(sectionFacts(), pins, summary, workload.train.globalBatch,
                                                   target.machine.devices));
    return Status();
  }

  /// The programs of these layouts.
  Status useDefaults() {
    MAESTRO_ASSIGN(programs, makePrograms(pins.partition(workload)));
    MAESTRO_TRY(noteUnreached(*programs, summary, unreached));
    for (const SectionFacts &section : sectionFacts())
      MAESTRO_TRY(checkSplit(*programs, section));
    return checkLossChunks(*programs, pins);
  }

  /// Halves the largest micro-batch that is not pinned; false when there is none.
  bool halveMicroBatches() {
    SectionLayout *largest = nullptr;
    for (auto &[name, layout] : layouts)
      if (!layout.microBatchIsPinned && layout.microBatch > 1 && (!largest || layout.microBatch > largest->microBatch))
        largest = &layout;
    if (!largest)
      return false;
    largest->microBatch /= 2;
    largest->microBatchReason = "halved until the plan fits the device's memory";
    return true;
  }

  /// Several layouts are possible where there are several devices or sections.
  Status searchLayouts() {
    if (pins.splitsTensors())
      return searchOpen();
    if (target.machine.devices == 1 && layouts.size() == 1)
      return useDefaults();
    EmitInput base = input;
    base.layouts = layouts;
    search = std::make_unique<LayoutSearch>(base, pins, atoms, sizes,
                                            [this](const PartitionOptions &cut) { return makePrograms(cut); });
    search->limit(over(kSearchShare, 0), over(1, kTuningSeconds), options.topK);
    MAESTRO_TRY(search->collect());
    return useSearch(deviceBytes());
  }

  /// Whether a share of the deadline is over, less so many seconds; null where there is none.
  std::function<bool()> over(double share, double seconds) const {
    if (!options.deadlineSeconds)
      return nullptr;
    return [end = started + share * *options.deadlineSeconds - seconds] { return nowSeconds() > end; };
  }

  /// Tensors are split where that is pinned, not by search: what is found without pins is for comparison.
  Status searchOpen() {
    mlir::FailureOr<AtomGraph> found = findAtoms(*module, open.pins.partition(workload));
    if (mlir::failed(found))
      return Status::internal("the sections' atoms cannot be found without pins");
    open.atoms = std::move(*found);
    EmitInput base = input;
    std::vector<SectionFacts> facts = sectionFacts();
    for (SectionFacts &section : facts)
      section.stages = section.tensor = 1;
    MAESTRO_ASSIGN(base.layouts, planner::chooseLayouts(facts, open.pins, summary, workload.train.globalBatch,
                                                        target.machine.devices));
    open.search = std::make_unique<LayoutSearch>(base, open.pins, open.atoms, sizes,
                                                 [this](const PartitionOptions &cut) { return makePrograms(cut); });
    open.search->limit(over(kSearchShare, 0), over(1, kTuningSeconds), 1);
    MAESTRO_TRY(open.search->collect());
    Status status = open.search->run(deviceBytes());
    MAESTRO_TRY(open.search->trials());
    if (!status.isOk())
      open.search.reset();
    return status.code() == StatusCode::InvalidInput ? Status() : std::move(status); // Nothing else fits.
  }

  uint64_t deviceBytes() const { return target.machine.kinds.front().memoryBytes; }

  /// On this machine, where nothing fits, layouts stay as they were, and emission says what is missing.
  Status useSearch(uint64_t bytes) {
    Status status = search->run(bytes);
    MAESTRO_TRY(search->trials());
    if (status.code() == StatusCode::InvalidInput && cluster.isThisMachine) {
      logInfo(fmt::format("search: {}", status.message()));
      search.reset();
      return useDefaults();
    }
    if (status.code() == StatusCode::InvalidInput && !options.deadlineSeconds)
      return Status::invalidInput(fmt::format("{}: {}; {}", options.cluster, status.message(), search->remedy()));
    MAESTRO_TRY(std::move(status));
    return useRank(0);
  }

  /// The search's answer, or one of the next best.
  Status useRank(size_t rank) {
    layouts = search->layouts(rank);
    MAESTRO_ASSIGN(programs, search->programs(rank));
    MAESTRO_TRY(checkLossChunks(*programs, pins));
    return noteUnreached(*programs, summary, unreached);
  }

  /// Emits the layouts; where they fit, the plan says what a simulation of it says.
  Status tryLayouts(size_t rank) {
    input.sections = *programs;
    input.layouts = layouts;
    input.decisions = decisionsOf(job());
    input.decisions.insert(input.decisions.end(), chunking.begin(), chunking.end());
    input.decisions.insert(input.decisions.end(), doubts.begin(), doubts.end());
    MAESTRO_ASSIGN(emitted, emitPlan(input));
    if (!emitted.fits)
      return Status();
    MAESTRO_ASSIGN(findings, find(rank));
    nameMicroBatches(emitted.tables);
    addFindings(findings, sizes, input.machine, workload.train, emitted.tables);
    return Status();
  }

  Result<PlanFindings> find(size_t rank) const {
    PlanFindings found;
    std::vector<wavefront::Choice> hints;
    auto use = [&](const cost_models::Simulation &step) {
      found.stepSeconds = step.meanSeconds;
      hints = step.hints;
    };
    if (search) {
      MAESTRO_ASSIGN(cost_models::Simulation step, search->simulate(emitted, layouts));
      use(step);
      found.decisions = search->decisions(rank, step);
      MAESTRO_ASSIGN(found.explanation, search->explanation(rank, step));
    } else if (open.search || !sizes.data.empty() || !workload.synthetic.empty()) {
      bool tunes = !options.deadlineSeconds || !over(1, kTuningSeconds)();
      cost_models::Simulator simulator(sizes.steps);
      MAESTRO_ASSIGN(cost_models::Simulation step,
                     simulateEmitted(emitted, layouts, target.machine, sizes, simulator, tunes));
      use(step);
      if (open.search)
        found.explanation.candidates = open.search->beside(describeLayouts(layouts), step);
    }
    for (const std::vector<Quantity> &known : {sizes.quantities, quantitiesOf(unreached), quantitiesOf(hints)})
      found.explanation.quantities.insert(found.explanation.quantities.end(), known.begin(), known.end());
    return found;
  }

  Status emit(const DiagnosticCollector &diagnostics) {
    mlir::FailureOr<AtomGraph> found = findAtoms(*module, pins.partition(workload));
    if (mlir::failed(found))
      return diagnostics.failure(nameOf(Phase::Partition).str());
    atoms = std::move(*found);
    MAESTRO_TRY(checkPins());
    if (pins.splitsTensors()) // Whether there is anything to split comes before where.
      MAESTRO_TRY(useDefaults());
    MAESTRO_TRY(chooseLayouts());
    input.workload = &workload;
    input.graph = &summary;
    input.machine = target.machine;
    input.machineName = target.name;
    input.nodes = static_cast<uint32_t>(cluster.nodes);
    input.deviceThreads = target.deviceThreads;
    input.planFolder = std::filesystem::absolute(options.output).parent_path().string();
    readSeconds = nowSeconds() - started;
    MAESTRO_TRY(searchLayouts());
    searchSeconds = nowSeconds() - started - readSeconds;
    MAESTRO_TRY(tryLayouts(0));
    MAESTRO_TRY(chooseLossChunks());
    MAESTRO_TRY(searchAgain());
    MAESTRO_TRY(makeFit());
    return emitted.fits ? Status() : tooLarge();
  }

  /// Programs, and what they emit.
  struct Tried {
    mlir::OwningOpRef<mlir::ModuleOp> programs;
    EmittedPlan emitted;
    std::vector<Decision> chunking;
  };

  /// With so many chunks, or the most below that a section has, where the user says nothing.
  Result<Tried> tryLossChunks(uint32_t count) {
    Tried tried;
    PartitionOptions partition = pins.partition(workload);
    for (const SectionChain &chain : atoms.sections) {
      std::vector<uint32_t> counts = lossChunksOf(*programs, chain.name);
      auto end = std::upper_bound(counts.begin(), counts.end(), count);
      if (end == counts.begin() || pins.of(chain.name, &SectionPins::lossChunks))
        continue;
      partition.lossChunks[chain.name] = *std::prev(end);
      tried.chunking.push_back({chain.name + ".loss_chunks", std::to_string(*std::prev(end)), "", true});
    }
    MAESTRO_ASSIGN(tried.programs, makePrograms(partition));
    input.sections = *tried.programs;
    MAESTRO_ASSIGN(tried.emitted, emitPlan(input));
    return tried;
  }

  /// Where nothing is searched: in chunks where that takes hardly any time and saves memory, or nothing else fits.
  Status chooseLossChunks() {
    std::set<uint32_t> counts;
    for (const SectionChain &chain : atoms.sections)
      if (!search && !pins.of(chain.name, &SectionPins::lossChunks))
        for (uint32_t count : lossChunksOf(*programs, chain.name))
          counts.insert(count);
    uint64_t before = emitted.fullest().peakBytes, most = static_cast<uint64_t>((1 - kLeastSaving) * double(before));
    double seconds = taskSeconds(emitted);
    std::optional<Tried> best;
    for (uint32_t count : counts) {
      if (best && !emitted.fits && best->emitted.fits)
        break;
      MAESTRO_ASSIGN(Tried tried, tryLossChunks(count));
      uint64_t after = tried.emitted.fullest().peakBytes;
      double slower = taskSeconds(tried.emitted) / seconds;
      if (emitted.fits && (slower > kMostSlower || after > most))
        continue;
      if (best && after >= best->emitted.fullest().peakBytes)
        continue;
      for (Decision &decision : tried.chunking)
        decision.reason = fmt::format("heads and losses over chunks of rows: a device needs {:.3f} GiB instead of "
                                      "{:.3f}, tasks take {:.3f} times as long",
                                      gib(after), gib(before), slower);
      best = std::move(tried);
    }
    if (!best) {
      input.sections = *programs;
      return Status();
    }
    programs = std::move(best->programs);
    chunking = std::move(best->chunking);
    return tryLayouts(0);
  }

  /// The search adds up what it was told of each atom; what emission finds beyond that is taken from its budget, and
  /// more the more often: each time another layout is the one that just fits.
  Status searchAgain() {
    uint64_t allowed = deviceBytes();
    for (int attempt = 0; !emitted.fits && search && attempt < kSearchesAgain; ++attempt) {
      uint64_t excess = emitted.fullest().peakBytes - deviceBytes(),
               further = attempt > 0 ? deviceBytes() >> (10 - 2 * attempt) : 0;
      allowed -= std::min(allowed, std::max(excess + (excess >> 3), further));
      logInfo(fmt::format("the layout that was found needs {:.2f} GiB more than its layers add up to; searching again "
                          "with {:.2f} GiB a device",
                          gib(excess), gib(allowed)));
      MAESTRO_TRY(useSearch(allowed));
      MAESTRO_TRY(tryLayouts(0));
    }
    return Status();
  }

  /// Without the search: smaller micro-batches, or another machine.
  Status makeFit() {
    if (!emitted.fits && search) {
      search.reset();
      MAESTRO_TRY(chooseLayouts());
      MAESTRO_TRY(useDefaults());
      MAESTRO_TRY(tryLayouts(0));
      MAESTRO_TRY(chooseLossChunks());
    }
    while (!emitted.fits && halveMicroBatches())
      MAESTRO_TRY(tryLayouts(0));
    // A model that no micro-batch makes small enough for the machine it is planned on is meant for another one.
    const DeviceMemory &fullest = emitted.fullest();
    if (emitted.fits || !cluster.isThisMachine || fullest.residentBytes <= deviceBytes())
      return Status();
    logWarning(fmt::format("parameters, gradients and optimizer state need {:.1f} GiB, a device of this machine has "
                           "{:.1f}: the plan is for devices of {:.1f} GiB",
                           gib(fullest.residentBytes), gib(deviceBytes()), gib(fullest.peakBytes)));
    input.machine.kinds.front().memoryBytes = fullest.peakBytes;
    return tryLayouts(0);
  }

  Status tooLarge() const {
    const DeviceMemory &fullest = emitted.fullest();
    std::string kept;
    for (const cost_models::KeptMemory &own : target.machine.kinds.front().kept)
      kept += fmt::format(", {:.2f} are kept for {}", gib(own.bytes), own.what);
    return Status::invalidInput(fmt::format(
        "device {} needs {:.2f} GiB and has {:.2f} ({:.2f} GiB too much; it runs {}; parameters, gradients and "
        "optimizer state take {:.2f}{}); lower --pin micro_batch or the dims' max, or use devices of more memory",
        &fullest - emitted.devices.data(), gib(fullest.peakBytes), gib(deviceBytes()),
        gib(fullest.peakBytes - deviceBytes()), fmt::join(fullest.stations, ", "), gib(fullest.residentBytes), kept));
  }

  /// Returns how many bytes the plan has.
  Result<size_t> write(const std::string &path) const {
    MAESTRO_ASSIGN(std::vector<uint8_t> bytes, plan::finish(emitted.tables));
    MAESTRO_TRY(plan::writePlan(bytes, path));
    return bytes.size();
  }

  /// plan.mpl, plan.2.mpl, …
  Status writeNextBest() {
    for (size_t rank = 1, number = 2; search && rank < search->ranks(); ++rank) {
      MAESTRO_TRY(useRank(rank));
      MAESTRO_TRY(tryLayouts(rank));
      if (!emitted.fits) // More than the search was told, once it is emitted.
        continue;
      std::filesystem::path path = options.output;
      path.replace_extension(fmt::format(".{}{}", number++, path.extension().string()));
      MAESTRO_TRY(write(path.string()).takeStatus());
      logInfo(fmt::format("wrote {}: {}", path.string(), findings.decisions.front().choice));
    }
    return Status();
  }

  PlannedJob job() const {
    return {workload, summary, linked.notes, sizes, pins, layouts, target.machine, search != nullptr};
  }

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

/// Of the cluster with so many nodes less.
Result<std::vector<uint8_t>> planSpare(const PlanOptions &options, const ClusterSpec &cluster, uint32_t lost) {
  PlanOptions fewer = options;
  fewer.settings.push_back(fmt::format("cluster.nodes={}", cluster.nodes - lost));
  if (fewer.deadlineSeconds)
    *fewer.deadlineSeconds /= options.spareNodes + 1;
  return Planner(fewer).spare(cluster.nodes);
}

Status checkSpares(const PlanOptions &options, const ClusterSpec &cluster) {
  if (options.spareNodes >= cluster.nodes)
    return Status::invalidInput(fmt::format("--spare-nodes {}: the cluster has {} node{}, and one must be left",
                                            options.spareNodes, cluster.nodes, cluster.nodes == 1 ? "" : "s"));
  if (cluster.devices.size() > 1)
    return Status::invalidInput(fmt::format("--spare-nodes {}: {} lists a device for each node, and which of them is "
                                            "lost nobody knows; make a plan for each case",
                                            options.spareNodes, cluster.place));
  return Status();
}

} // namespace

Status runPlan(const PlanOptions &options) {
  if (options.spareNodes == 0 || options.stopAfter)
    return Planner(options).run({});
  MAESTRO_TRY(checkOutput(options));
  MAESTRO_ASSIGN(PlanInputs inputs, readInputs(options));
  MAESTRO_TRY(checkSpares(options, inputs.cluster));
  std::vector<std::vector<uint8_t>> spares;
  for (uint32_t lost = 1; lost <= options.spareNodes; ++lost) {
    MAESTRO_ASSIGN(spares.emplace_back(), planSpare(options, inputs.cluster, lost));
  }
  PlanOptions whole = options;
  if (whole.deadlineSeconds)
    *whole.deadlineSeconds /= options.spareNodes + 1;
  return Planner(whole).run(std::move(spares));
}

} // namespace maestro::planner
