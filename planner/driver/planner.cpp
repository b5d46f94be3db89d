#include "planner/driver/planner.h"

#include "base/log.h"
#include "planner/driver/emitted_model.h"
#include "planner/driver/sinusoidal_tables.h"
#include "planner/driver/unpadded_dims.h"
#include "planner/emit/weights_file.h"

#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>

namespace maestro::planner {
namespace {

/// Of a deadline, counted from the command's start, so much is for reading and trials, then the search, then
/// alternatives; the rest is for emitting the answer.
constexpr double kTrialsShare = 0.4, kSearchShare = 0.6, kTryingShare = 0.7;
/// With less time left than this the answer's schedules are not tuned: that takes some seconds, which nothing
/// interrupts.
constexpr double kTuningSeconds = 10;

/// The summary's bounds into the module, which data may have lowered.
void writeBounds(mlir::ModuleOp module, const GraphSummary &summary) {
  auto dims = module->getAttrOfType<mlir::DictionaryAttr>(attributes::kDims);
  if (!dims)
    return;
  mlir::NamedAttrList changed(dims);
  for (const GraphDim &dim : summary.dims)
    if (auto entry = dims.getAs<mlir::DictionaryAttr>(dim.name)) {
      mlir::NamedAttrList own(entry);
      own.set("max", mlir::IntegerAttr::get(mlir::IntegerType::get(module.getContext(), 64), dim.max));
      changed.set(dim.name, own.getDictionary(module.getContext()));
    }
  module->setAttr(attributes::kDims, changed.getDictionary(module.getContext()));
}

} // namespace

double nowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Status Planner::make() {
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
  linked.notes.insert(linked.notes.end(), sizes.notes.begin(), sizes.notes.end());
  writeBounds(*module, summary);
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

void Planner::usePrecisions() {
  for (const ComponentSpec &component : workload.components)
    workload.train.precisionOf[component.name] =
        pins.of(component.name, &SectionPins::precision).value_or(workload.train.precisionFor(component.name));
}

Result<mlir::OwningOpRef<mlir::ModuleOp>> Planner::makePrograms(const PartitionOptions &partition) {
  mlir::OwningOpRef<mlir::ModuleOp> made = module->clone();
  MAESTRO_TRY(runPasses(*made, workload, Phase::Loss, Phase::Split, partition));
  return made;
}

std::vector<SectionFacts> Planner::sectionFacts() const {
  std::vector<SectionFacts> sections;
  for (const SectionChain &chain : atoms.sections)
    sections.push_back({chain.name, pins.of(chain.name, &SectionPins::stages).value_or(1),
                        pins.of(chain.name, &SectionPins::tensor).value_or(1)});
  return sections;
}

Status Planner::checkPins() const {
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

Status Planner::chooseLayouts() {
  MAESTRO_ASSIGN(layouts, planner::chooseLayouts(sectionFacts(), pins, summary, workload.train.globalBatch,
                                                 target.machine.devices));
  return Status();
}

Status Planner::useDefaults() {
  MAESTRO_ASSIGN(programs, makePrograms(pins.partition(workload)));
  MAESTRO_TRY(noteUnreached(*programs, summary, unreached));
  for (const SectionFacts &section : sectionFacts())
    MAESTRO_TRY(checkSplit(*programs, section));
  return checkLossChunks(*programs, pins);
}

Status Planner::searchLayouts() {
  if (pins.splitsTensors())
    return searchOpen();
  if (target.machine.devices == 1 && layouts.size() == 1)
    return useDefaults();
  EmitInput base = input;
  base.layouts = layouts;
  search = std::make_unique<LayoutSearch>(base, pins, atoms, sizes,
                                          [this](const PartitionOptions &cut) { return makePrograms(cut); });
  search->limit(limits(), options.topK);
  MAESTRO_TRY(search->collect());
  return useSearch(deviceBytes());
}

std::function<bool()> Planner::over(double share, double seconds) const {
  if (!options.deadlineSeconds)
    return nullptr;
  return [end = started + share * *options.deadlineSeconds - seconds] { return nowSeconds() > end; };
}

LayoutSearch::Limits Planner::limits() const {
  return {over(kTrialsShare, 0), over(kSearchShare, 0), over(kTryingShare, 0), over(1, kTuningSeconds)};
}

Status Planner::searchOpen() {
  mlir::FailureOr<AtomGraph> found = findAtoms(*module, open.pins.partition(workload));
  if (mlir::failed(found))
    return Status::internal("the sections' atoms cannot be found without pins");
  open.atoms = std::move(*found);
  EmitInput base = input;
  std::vector<SectionFacts> facts = sectionFacts();
  for (SectionFacts &section : facts)
    section.stages = section.tensor = 1;
  MAESTRO_ASSIGN(base.layouts,
                 planner::chooseLayouts(facts, open.pins, summary, workload.train.globalBatch, target.machine.devices));
  open.search = std::make_unique<LayoutSearch>(base, open.pins, open.atoms, sizes,
                                               [this](const PartitionOptions &cut) { return makePrograms(cut); });
  open.search->limit(limits(), 1);
  MAESTRO_TRY(open.search->collect());
  Status status = open.search->run(deviceBytes());
  MAESTRO_TRY(open.search->trials());
  if (!status.isOk())
    open.search.reset();
  return status.code() == StatusCode::InvalidInput ? Status() : std::move(status); // Nothing else fits.
}

Status Planner::useSearch(uint64_t bytes) {
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

Status Planner::useRank(size_t rank) {
  layouts = search->layouts(rank);
  MAESTRO_ASSIGN(programs, search->programs(rank));
  MAESTRO_TRY(checkLossChunks(*programs, pins));
  return noteUnreached(*programs, summary, unreached);
}

Status Planner::tryLayouts(size_t rank) {
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

Result<PlanFindings> Planner::find(size_t rank) const {
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

Status Planner::emit(const DiagnosticCollector &diagnostics) {
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
  if (options.deadlineSeconds && readSeconds > kTrialsShare * *options.deadlineSeconds)
    logWarning(
        fmt::format("--deadline {:g}s: cannot be less than {:.1f} s, which reading the models took, and the time "
                    "to try and write one layout",
                    *options.deadlineSeconds, readSeconds));
  MAESTRO_TRY(searchLayouts());
  searchSeconds = nowSeconds() - started - readSeconds;
  MAESTRO_TRY(tryLayouts(0));
  MAESTRO_TRY(chooseLossChunks());
  MAESTRO_TRY(searchAgain());
  MAESTRO_TRY(makeFit());
  return emitted.fits ? Status() : tooLarge();
}

PlannedJob Planner::job() const {
  return {workload, summary, linked.notes, sizes, pins, layouts, target.machine, search != nullptr};
}

} // namespace maestro::planner
