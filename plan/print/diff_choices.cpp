// What differs between two plans in the words in which people decide and pay: sections, edges, memory, time.
#include "plan/print/diff.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::plan {
namespace {

/// One plan as the comparison reads it.
struct Side {
  const Plan &plan;
  const StepTimes *times;

  uint32_t section(std::string_view name) const {
    for (uint32_t i = 0; i < plan->sections()->size(); ++i)
      if (plan->sections()->Get(i)->name()->string_view() == name)
        return i;
    return kNone;
  }
  uint64_t peakBytes() const {
    uint64_t most = 0;
    for (const fb::Rank *rank : *plan->ranks())
      most = std::max(most, rank->peak_bytes());
    for (const fb::Executable *executable : *plan->executables()) // Plans without the ranks' sums.
      most = std::max(most, executable->peak_bytes());
    return most;
  }
  /// Of the fullest device that runs the section.
  uint64_t peakBytes(uint32_t section) const {
    uint64_t most = 0;
    for (const fb::Station *station : *plan->stations())
      if (plan->executables()->Get(station->executable())->section() == section)
        for (uint32_t rank : *station->ranks())
          most = std::max({most, plan->ranks()->Get(rank)->peak_bytes(),
                           plan->executables()->Get(station->executable())->peak_bytes()});
    return most;
  }
  const char *precision(const fb::Section &section) const {
    for (uint32_t component : *section.components())
      if (plan->components()->Get(component)->precision() != 0)
        return "bf16";
    return "f32";
  }
};

class Choices {
public:
  Choices(const Side &before, const Side &after) : before(before), after(after) {}

  std::string take() {
    whole();
    for (const fb::Section *section : *before.plan->sections())
      this->section(section->name()->string_view());
    for (const fb::Section *section : *after.plan->sections())
      if (before.section(section->name()->string_view()) == kNone)
        line("section {}: new, {}", section->name()->string_view(), layoutPhrase(*section->layout()));
    edges();
    return std::move(text);
  }

private:
  template <typename... Args> void line(fmt::format_string<Args...> format, Args &&...args) {
    text += fmt::format(format, std::forward<Args>(args)...);
    text += '\n';
  }

  /// "300 ms -> 240 ms (-20.0 %)"
  static std::string change(double old, double fresh, std::string (*phrase)(double)) {
    std::string share = old > 0 && old != fresh ? fmt::format(" ({:+.1f} %)", 100 * (fresh / old - 1)) : "";
    return old == fresh ? phrase(old) + ", as before" : fmt::format("{} -> {}{}", phrase(old), phrase(fresh), share);
  }
  static std::string bytes(double value) { return humanBytes(static_cast<uint64_t>(value)); }
  static std::string count(double value) { return fmt::format("{:.0f}", value); }

  void whole() {
    const fb::Prediction *old = before.plan->prediction(), *fresh = after.plan->prediction();
    if (old && fresh)
      line("predicted step: {}{}", change(old->step_seconds(), fresh->step_seconds(), humanSeconds),
           assumptionPhrase(after.plan));
    line("devices: {}", change(before.plan->ranks()->size(), after.plan->ranks()->size(), count));
    line("memory of the fullest device: {}",
         change(static_cast<double>(before.peakBytes()), static_cast<double>(after.peakBytes()), bytes));
  }

