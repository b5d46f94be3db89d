#include "planner/driver/plan_report.h"

#include "base/log.h"
#include "plan/plan_generated.h"
#include "planner/search/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace maestro::planner {
namespace {

std::string placement(const SectionLayout &layout) {
  std::vector<uint32_t> used;
  for (const auto &replica : layout.devices)
    used.insert(used.end(), replica.begin(), replica.end());
  std::string devices = ranges(std::move(used));
  bool one = devices.find_first_of(",-") == std::string::npos;
  std::string shared = layout.tensor > 1 ? fmt::format(", each by {} devices,", layout.tensor) : "";
  return fmt::format("{} x {} {}{} on device{} {}", layout.replicas(), layout.stages,
                     layout.stages == 1 ? "stage" : "stages", shared, one ? "" : "s", devices);
}

/// Before emission, which may find that shorter samples are more.
std::string samplesPhrase(const SectionLayout &layout) {
  return describe(
      cost_models::MicroBatchCapacity{layout.mostSamples > 0 ? layout.mostSamples : layout.microBatch, {}, {}});
}

/// What a section's micro-batch holds at most.
std::string microBatchOf(const plan::fb::PlanT &plan, size_t section) {
  cost_models::MicroBatchCapacity capacity;
  capacity.samples = plan.sections[section]->micro_batch_samples;
  for (const auto &executable : plan.executables)
    if (executable->section == section && executable->stage == 0)
      for (const auto &area : executable->areas)
        capacity.areas.push_back({area->rows, area->padded, area->value});
  return describe(capacity);
}

/// ", assumed: …" where nobody measured the devices and no data sheet tells; in the line of every predicted time.
std::string assumptionOf(const cost_models::Machine &machine) {
  const std::string &source = machine.kinds.front().source;
  return source.starts_with("assumed") ? ", " + source : "";
}

void logPrediction(const PlannedJob &job, const EmittedPlan &emitted) {
  std::string assumed = assumptionOf(job.machine);
  logInfo(
      fmt::format("predicted: {} a step{}{}", duration(emitted.tables.prediction->step_seconds), assumed,
                  assumed.empty() ? "" : "; maestro-profile measures this machine (--set cluster.device=device.yaml)"));
}

void logComparison(const PlannedJob &job, const Explanation &explanation) {
  const char *assumed = assumptionOf(job.machine).empty() ? " a step, " : " a step (assumed), ";
  for (const Candidate &candidate : explanation.candidates)
    if (candidate.kind == Candidate::Kind::Layout)
      logInfo(fmt::format("compared, {}{}: {}{} ({})", candidate.subject, candidate.inFileOrder ? " in file order" : "",
                          candidate.stepSeconds > 0 ? duration(candidate.stepSeconds) + assumed : "", candidate.choice,
                          candidate.reason));
}

void logMemory(const EmittedPlan &emitted) {
  uint64_t arena = 0;
  double worst = 1;
  for (const LoweringReport &lowered : emitted.reports) {
    arena = std::max(arena, lowered.arenaBytes);
    if (lowered.liveBytesBound)
      worst = std::max(worst, static_cast<double>(lowered.arenaBytes) / static_cast<double>(lowered.liveBytesBound));
  }
  logInfo(fmt::format(
      "predicted peak memory: {:.1f} MiB a device (activations {:.1f} MiB, packed at {:.3f} of the lower "
      "bound)",
      static_cast<double>(emitted.fullest().peakBytes) / 1048576.0, static_cast<double>(arena) / 1048576.0, worst));
}

} // namespace

std::string describeLayouts(const std::map<std::string, SectionLayout> &layouts) {
  std::string text;
  for (const auto &[name, layout] : layouts)
    text += fmt::format("{}{} {}, {}", text.empty() ? "" : "; ", name, placement(layout), samplesPhrase(layout));
  return text;
}

