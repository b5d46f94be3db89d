#include "planner/driver/plan_command.h"

#include "base/log.h"
#include "base/nearest.h"
#include "ir/nn/nn.h"
#include "passes/attributes.h"
#include "planner/driver/normalize_parameters.h"
#include "planner/emit/emit_plan.h"
#include "planner/emit/weights_file.h"
#include "planner/import/link.h"
#include "planner/workload/cluster.h"
#include "planner/workload/workload.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <set>
#include <unistd.h>

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
    MAESTRO_TRY(checkPins());
    context.disableMultithreading();
    context.printOpOnDiagnostic(false); // Messages are for people, who never saw the operator's text.
    DiagnosticCollector diagnostics(context);
    MAESTRO_ASSIGN(linked, importWorkload(workload, context));
    module = std::move(linked.module);
    MAESTRO_TRY(normalizeParameters(graph()));
    MAESTRO_ASSIGN(summary, summarizeGraph(graph(), workload));
    MAESTRO_TRY(applyWeightFiles(workload, summary));
    MAESTRO_TRY(runPasses(diagnostics));
    if (options.stopAfter) {
      module->print(llvm::outs(), mlir::OpPrintingFlags().enableDebugInfo(false));
      llvm::outs() << "\n";
      return Status();
    }
    MAESTRO_TRY(noteUnreached());
    return emit();
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

  Status checkPins() const {
    static const std::vector<std::string> properties = {"dp",      "stages",    "micro_batch",
                                                        "devices", "recompute", "precision"};
    std::vector<std::string> sections = {"*"};
    for (const ComponentSpec &component : workload.components)
      sections.push_back(component.name);
    for (const Pin &pin : options.pins) {
      if (std::find(properties.begin(), properties.end(), pin.property) == properties.end())
        return Status::invalidInput(fmt::format("--pin {}.{}={}: unknown property '{}'{}", pin.section,
                                                pin.property, pin.value, pin.property,
                                                didYouMean(pin.property, properties)));
      if (std::find(sections.begin(), sections.end(), pin.section) == sections.end())
        return Status::invalidInput(fmt::format("--pin {}.{}={}: unknown section '{}'{}", pin.section,
                                                pin.property, pin.value, pin.section,
                                                didYouMean(pin.section, sections)));
      if (pin.property == "dp" || pin.property == "stages" || pin.property == "devices") {
        MAESTRO_ASSIGN(int64_t value, positive(pin));
        if (value != 1)
          return Status::invalidInput(fmt::format("--pin {}.{}={}: this version plans for 1; leave it out", pin.section,
                                                  pin.property, pin.value));
      }
    }
    return Status();
  }

  static Result<int64_t> positive(const Pin &pin) {
    int64_t value = 0;
    auto [end, error] = std::from_chars(pin.value.data(), pin.value.data() + pin.value.size(), value);
    if (error != std::errc() || end != pin.value.data() + pin.value.size() || value < 1)
      return Status::invalidInput(fmt::format("--pin {}.{}={}: must be an integer of at least 1", pin.section,
                                              pin.property, pin.value));
    return value;
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
    if (!cluster.isThisMachine && (cluster.devices.size() != 1 || cluster.devices.front() != "cpu"))
      return Status::invalidInput(fmt::format("{}: this version plans for 'cpu' devices, not '{}'", options.cluster,
                                              fmt::join(cluster.devices, ", ")));
    deviceBytes = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    return Status();
  }

  Status runPasses(const DiagnosticCollector &diagnostics) {
    mlir::PassManager manager(&context);
    PipelineOptions pipeline;
    pipeline.stopAfter = options.stopAfter.value_or(Phase::Split);
    for (const Pin &pin : options.pins)
      if (pin.property == "recompute" && pin.value == "full")
        pipeline.recompute = Recompute::Elementwise;
    for (const ComponentSpec &component : workload.components)
      if (workload.train.precisionFor(component.name) == DType::BF16)
        pipeline.bf16Components.push_back(component.name);
    buildPipeline(manager, pipeline);
    if (mlir::failed(manager.run(*module)))
      return diagnostics.failure(nameOf(pipeline.stopAfter).str());
    return Status();
  }

  /// Trainable parameters that no loss reaches keep their values, as in PyTorch; the user is told.
  Status noteUnreached() {
    auto names = module->getOperation()->getAttrOfType<mlir::ArrayAttr>(attributes::kWithoutGradient);
    std::set<std::string> unreached;
    if (names)
      for (mlir::Attribute name : names)
        unreached.insert(mlir::cast<mlir::StringAttr>(name).getValue().str());
    size_t reached = 0;
    for (GraphParameter &parameter : summary.parameters) {
      if (unreached.count(parameter.fullName)) {
        parameter.trainable = false;
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

  /// Large enough that products run at full speed, small enough that the activations stay few: the
  /// fewest samples whose padded tokens reach kEnoughTokens at the bounds.
  Result<MicroBatchChoice> chooseMicroBatch() const {
    constexpr int64_t kEnoughTokens = 1024;
    for (const Pin &pin : options.pins)
      if (pin.property == "micro_batch") {
        MAESTRO_ASSIGN(int64_t samples, positive(pin));
        return MicroBatchChoice{std::min(samples, workload.train.globalBatch), "pinned", true};
      }
    int64_t tokens = 1;
    for (const GraphDim &dim : summary.dims)
      if (!dim.sum)
        tokens = std::max(tokens, dim.max);
    int64_t samples = std::clamp<int64_t>((kEnoughTokens + tokens - 1) / tokens, 1, workload.train.globalBatch);
    samples = std::min(std::max<int64_t>(samples, 4), workload.train.globalBatch);
    return MicroBatchChoice{samples,
                            fmt::format("the fewest samples, but 4, whose padded positions reach {} at the bounds",
                                        kEnoughTokens),
                            false};
  }

  Status emit() {
    MAESTRO_ASSIGN(MicroBatchChoice choice, chooseMicroBatch());
    EmitInput input;
    input.workload = &workload;
    input.graph = &summary;
    input.deviceBytes = deviceBytes;
    input.programs = *module;
    input.microBatch = choice;
    input.planFolder = std::filesystem::absolute(options.output).parent_path().string();
    input.decisions = decisions(choice);
    MAESTRO_ASSIGN(EmittedPlan emitted, emitPlan(input));
    while (emitted.bytes.empty() && !choice.isPinned && choice.samples > 1) {
      choice.samples /= 2;
      choice.reason = "halved until the plan fits the device's memory";
      input.microBatch = choice;
      input.decisions = decisions(choice);
      MAESTRO_ASSIGN(emitted, emitPlan(input));
    }
    // A model that no micro-batch makes small enough for the machine it is planned on is meant for another one.
    if (emitted.bytes.empty() && cluster.isThisMachine && emitted.residentBytes > deviceBytes) {
      logWarning(fmt::format("parameters, gradients and optimizer state need {:.1f} GiB, this machine has {:.1f}: the "
                             "plan is for a device of {:.1f} GiB",
                             gib(emitted.residentBytes), gib(deviceBytes), gib(emitted.peakBytes)));
      input.deviceBytes = emitted.peakBytes;
      MAESTRO_ASSIGN(emitted, emitPlan(input));
    }
    if (emitted.bytes.empty())
      return Status::invalidInput(fmt::format(
          "the plan needs {:.2f} GiB on a device of {:.2f} GiB with micro-batches of {} samples ({:.2f} GiB too much, "
          "{:.2f} GiB of it for activations); lower --pin micro_batch or the dims' max, or use a device of more memory",
          gib(emitted.peakBytes), gib(deviceBytes), choice.samples, gib(emitted.peakBytes - deviceBytes),
          gib(emitted.report.arenaBytes)));
    MAESTRO_TRY(plan::writePlan(emitted.bytes, options.output));
    report(emitted, choice);
    return Status();
  }

  /// "train.global_batch = 32" and its like, and what the planner chose itself.
  std::vector<Decision> decisions(const MicroBatchChoice &choice) const {
    std::vector<Decision> list;
    for (const std::string &taken : workload.defaults) {
      size_t equals = taken.find(" = ");
      bool hasValue = equals != std::string::npos;
      list.push_back({hasValue ? taken.substr(0, equals) : taken, hasValue ? taken.substr(equals + 3) : "taken",
                      "default", true});
    }
    for (const std::string &note : linked.notes)
      list.push_back({"models", note, "inferred", true});
    list.push_back({"*.micro_batch", fmt::format("{} samples", choice.samples), choice.reason, !choice.isPinned});
    return list;
  }

  void report(const EmittedPlan &emitted, const MicroBatchChoice &choice) const {
    for (const std::string &note : linked.notes)
      logInfo(note);
    for (const std::string &taken : workload.defaults)
      logInfo("default: " + taken);
    logInfo(fmt::format("micro-batch: {} samples ({})", choice.samples, choice.reason));
    logInfo(fmt::format("predicted peak memory: {:.1f} MiB (activations {:.1f} MiB, packed at {:.3f} of the lower "
                        "bound)", static_cast<double>(emitted.peakBytes) / 1048576.0,
                        static_cast<double>(emitted.report.arenaBytes) / 1048576.0,
                        emitted.report.liveBytesBound
                            ? static_cast<double>(emitted.report.arenaBytes) /
                                  static_cast<double>(emitted.report.liveBytesBound)
                            : 1.0));
    logInfo(fmt::format("wrote {} ({} bytes) in {:.2f} s", options.output, emitted.bytes.size(),
                        nowSeconds() - started));
  }

  const PlanOptions &options;
  double started = 0;
  Workload workload;
  ClusterSpec cluster;
  GraphSummary summary;
  uint64_t deviceBytes = 0;
  mlir::MLIRContext context;
  LinkedGraph linked;
  mlir::OwningOpRef<mlir::ModuleOp> module;
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
