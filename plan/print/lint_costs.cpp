// What is allowed and yet costs time or memory, by the plan's own predictions. Each check has a limit, a figure, and a
// remedy.
#include "plan/print/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace maestro::plan {
namespace {

/// Shares and ratios beyond which something is said.
constexpr double kIdleShare = 0.4, kPaddingRatio = 1.5, kOverheadShare = 0.3, kFullShare = 0.95, kUnevenRatio = 1.25;
/// Logits are so many times as wide as what they are computed from.
constexpr int64_t kWideRatio = 4;

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

double programSeconds(const Plan &plan, const fb::Executable &executable,
                      std::initializer_list<fb::ProgramKind> kinds) {
  double seconds = 0;
  for (const fb::Program *program : *executable.programs())
    if (std::find(kinds.begin(), kinds.end(), program->kind()) != kinds.end())
      seconds += secondsAtBounds(plan, executable, program->cost());
  return seconds;
}

size_t callsOf(const fb::Executable &executable, std::initializer_list<fb::ProgramKind> kinds) {
  size_t calls = 0;
  for (const fb::Program *program : *executable.programs())
    if (std::find(kinds.begin(), kinds.end(), program->kind()) != kinds.end())
      calls += program->calls()->size();
  return calls;
}

bool hasForward(const fb::Executable &executable) {
  return std::any_of(executable.programs()->begin(), executable.programs()->end(),
                     [](const fb::Program *program) { return program->kind() == fb::ProgramKind::Forward; });
}

/// Of one micro-batch at the bounds.
double taskSeconds(const Plan &plan, const fb::Executable &executable) {
  using P = fb::ProgramKind;
  return hasForward(executable) ? programSeconds(plan, executable, {P::Forward, P::Backward, P::WeightGradient})
                                : programSeconds(plan, executable, {P::Evaluate});
}

class CostLint {
public:
  CostLint(const Plan &plan, const StepTimes *times, std::vector<Finding> &findings)
      : plan(plan), times(times), findings(findings) {}

  void run() {
    if (times) {
      idleSections();
      padding();
    }
    for (const fb::Executable *executable : *plan->executables())
      smallMicroBatch(*executable);
    for (const fb::Edge *edge : *plan->edges()) {
      logits(*edge);
      heavyEdge(*edge);
    }
    fullMemory();
    unevenStages();
    withoutGradient();
  }

private:
  void find(const char *check, std::string place, double value, double limit, std::string text, std::string remedy) {
    findings.push_back({check, std::move(place), value, limit, std::move(text), std::move(remedy)});
  }

  std::string sectionName(uint32_t section) const { return plan->sections()->Get(section)->name()->str(); }

  void idleSections() {
    for (uint32_t s = 0; s < plan->sections()->size(); ++s) {
      double share = times->stepSeconds > 0 ? times->sections[s].idleSeconds / times->stepSeconds : 0;
      if (share > kIdleShare)
        find("idle-devices", "section " + sectionName(s), share, kIdleShare,
             fmt::format("its devices are idle for {} of the predicted step ({} of {})", percent(share),
                         humanSeconds(times->sections[s].idleSeconds), humanSeconds(times->stepSeconds)),
             fmt::format("let it share devices with another section, or give it fewer: --pin {}.devices=…",
                         sectionName(s)));
    }
  }

  void padding() {
    for (const StepTimes::Padding &padding : times->padding) {
      double ratio = padding.own > 0 ? padding.padded / padding.own : 1;
      std::string symbol = plan->symbols()->Get(padding.symbol)->name()->str();
      if (ratio > kPaddingRatio)
        find("padding", "section " + sectionName(padding.section), ratio, kPaddingRatio,
             fmt::format("along {} its micro-batches are padded to {:.2f} x what their samples have, at the sizes that "
                         "the plan was made for",
                         symbol, ratio),
             fmt::format("smaller micro-batches (--pin {}.micro_batch=…), a smaller multiple_of of {}, or samples cut "
                         "to like lengths",
                         sectionName(padding.section), symbol));
    }
  }

  void smallMicroBatch(const fb::Executable &executable) {
    using P = fb::ProgramKind;
    double call = quantity(plan, "device.call_seconds").value_or(0), task = taskSeconds(plan, executable);
    size_t calls = hasForward(executable) ? callsOf(executable, {P::Forward, P::Backward, P::WeightGradient})
                                          : callsOf(executable, {P::Evaluate});
    double share = task > 0 ? call * static_cast<double>(calls) / task : 0;
    if (share > kOverheadShare)
      find("small-micro-batch", "executable " + executable.name()->str(), share, kOverheadShare,
           fmt::format("{} of a full micro-batch's {} are the {} kernel calls' own time, {} each", percent(share),
                       humanSeconds(task), calls, humanSeconds(call)),
           fmt::format("a larger micro-batch, where memory allows: --pin {}.{}", sectionName(executable.section()),
                       twice(executable)));
  }

