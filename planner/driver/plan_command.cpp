#include "planner/driver/plan_command.h"

#include "base/log.h"
#include "passes/attributes.h"
#include "passes/section_atoms.h"
#include "plan/plan_generated.h"
#include "planner/driver/diagnostics.h"
#include "planner/driver/explanation.h"
#include "planner/driver/layout_search.h"
#include "planner/driver/layouts.h"
#include "planner/driver/plan_report.h"
#include "planner/driver/programs.h"
#include "planner/driver/sinusoidal_tables.h"
#include "planner/driver/step_sizes.h"
#include "planner/driver/step_work.h"
#include "planner/driver/trial_models.h"
#include "planner/driver/unpadded_dims.h"
#include "planner/emit/emit_plan.h"
#include "planner/emit/weights_file.h"
#include "planner/import/link.h"
#include "planner/workload/cluster_machine.h"
#include "planner/workload/workload.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>

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

double gib(uint64_t bytes) { return static_cast<double>(bytes) / 1073741824.0; }

class Planner {
public:
  explicit Planner(const PlanOptions &options) : options(options) {}

  Status run() {
    started = nowSeconds();
    MAESTRO_TRY(checkOutput());
    MAESTRO_TRY(readInputs());
    MAESTRO_TRY(checkOverwrites());
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

private:
  mlir::func::FuncOp graph() { return module->lookupSymbol<mlir::func::FuncOp>(attributes::kGraphFunction); }

  /// Before the work, not after it.
  Status checkOutput() const {
    if (options.stopAfter)
      return Status();
    std::error_code error;
    std::filesystem::path output = std::filesystem::absolute(options.output, error);
    if (!std::filesystem::is_directory(output.parent_path(), error))
      return Status::invalidInput(
          fmt::format("{}: there is no folder '{}'; make it first", options.output, output.parent_path().string()));
    if (std::filesystem::is_directory(output, error))
      return Status::invalidInput(fmt::format("{}: is a folder; name the file, for example {}", options.output,
                                              (std::filesystem::path(options.output) / "plan.mpl").string()));
    return Status();
  }

  /// A plan points at what it was made from.
  Status checkOverwrites() const {
    std::vector<std::string> read = options.inputs;
    read.push_back(options.cluster);
    for (const ComponentSpec &component : workload.components) {
      read.push_back(component.model);
      if (component.weights.empty())
        continue;
      MAESTRO_ASSIGN(
          auto files,
          filesOfWeights(component.weights).withContext(fmt::format("components.{}.weights", component.name)));
      read.insert(read.end(), files.begin(), files.end());
    }
    std::error_code error;
    for (const std::string &path : read)
      if (!path.empty() && !options.output.empty() && std::filesystem::equivalent(path, options.output, error))
        return Status::invalidInput(fmt::format(
            "-o {}: is what the plan is made from, and would be lost; name another file, for example plan.mpl",
            options.output));
    return Status();
  }

  static bool isYaml(const std::string &path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

  Status readInputs() {
    bool anyYaml = std::any_of(options.inputs.begin(), options.inputs.end(), isYaml);
    if (anyYaml && options.inputs.size() > 1)
      return Status::invalidInput("give one workload file, or models; a workload file names its models itself");
    MAESTRO_ASSIGN(workload, anyYaml ? readWorkload(options.inputs.front(), options.settings)
                                     : workloadOfModels(options.inputs, options.settings));
    MAESTRO_ASSIGN(cluster, options.cluster.empty() ? thisMachine(options.settings)
                                                    : readCluster(options.cluster, options.settings));
    MAESTRO_ASSIGN(target, machineOf(cluster, options.cluster));
    return Status();
  }

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
    return Status();
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
  Status searchLayouts(const EmitInput &input) {
    if (pins.splitsTensors())
      return searchOpen(input);
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
  Status searchOpen(const EmitInput &input) {
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
    return noteUnreached(*programs, summary, unreached);
  }

  Status tryLayouts(EmitInput &input, size_t rank) {
    input.sections = *programs;
    input.layouts = layouts;
    input.predictedStepSeconds = 0;
    input.decisions = decisionsOf(job());
    input.decisions.insert(input.decisions.end(), doubts.begin(), doubts.end());
    MAESTRO_ASSIGN(emitted, emitPlan(input));
    if (emitted.bytes.empty())
      return Status();
    std::unique_ptr<plan::fb::PlanT> tables(plan::fb::GetPlan(emitted.bytes.data())->UnPack());
    explanation = {};
    searched.clear();
    std::vector<wavefront::Choice> hints;
    if (search) { // What is predicted is a simulation of the plan's own programs.
      MAESTRO_ASSIGN(cost_models::Simulation own, search->simulate(emitted, layouts));
      tables->prediction->step_seconds = own.meanSeconds;
      searched = search->decisions(rank, own);
      MAESTRO_ASSIGN(explanation, search->explanation(rank, own));
      hints = own.hints;
    } else if (open.search || !sizes.data.empty() || !workload.synthetic.empty()) {
      MAESTRO_ASSIGN(EmittedModel own, readModel(emitted, layouts));
      cost_models::Simulator simulator(sizes.steps);
      bool tunes = !options.deadlineSeconds || !over(1, kTuningSeconds)();
      MAESTRO_ASSIGN(cost_models::Simulation step,
                     tunes ? simulator.runTuned(own.model, target.machine, own.layout)
                           : simulator.run(own.model, target.machine, own.layout, wavefront::Order::Wavefront));
      if (!sizes.others.empty())
        MAESTRO_TRY(simulator.addSteps(sizes.others, own.model, target.machine, own.layout, step));
      tables->prediction->step_seconds = step.meanSeconds;
      hints = step.hints;
      if (open.search)
        explanation.candidates = open.search->beside(describeLayouts(layouts), step);
    }
    StepWork work = workOf(*plan::fb::GetPlan(emitted.bytes.data()), sizes.steps);
    tables->prediction->step_flops = work.flops;
    tables->prediction->tokens_per_second =
        tables->prediction->step_seconds > 0 ? work.tokens / tables->prediction->step_seconds : 0;
    if (!sizes.data.empty())
      for (const cost_models::SampleSizes &step : sizes.steps) {
        tables->step_samples.push_back(std::make_unique<plan::fb::StepSamplesT>());
        tables->step_samples.back()->sizes.assign(step.begin(), step.end());
      }
    for (const std::vector<Quantity> &known : {sizes.quantities, quantitiesOf(unreached), quantitiesOf(hints)})
      explanation.quantities.insert(explanation.quantities.end(), known.begin(), known.end());
    addExplanation(explanation, *tables);
    for (const Decision &source : searched) {
      auto decision = std::make_unique<plan::fb::DecisionT>();
      decision->subject = source.subject;
      decision->choice = source.choice;
      decision->reason = source.reason;
      decision->is_default = source.isDefault;
      tables->decisions.push_back(std::move(decision));
    }
    MAESTRO_ASSIGN(emitted.bytes, plan::finish(*tables));
    return Status();
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
    EmitInput input;
    input.workload = &workload;
    input.graph = &summary;
    input.machine = target.machine;
    input.machineName = target.name;
    input.deviceThreads = target.deviceThreads;
    input.planFolder = std::filesystem::absolute(options.output).parent_path().string();
    MAESTRO_TRY(searchLayouts(input));
    MAESTRO_TRY(tryLayouts(input, 0));
    // The search adds up what it was told of each atom; what emission finds beyond that is taken from its budget, and
    // more the more often: each time another layout is the one that just fits.
    uint64_t allowed = deviceBytes();
    for (int attempt = 0; emitted.bytes.empty() && search && attempt < 4; ++attempt) {
      uint64_t excess = emitted.fullest().peakBytes - deviceBytes(),
               further = attempt > 0 ? deviceBytes() >> (10 - 2 * attempt) : 0;
      allowed -= std::min(allowed, std::max(excess + (excess >> 3), further));
      logInfo(fmt::format("the layout that was found needs {:.2f} GiB more than its layers add up to; searching again "
                          "with {:.2f} GiB a device",
                          gib(excess), gib(allowed)));
      MAESTRO_TRY(useSearch(allowed));
      MAESTRO_TRY(tryLayouts(input, 0));
    }
    if (emitted.bytes.empty() && search) {
      search.reset();
      MAESTRO_TRY(chooseLayouts());
      MAESTRO_TRY(useDefaults());
      MAESTRO_TRY(tryLayouts(input, 0));
    }
    while (emitted.bytes.empty() && halveMicroBatches())
      MAESTRO_TRY(tryLayouts(input, 0));
    // A model that no micro-batch makes small enough for the machine it is planned on is meant for another one.
    const DeviceMemory *fullest = &emitted.fullest();
    if (emitted.bytes.empty() && cluster.isThisMachine && fullest->residentBytes > deviceBytes()) {
      logWarning(fmt::format("parameters, gradients and optimizer state need {:.1f} GiB, a device of this machine has "
                             "{:.1f}: the plan is for devices of {:.1f} GiB",
                             gib(fullest->residentBytes), gib(deviceBytes()), gib(fullest->peakBytes)));
      input.machine.kinds.front().memoryBytes = fullest->peakBytes;
      MAESTRO_TRY(tryLayouts(input, 0));
    }
    fullest = &emitted.fullest();
    if (emitted.bytes.empty())
      return Status::invalidInput(fmt::format(
          "device {} needs {:.2f} GiB and has {:.2f} ({:.2f} GiB too much; it runs {}; parameters, gradients and "
          "optimizer "
          "state take {:.2f}); lower --pin micro_batch or the dims' max, or use devices of more memory",
          fullest - emitted.devices.data(), gib(fullest->peakBytes), gib(deviceBytes()),
          gib(fullest->peakBytes - deviceBytes()), fmt::join(fullest->stations, ", "), gib(fullest->residentBytes)));
    MAESTRO_TRY(plan::writePlan(emitted.bytes, options.output));
    logPlan(job(), searched, explanation, emitted);
    logInfo(
        fmt::format("wrote {} ({} bytes) in {:.2f} s", options.output, emitted.bytes.size(), nowSeconds() - started));
    return writeNextBest(input);
  }

  /// plan.mpl, plan.2.mpl, …
  Status writeNextBest(EmitInput &input) {
    for (size_t rank = 1, number = 2; search && rank < search->ranks(); ++rank) {
      MAESTRO_TRY(useRank(rank));
      MAESTRO_TRY(tryLayouts(input, rank));
      if (emitted.bytes.empty()) // More than the search was told, once it is emitted.
        continue;
      std::filesystem::path path = options.output;
      path.replace_extension(fmt::format(".{}{}", number++, path.extension().string()));
      MAESTRO_TRY(plan::writePlan(emitted.bytes, path.string()));
      logInfo(fmt::format("wrote {}: {}", path.string(), searched.front().choice));
    }
    return Status();
  }

  PlannedJob job() const {
    return {workload, summary, linked.notes, sizes, pins, layouts, target.machine, search != nullptr};
  }

  const PlanOptions &options;
  double started = 0;
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
  std::vector<Decision> searched; ///< What it has to say of the emitted plan.
  Explanation explanation;        ///< Of it.
  std::vector<Decision> doubts;   ///< Of what trains.
  Unreached unreached;
  EmittedPlan emitted;
};

} // namespace

Result<Pin> parsePin(const std::string &text) {
  size_t equals = text.find('='), dot = text.rfind('.', equals);
  if (equals == std::string::npos || dot == std::string::npos || dot == 0 || dot + 1 == equals ||
      equals + 1 == text.size())
    return Status::invalidInput(
        fmt::format("--pin {}: write SECTION.PROPERTY=VALUE, for example student.micro_batch=4", text));
  return Pin{text.substr(0, dot), text.substr(dot + 1, equals - dot - 1), text.substr(equals + 1)};
}

Status runPlan(const PlanOptions &options) { return Planner(options).run(); }

} // namespace maestro::planner