  void section(std::string_view name) {
    uint32_t old = before.section(name), fresh = after.section(name);
    if (fresh == kNone)
      return line("section {}: gone", name);
    const fb::Section &was = *before.plan->sections()->Get(old), &is = *after.plan->sections()->Get(fresh);
    size_t start = text.size();
    property(name, "dp", "replicas", std::to_string(was.layout()->data_parallel()),
             std::to_string(is.layout()->data_parallel()));
    property(name, "stages", "stages", std::to_string(was.layout()->stages()), std::to_string(is.layout()->stages()));
    property(name, "tensor", "devices a stage", std::to_string(was.layout()->tensor_parallel()),
             std::to_string(is.layout()->tensor_parallel()));
    property(name, "micro_batch", "micro-batch", microBatchPhrase(before.plan, old),
             microBatchPhrase(after.plan, fresh));
    property(name, "devices", "runs on", deviceRanges(devicesOf(before.plan, old)),
             deviceRanges(devicesOf(after.plan, fresh)));
    property(name, "recompute", "recompute", recomputePhrase(*was.layout()), recomputePhrase(*is.layout()));
    property(name, "split_backward", "split backward", splitPhrase(*was.layout()), splitPhrase(*is.layout()));
    property(name, "loss_chunks", "chunks of the losses", std::to_string(was.layout()->loss_chunks()),
             std::to_string(is.layout()->loss_chunks()));
    property(name, "precision", "precision", before.precision(was), after.precision(is));
    property(name, "trains", "trains", was.trains() ? "yes" : "no", is.trains() ? "yes" : "no");
    property(name, "memory", "memory of its fullest device", humanBytes(before.peakBytes(old)),
             humanBytes(after.peakBytes(fresh)));
    times(name, old, fresh);
    if (text.size() > start)
      text.insert(start, fmt::format("section {}:\n", name));
  }

  void property(std::string_view section, const char *pin, const char *what, const std::string &old,
                const std::string &fresh) {
    if (old != fresh)
      line("  {}: {} -> {}{}", what, old, fresh, worth(fmt::format("{}.{}", section, pin), fresh));
  }

  /// What the first plan's search said of this one change, the rest as it was.
  std::string worth(const std::string &subject, const std::string &choice) const {
    for (const fb::Candidate *candidate : candidatesOf(before.plan, fb::CandidateKind::Alternative))
      if (candidate->subject()->string_view() == subject && candidate->choice()->string_view() == choice)
        return fmt::format("; this alone, from the first plan: {}", candidatePhrase(before.plan, *candidate));
    return "";
  }

  void times(std::string_view name, uint32_t old, uint32_t fresh) {
    if (!before.times || !after.times)
      return;
    const StepTimes::Section &was = before.times->sections[old], &is = after.times->sections[fresh];
    constexpr double kSame = 0.005; // Of the step.
    for (auto [what, a, b] :
         {std::tuple("busy", was.busySeconds, is.busySeconds), std::tuple("idle", was.idleSeconds, is.idleSeconds)})
      if (std::abs(a - b) > kSame * before.times->stepSeconds)
        line("  {} in a step: {}", what, change(a, b, humanSeconds));
  }

  static std::string edgePhrase(const Plan &plan, const fb::Edge &edge) {
    return tensorPhrase(plan, edge.dtype(), *edge.shape()) + (edge.carries_gradient() ? ", gradients back" : "");
  }

  static const fb::Edge *edgeNamed(const Plan &plan, std::string_view name) {
    for (const fb::Edge *edge : *plan->edges())
      if (edge->name()->string_view() == name)
        return edge;
    return nullptr;
  }

  void edges() {
    for (const fb::Edge *edge : *before.plan->edges()) {
      std::string_view name = edge->name()->string_view();
      const fb::Edge *other = edgeNamed(after.plan, name);
      std::string old = edgePhrase(before.plan, *edge), fresh = other ? edgePhrase(after.plan, *other) : "";
      if (!other)
        line("edge {}: gone ({})", name, old);
      else if (old != fresh)
        line("edge {}: {} -> {}", name, old, fresh);
    }
    for (const fb::Edge *edge : *after.plan->edges())
      if (!edgeNamed(before.plan, edge->name()->string_view()))
        line("edge {}: new, {}", edge->name()->string_view(), edgePhrase(after.plan, *edge));
  }

  const Side &before, &after;
  std::string text;
};

} // namespace

std::string diffChoices(const Plan &before, const Plan &after, const StepTimes *beforeTimes,
                        const StepTimes *afterTimes) {
  Side old{before, beforeTimes}, fresh{after, afterTimes};
  return Choices(old, fresh).take();
}

} // namespace maestro::plan
