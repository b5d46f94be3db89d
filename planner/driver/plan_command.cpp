#include "planner/driver/plan_command.h"

#include "base/log.h"
#include "base/nearest.h"
#include "ir/nn/nn.h"
#include "ir/section/section.h"
#include "passes/attributes.h"
#include "passes/section_atoms.h"
#include "plan/plan_generated.h"
#include "planner/driver/explanation.h"
#include "planner/driver/layout_search.h"
#include "planner/driver/layouts.h"
#include "planner/driver/step_sizes.h"
#include "planner/driver/trial_models.h"
#include "planner/emit/emit_plan.h"
#include "planner/emit/weights_file.h"
#include "planner/import/link.h"
#include "planner/workload/cluster_machine.h"
#include "planner/workload/workload.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
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

/// The first error that MLIR reports becomes the Status of the planner.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(mlir::MLIRContext &context)
      : handler(&context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() != mlir::DiagnosticSeverity::Error) {
            if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Warning)
              logWarning(diagnostic.str());
            return mlir::success();
          }
          if (first.empty())
            first = describe(diagnostic);
          return mlir::success();
        }) {}

  Status failure(std::string_view phase) const {
    return Status::invalidInput(first.empty() ? fmt::format("planning failed in phase '{}'", phase) : first);
  }

private:
  static std::string describe(mlir::Diagnostic &diagnostic) {
    std::string text;
    if (auto name = mlir::dyn_cast<mlir::NameLoc>(diagnostic.getLocation()))
      text = name.getName().str() + ": ";
    text += diagnostic.str();
    for (mlir::Diagnostic &note : diagnostic.getNotes())
      text += "; " + note.str();
    return text;
  }

  std::string first;
  mlir::ScopedDiagnosticHandler handler;
};

double gib(uint64_t bytes) { return static_cast<double>(bytes) / 1073741824.0; }

class Planner {
public:
  explicit Planner(const PlanOptions &options) : options(options) {}