std::vector<Decision> decisionsOf(const PlannedJob &job) {
  std::vector<Decision> list;
  for (const std::string &taken : job.workload.defaults) {
    size_t equals = taken.find(" = ");
    bool hasValue = equals != std::string::npos;
    list.push_back(
        {hasValue ? taken.substr(0, equals) : taken, hasValue ? taken.substr(equals + 3) : "taken", "default", true});
  }
  for (const std::string &note : job.importNotes)
    list.push_back({"models", note, "inferred", true});
  if (!job.sizes.data.empty())
    list.push_back({"data", job.sizes.data, "a step is predicted for samples of these sizes", false});
  for (const auto &[name, layout] : job.layouts) {
    list.push_back({name + ".micro_batch", samplesPhrase(layout), layout.microBatchReason, !layout.microBatchIsPinned});
    bool pinned =
        job.pins.of(name, &SectionPins::devices) || job.pins.of(name, &SectionPins::dataParallel) || layout.tensor > 1;
    list.push_back({name + ".devices", placement(layout),
                    pinned           ? "pinned"
                    : job.isSearched ? "by search"
                                     : "replicated over all devices",
                    !pinned});
    if (bool flightPinned = job.pins.of(name, &SectionPins::moreInFlight).has_value();
        flightPinned || layout.moreInFlight != 0)
      list.push_back({name + ".more_in_flight",
                      fmt::format("{} micro-batches beside the usual ones", layout.moreInFlight),
                      flightPinned ? "pinned" : "by search: memory was left, and neighbours wait less", !flightPinned});
  }
  return list;
}

void nameMicroBatches(plan::fb::PlanT &plan) {
  for (size_t s = 0; s < plan.sections.size(); ++s)
    for (auto &decision : plan.decisions)
      if (decision->subject == plan.sections[s]->name + ".micro_batch")
        decision->choice = microBatchOf(plan, s);
}

std::vector<Quantity> quantitiesOf(const Unreached &unreached) {
  std::vector<Quantity> list;
  for (const auto &[component, names] : unreached) {
    constexpr size_t kShown = 8;
    std::vector<std::string> shown;
    for (const std::string &name : names)
      if (shown.size() < kShown)
        shown.push_back(name);
    list.push_back({component + ".parameters_without_gradient", static_cast<double>(names.size()), "",
                    fmt::format("counted: trainable, and no loss depends on {}{}", fmt::join(shown, ", "),
                                names.size() > kShown ? " …" : "")});
  }
  return list;
}

std::vector<Quantity> quantitiesOf(std::span<const wavefront::Choice> hints) {
  std::vector<Quantity> list;
  for (size_t i = 0; i < hints.size(); ++i)
    for (const wavefront::ChoicePart &part : wavefront::choiceParts())
      list.push_back({fmt::format("{}{}{}", plan::kHintPrefix, i == 0 ? "" : fmt::format("{}.", i + 1), part.name),
                      static_cast<double>(part.get(hints[i])), "",
                      "tuned on simulated steps: each step's scheduling begins there"});
  return list;
}

void logPlan(const PlannedJob &job, const PlanFindings &findings, const EmittedPlan &emitted) {
  for (const std::string &note : job.importNotes)
    logInfo(note);
  for (const std::string &taken : job.workload.defaults)
    logInfo("default: " + taken);
  if (!job.sizes.data.empty())
    logInfo(fmt::format("sizes are of {}", job.sizes.data));
  for (size_t s = 0; s < emitted.tables.sections.size(); ++s) {
    const SectionLayout &layout = job.layouts.at(emitted.tables.sections[s]->name);
    logInfo(fmt::format("{}: micro-batches of at most {} ({}); {}", emitted.tables.sections[s]->name,
                        microBatchOf(emitted.tables, s), layout.microBatchReason, placement(layout)));
  }
  for (const Decision &decision : findings.decisions)
    logInfo(fmt::format("{}: {} ({})", decision.subject, decision.choice, decision.reason));
  logComparison(job, findings.explanation);
  logPrediction(job, emitted);
  logMemory(emitted);
}

} // namespace maestro::planner