  static std::string twice(const fb::Executable &executable) {
    if (executable.areas() && executable.areas()->size() > 0)
      return fmt::format("micro_batch_tokens={}", 2 * executable.areas()->Get(0)->value());
    return fmt::format("micro_batch={}", 2 * executable.samples());
  }

  /// The other size of a matrix that has this one: what logits of `width` are computed from; 0: there is none.
  int64_t narrowSideOf(int64_t width) const {
    int64_t narrow = 0;
    for (const fb::Parameter *parameter : *plan->parameters())
      if (parameter->shape()->size() == 2)
        for (uint32_t side : {0u, 1u})
          if (parameter->shape()->Get(side) == width)
            narrow = std::max(narrow, parameter->shape()->Get(1 - side));
    return narrow;
  }

  void logits(const fb::Edge &edge) {
    const fb::DimExpr &last = *plan->exprs()->Get(edge.shape()->Get(edge.shape()->size() - 1));
    int64_t width = last.op() == fb::DimOp::Constant ? last.a() : 0, narrow = width > 0 ? narrowSideOf(width) : 0;
    if (narrow > 0 && width >= kWideRatio * narrow)
      find("logits-edge", "edge " + edge.name()->str(), static_cast<double>(width) / static_cast<double>(narrow),
           kWideRatio,
           fmt::format("carries {} values a position, which follow from {}: {:.1f} x the bytes", width, narrow,
                       static_cast<double>(width) / static_cast<double>(narrow)),
           "let the head be applied where its result is read (an output before it), or send a few: kl_divergence's "
           "top_k");
  }

  void heavyEdge(const fb::Edge &edge) {
    for (const fb::Executable *executable : *plan->executables()) {
      if (executable->section() != edge.producer() || executable->stage() != edge.producer_stage())
        continue;
      double transfer = secondsAtBounds(plan, *executable, edge.cost()), task = taskSeconds(plan, *executable);
      if (task > 0 && transfer > task)
        find("heavy-edge", "edge " + edge.name()->str(), transfer / task, 1,
             fmt::format("takes {} for a micro-batch that its producer computes in {}", humanSeconds(transfer),
                         humanSeconds(task)),
             fmt::format("let {} and {} share devices, or cut where less crosses (`cuts` of the component)",
                         sectionName(edge.producer()), sectionName(edge.consumer())));
    }
  }

  void fullMemory() {
    uint64_t memory = plan->machine()->memory_bytes(), most = 0;
    std::vector<uint32_t> full;
    for (const fb::Rank *rank : *plan->ranks()) {
      most = std::max(most, rank->peak_bytes());
      if (memory > 0 && static_cast<double>(rank->peak_bytes()) > kFullShare * static_cast<double>(memory))
        full.push_back(rank->device());
    }
    if (full.empty())
      return;
    double share = static_cast<double>(most) / static_cast<double>(memory);
    find("memory-almost-full", deviceRanges(full), share, kFullShare,
         fmt::format("predicted peak {} of {} ({})", humanBytes(most), humanBytes(memory), percent(share)),
         "smaller micro-batches or recompute there (--pin SECTION.recompute=full), or more devices");
  }

  void unevenStages() {
    std::map<uint32_t, std::vector<std::pair<double, uint32_t>>> stages; // By section.
    for (const fb::Executable *executable : *plan->executables())
      stages[executable->section()].emplace_back(taskSeconds(plan, *executable), executable->stage());
    for (const auto &[section, list] : stages) {
      auto longest = std::max_element(list.begin(), list.end());
      double sum = 0;
      for (const auto &[seconds, stage] : list)
        sum += seconds;
      double mean = sum / static_cast<double>(list.size());
      if (list.size() > 1 && longest->first > kUnevenRatio * mean)
        find("uneven-stages", fmt::format("section {} stage {}", sectionName(section), longest->second),
             longest->first / mean, kUnevenRatio,
             fmt::format("a full micro-batch takes {} there and {} in a stage on average: the others wait",
                         humanSeconds(longest->first), humanSeconds(mean)),
             fmt::format("another number of stages (--pin {}.stages=…), or `cuts` of the component",
                         sectionName(section)));
    }
  }

  /// As the planner counted them; such parameters are fixed in the plan.
  void withoutGradient() {
    for (const fb::Component *component : *plan->components()) {
      std::string name = component->name()->str() + ".parameters_without_gradient";
      if (std::optional<double> count = quantity(plan, name); count && *count > 0)
        find("no-gradient", "component " + component->name()->str(), *count, 0,
             fmt::format("{:.0f} trainable parameters keep their values: no loss depends on them (maestro-dump "
                         "--explain names them)",
                         *count),
             "check what the losses read, or freeze them in the workload");
    }
  }

  const Plan &plan;
  const StepTimes *times;
  std::vector<Finding> &findings;
};

} // namespace

void lintCosts(const Plan &plan, const StepTimes *times, std::vector<Finding> &findings) {
  CostLint(plan, times, findings).run();
}

} // namespace maestro::plan