  Status run() {
    started = nowSeconds();
    MAESTRO_TRY(checkOutput());
    MAESTRO_TRY(readInputs());
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
    MAESTRO_TRY(runPasses(*module, {}, options.stopAfter.value_or(Phase::Loss), pins.partition(workload), diagnostics));
    if (options.stopAfter) {
      module->print(llvm::outs(), mlir::OpPrintingFlags().enableDebugInfo(false));
      llvm::outs() << "\n";
      return Status();
    }
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
      return Status::invalidInput(fmt::format("{}: there is no folder '{}'; make it first", options.output,
                                              output.parent_path().string()));
    if (std::filesystem::is_directory(output, error))
      return Status::invalidInput(fmt::format("{}: is a folder; name the file, for example {}", options.output,
                                              (std::filesystem::path(options.output) / "plan.mpl").string()));
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
  DType precisionOf(const std::string &component) {
    DType precision = pins.of(component, &SectionPins::precision).value_or(workload.train.precisionFor(component));
    workload.train.precisionOf[component] = precision;
    return precision;
  }

  Status runPasses(mlir::ModuleOp target, std::optional<Phase> startAfter, Phase stopAfter, const PartitionOptions &partition,
                   const DiagnosticCollector &diagnostics) {
    mlir::PassManager manager(&context);
    PipelineOptions pipeline;
    pipeline.startAfter = startAfter;
    pipeline.stopAfter = stopAfter;
    pipeline.partition = partition;
    for (const ComponentSpec &component : workload.components)
      if (precisionOf(component.name) == DType::BF16) {
        pipeline.bf16Components.push_back(component.name);
        if (component.frozen)
          pipeline.bf16Parameters.push_back(component.name);
      }
    buildPipeline(manager, pipeline);
    if (mlir::failed(manager.run(target)))
      return diagnostics.failure(nameOf(pipeline.stopAfter).str());
    return Status();
  }

  /// The programs of the workload with its sections cut like this; null where a pass fails, which is noted.
  mlir::OwningOpRef<mlir::ModuleOp> makePrograms(const PartitionOptions &partition) {
    mlir::OwningOpRef<mlir::ModuleOp> programs = module->clone();
    DiagnosticCollector own(context);
    programsMade = runPasses(*programs, Phase::Loss, Phase::Split, partition, own);
    if (!programsMade.isOk())
      return {};
    return programs;
  }

  /// Trainable parameters that no loss reaches keep their values, as in PyTorch; the user is told.
  Status noteUnreached(mlir::ModuleOp programs) {
    std::set<std::string> withGradient;
    programs.walk([&](mlir::func::FuncOp function) {
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        if (auto name = function.getResultAttrOfType<mlir::StringAttr>(i, attributes::kGradient))
          withGradient.insert(name.getValue().str());
    });
    size_t reached = 0;
    for (GraphParameter &parameter : summary.parameters) {
      if (parameter.trainable && !withGradient.count(parameter.fullName)) {
        parameter.trainable = false;
        unreached[parameter.component].insert(parameter.info.name);
        logWarning(fmt::format("parameter '{}' gets no gradient: no loss depends on it; it keeps its value",
                               parameter.fullName));
      }
      reached += parameter.trainable;
    }
    if (reached == 0)
      return Status::invalidInput("no loss reaches any trainable parameter; check which components are frozen "
                                  "and what the loss reads");
    return Status();
  }

  /// A tensor degree that splits nothing is a mistake.
  Status checkSplit(mlir::ModuleOp programs, const SectionFacts &section) {
    std::vector<int64_t> sizes;
    bool splits = section.tensor == 1;
    for (auto op : programs.getOps<section::SectionOp>()) {
      if (op.getSectionName() != section.name)
        continue;
      mlir::ModuleOp body = op.getBody();
      splits |= !splitParametersOf(body).empty();
      if (auto own = body->getAttrOfType<mlir::DenseI64ArrayAttr>(attributes::kIndivisible))
        sizes.insert(sizes.end(), own.asArrayRef().begin(), own.asArrayRef().end());
    }
    if (splits)
      return Status();
    return Status::invalidInput(fmt::format(
        "--pin {}.tensor={}: section '{}' has no MLP block that {} devices can share (a product with a weight by columns, "
        "elementwise operators, a product by rows){}; leave the pin out", section.name, section.tensor, section.name,
        section.tensor, sizes.empty() ? "" : fmt::format("; inner sizes there: {}", fmt::join(sizes, ", "))));
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
                                                pins.asGiven(chain.name, "stages"), chain.name, places, places == 1 ? "" : "s"));
    }
    return Status();
  }

  /// Layouts as pinned, else over all devices.
  Status chooseLayouts() {
    MAESTRO_ASSIGN(layouts, planner::chooseLayouts(sectionFacts(), pins, summary, workload.train.globalBatch, target.machine.devices));
    return Status();
  }

  /// The programs of these layouts.
  Status useDefaults() {
    programs = makePrograms(pins.partition(workload));
    MAESTRO_TRY(std::move(programsMade));
    MAESTRO_TRY(noteUnreached(*programs));
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
    search = std::make_unique<LayoutSearch>(base, pins, atoms, sizes.steps, [this](const PartitionOptions &cut) { return makePrograms(cut); });
    search->limit(deadline(), options.topK);
    return useSearch(deviceBytes());
  }

  std::function<bool()> deadline() const {
    if (!options.deadlineSeconds)
      return nullptr;
    return [end = nowSeconds() + *options.deadlineSeconds] { return nowSeconds() > end; };
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
    MAESTRO_ASSIGN(base.layouts, planner::chooseLayouts(facts, open.pins, summary, workload.train.globalBatch, target.machine.devices));
    open.search = std::make_unique<LayoutSearch>(base, open.pins, open.atoms, sizes.steps,
                                                 [this](const PartitionOptions &cut) { return makePrograms(cut); });
    open.search->limit(deadline(), 1);
    Status status = open.search->run(deviceBytes());
    if (!status.isOk())
      open.search.reset();
    return status.code() == StatusCode::InvalidInput ? Status() : std::move(status); // Nothing else fits.
  }

  uint64_t deviceBytes() const { return target.machine.kinds.front().memoryBytes; }

  /// On this machine, where nothing fits, layouts stay as they were, and emission says what is missing.
  Status useSearch(uint64_t bytes) {
    Status status = search->run(bytes);
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
    programs = search->programs(rank);
    MAESTRO_TRY(std::move(programsMade));
    return noteUnreached(*programs);
  }

  Status tryLayouts(EmitInput &input, size_t rank) {
    input.sections = *programs;
    input.layouts = layouts;
    input.predictedStepSeconds = 0;
    input.decisions = decisions();
    MAESTRO_ASSIGN(emitted, emitPlan(input));
    if (emitted.bytes.empty())
      return Status();
    std::unique_ptr<plan::fb::PlanT> tables(plan::fb::GetPlan(emitted.bytes.data())->UnPack());
    explanation = {};
    searched.clear();
    if (search) { // What is predicted is a simulation of the plan's own programs.
      MAESTRO_ASSIGN(cost_models::Simulation own, search->simulate(emitted));
      tables->prediction->step_seconds = own.stepSeconds;
      searched = search->decisions(rank, own);
      MAESTRO_ASSIGN(explanation, search->explanation(rank, own));
    } else if (open.search || !sizes.data.empty()) {
      MAESTRO_ASSIGN(EmittedModel own, readModel(emitted));
      cost_models::Simulator simulator(sizes.steps);
      MAESTRO_ASSIGN(cost_models::Simulation step, simulator.run(own.model, target.machine, own.layout, wavefront::Order::Wavefront));
      tables->prediction->step_seconds = step.stepSeconds;
      if (open.search)
        explanation.candidates = open.search->beside(describeLayouts(), step);
    }
    addQuantities();
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
    // The search adds up what it was told of each atom; what emission finds beyond that is taken from its budget.
    uint64_t allowed = deviceBytes();
    for (int attempt = 0; emitted.bytes.empty() && search && attempt < 3; ++attempt) {
      uint64_t excess = emitted.fullest().peakBytes - deviceBytes();
      allowed -= std::min(allowed, excess + (excess >> 3));
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
          "device {} needs {:.2f} GiB and has {:.2f} ({:.2f} GiB too much; it runs {}; parameters, gradients and optimizer "
          "state take {:.2f}); lower --pin micro_batch or the dims' max, or use devices of more memory",
          fullest - emitted.devices.data(), gib(fullest->peakBytes), gib(deviceBytes()), gib(fullest->peakBytes - deviceBytes()),
          fmt::join(fullest->stations, ", "), gib(fullest->residentBytes)));
    MAESTRO_TRY(plan::writePlan(emitted.bytes, options.output));
    report();
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

  static std::string placement(const SectionLayout &layout) {
    std::vector<uint32_t> used;
    for (const auto &replica : layout.devices)
      used.insert(used.end(), replica.begin(), replica.end());
    std::string devices = ranges(std::move(used));
    bool one = devices.find_first_of(",-") == std::string::npos;
    std::string shared = layout.tensor > 1 ? fmt::format(", each by {} devices,", layout.tensor) : "";
    return fmt::format("{} x {} {}{} on device{} {}", layout.replicas(), layout.stages, layout.stages == 1 ? "stage" : "stages",
                       shared, one ? "" : "s", devices);
  }

  /// Where lengths vary, a micro-batch holds more samples that are short (emit/micro_batch_limits.h).
  std::string microBatchOf(const SectionLayout &layout) const {
    bool varies = std::any_of(summary.dims.begin(), summary.dims.end(),
                              [](const GraphDim &dim) { return !dim.sum && dim.typical < static_cast<double>(dim.max); });
    return fmt::format("{} {}samples", layout.microBatch, varies && !layout.isCountedInSamples ? "of the longest " : "");
  }

  std::string describeLayouts() const {
    std::string text;
    for (const auto &[name, layout] : layouts)
      text += fmt::format("{}{} {} in {}s", text.empty() ? "" : "; ", name, placement(layout), layout.microBatch);
    return text;
  }

  /// "train.global_batch = 32" and its like, and what the planner chose itself.
  std::vector<Decision> decisions() const {
    std::vector<Decision> list;
    for (const std::string &taken : workload.defaults) {
      size_t equals = taken.find(" = ");
      bool hasValue = equals != std::string::npos;
      list.push_back({hasValue ? taken.substr(0, equals) : taken, hasValue ? taken.substr(equals + 3) : "taken",
                      "default", true});
    }
    for (const std::string &note : linked.notes)
      list.push_back({"models", note, "inferred", true});
    if (!sizes.data.empty())
      list.push_back({"data", sizes.data, "a step is predicted for samples of these sizes", false});
    for (const auto &[name, layout] : layouts) {
      list.push_back({name + ".micro_batch", microBatchOf(layout), layout.microBatchReason,
                      !layout.microBatchIsPinned});
      bool pinned = pins.of(name, &SectionPins::devices) || pins.of(name, &SectionPins::dataParallel) || layout.tensor > 1;
      list.push_back({name + ".devices", placement(layout),
                      pinned ? "pinned" : search ? "by search" : "replicated over all devices", !pinned});
    }
    return list;
  }

  void addQuantities() {
    explanation.quantities.insert(explanation.quantities.end(), sizes.quantities.begin(), sizes.quantities.end());
    addUnreached();
  }

  /// Of a component, the first few of what its `source` lists: bounded in size.
  void addUnreached() {
    for (const auto &[component, names] : unreached) {
      constexpr size_t kShown = 8;
      std::vector<std::string> shown;
      for (const std::string &name : names)
        if (shown.size() < kShown)
          shown.push_back(name);
      explanation.quantities.push_back({component + ".parameters_without_gradient", static_cast<double>(names.size()), "",
                            fmt::format("counted: trainable, and no loss depends on {}{}", fmt::join(shown, ", "),
                                        names.size() > kShown ? " …" : "")});
    }
  }

  void report() const {
    for (const std::string &note : linked.notes)
      logInfo(note);
    for (const std::string &taken : workload.defaults)
      logInfo("default: " + taken);
    if (!sizes.data.empty())
      logInfo(fmt::format("sizes are of {}", sizes.data));
    for (const auto &[name, layout] : layouts)
      logInfo(fmt::format("{}: micro-batches of {} ({}); {}", name, microBatchOf(layout), layout.microBatchReason,
                          placement(layout)));
    for (const Decision &decision : searched)
      logInfo(fmt::format("{}: {} ({})", decision.subject, decision.choice, decision.reason));
    for (const Candidate &candidate : explanation.candidates)
      if (candidate.kind == Candidate::Kind::Layout)
        logInfo(fmt::format("compared, {}{}: {}{} ({})", candidate.subject, candidate.inFileOrder ? " in file order" : "",
                            candidate.stepSeconds > 0 ? duration(candidate.stepSeconds) + " a step, " : "", candidate.choice, candidate.reason));
    uint64_t arena = 0;
    double worst = 1;
    for (const LoweringReport &lowered : emitted.reports) {
      arena = std::max(arena, lowered.arenaBytes);
      if (lowered.liveBytesBound)
        worst = std::max(worst, static_cast<double>(lowered.arenaBytes) / static_cast<double>(lowered.liveBytesBound));
    }
    logInfo(fmt::format("predicted peak memory: {:.1f} MiB a device (activations {:.1f} MiB, packed at {:.3f} of the lower "
                        "bound)", static_cast<double>(emitted.fullest().peakBytes) / 1048576.0,
                        static_cast<double>(arena) / 1048576.0, worst));
    logInfo(fmt::format("wrote {} ({} bytes) in {:.2f} s", options.output, emitted.bytes.size(),
                        nowSeconds() - started));
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
  Status programsMade;                        ///< What the last makePrograms() came to.
  std::unique_ptr<LayoutSearch> search;       ///< Where there was a choice.
  struct {
    Pins pins;
    AtomGraph atoms;
    std::unique_ptr<LayoutSearch> search;
  } open;                                     ///< Beside split tensors: without pins, for comparison.
  std::vector<Decision> searched;             ///< What it has to say of the emitted plan.
  Explanation explanation;                    ///< Of it.
  std::map<std::string, std::set<std::string>> unreached; ///< Trainable parameters without gradient, by component.
  EmittedPlan emitted;
};

} // namespace

Result<Pin> parsePin(const std::string &text) {
  size_t equals = text.find('='), dot = text.rfind('.', equals);
  if (equals == std::string::npos || dot == std::string::npos || dot == 0 || dot + 1 == equals ||
      equals + 1 == text.size())
    return Status::invalidInput(fmt::format("--pin {}: write SECTION.PROPERTY=VALUE, for example student.micro_batch=4",
                                            text));
  return Pin{text.substr(0, dot), text.substr(dot + 1, equals - dot - 1), text.substr(equals + 1)};
}

Status runPlan(const PlanOptions &options) { return Planner(options).run(); }

} // namespace maestro::planner
