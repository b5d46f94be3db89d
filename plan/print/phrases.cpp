// Facts of a plan in words, shared by the formats for people.
#include "base/dtype.h"
#include "base/recompute.h"
#include "plan/capacity.h"
#include "plan/dims.h"
#include "plan/parameter_groups.h"
#include "plan/print/formats.h"
#include "plan/print/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

namespace maestro::plan {

std::string groupPhrase(const fb::Training &training, uint32_t group) {
  GroupOptimizer optimizer = optimizerOf(training, group);
  std::string text = fmt::format("{}, lr {}", fb::EnumNameOptimizer(optimizer.kind), optimizer.lr);
  if (optimizer.kind == fb::Optimizer::Sgd)
    return text + fmt::format(", momentum {}{}", optimizer.momentum, optimizer.nesterov ? " (Nesterov)" : "");
  if (optimizer.kind == fb::Optimizer::Muon)
    return text + fmt::format(", momentum {}{}, {} iterations{}", optimizer.momentum,
                              optimizer.nesterov ? " (Nesterov)" : "", optimizer.iterations,
                              optimizer.matchRms ? ", updates as large as AdamW's" : "");
  if (optimizer.kind == fb::Optimizer::Adafactor)
    return text + fmt::format(", β2 decay {}, eps {} and {}, updates clipped at {}", optimizer.beta2Decay,
                              optimizer.eps, optimizer.eps2, optimizer.clip);
  return text + fmt::format(", betas {} and {}, eps {}", optimizer.beta1, optimizer.beta2, optimizer.eps);
}

std::string optimizerPhrase(const fb::Training &training) {
  std::string text = groupPhrase(training, 0);
  if (training.clip_grad_norm() > 0)
    text += fmt::format("; gradients clipped at norm {}", training.clip_grad_norm());
  if (training.ema_decay() > 0)
    text += fmt::format("; averages that decay by {}", training.ema_decay());
  return text;
}

std::string schedulePhrase(const fb::Training &training) {
  std::string warmup =
      training.warmup_steps() > 0 ? fmt::format("{} steps of warm-up, then ", grouped(training.warmup_steps())) : "";
  if (training.decay() == fb::Decay::Constant)
    return warmup + "constant learning rate";
  if (training.decay() == fb::Decay::Wsd)
    return fmt::format("{}constant learning rate, linear decay to {} in the last {} of {} steps", warmup,
                       training.min_lr(), grouped(training.decay_steps()), grouped(training.total_steps()));
  return fmt::format("{}{} decay to {} at step {}", warmup, training.decay() == fb::Decay::Cosine ? "cosine" : "linear",
                     training.min_lr(), grouped(training.total_steps()));
}

std::string layoutPhrase(const fb::Layout &layout) {
  std::vector<std::string> parts;
  auto degree = [&](const char *name, uint32_t value) {
    if (value > 1)
      parts.push_back(fmt::format("{} {}", name, value));
  };
  degree("data parallel", layout.data_parallel());
  degree("stages", layout.stages());
  degree("tensor parallel", layout.tensor_parallel());
  degree("context parallel", layout.context_parallel());
  degree("expert parallel", layout.expert_parallel());
  if (parts.empty())
    parts.push_back("one device");
  if (layout.zero_stage() > 0)
    parts.push_back(fmt::format("ZeRO {}", layout.zero_stage()));
  if (layout.recompute())
    parts.push_back(recomputePhrase(layout) + " recompute");
  if (layout.split_backward())
    parts.push_back(layout.split_backward() == layout.stages()
                        ? "split backward"
                        : fmt::format("split backward in the last {}", layout.split_backward()));
  if (layout.loss_chunks() > 1)
    parts.push_back(fmt::format("losses in {} chunks", layout.loss_chunks()));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string recomputePhrase(const fb::Layout &layout) {
  Recompute most = layout.full_recompute() ? Recompute::Full
                   : layout.recompute()    ? Recompute::Selective
                                           : Recompute::None;
  return textOf(RecomputeChoice{most, layout.lighter_layers(), layout.lighter_evenly()});
}

std::string splitPhrase(const fb::Layout &layout) {
  uint32_t split = layout.split_backward();
  return split == 0 ? "no" : split == layout.stages() ? "all" : std::to_string(split);
}

std::string microBatchPhrase(const Plan &plan, uint32_t section) {
  int64_t samples = plan->sections()->Get(section)->micro_batch_samples();
  std::string text = fmt::format("{} sample{}", samples, samples == 1 ? "" : "s");
  for (const fb::Executable *executable : *plan->executables())
    if (executable->section() == section && executable->stage() == 0)
      for (uint32_t i = 0; executable->areas() && i < executable->areas()->size(); ++i)
        text += fmt::format(", {} padded tokens", executable->areas()->Get(i)->value());
  return text;
}

std::string boundsPhrase(const Plan &plan, const fb::Executable &executable) {
  std::vector<std::string> parts;
  for (const fb::Bound *bound : *executable.bounds())
    parts.push_back(
        fmt::format("{} ≤ {}", plan->symbols()->Get(bound->symbol())->name()->string_view(), bound->value()));
  for (uint32_t i = 0; executable.areas() && i < executable.areas()->size(); ++i) {
    const fb::Area &area = *executable.areas()->Get(i);
    parts.push_back(fmt::format("{}·{} ≤ {}", plan->symbols()->Get(area.rows())->name()->string_view(),
                                plan->symbols()->Get(area.padded())->name()->string_view(), area.value()));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string tensorPhrase(const Plan &plan, uint8_t dtype, const flatbuffers::Vector<uint32_t> &shape) {
  DimTable dims(*plan);
  std::vector<std::string> texts;
  for (uint32_t expr : shape)
    texts.push_back(dims.text(expr));
  return fmt::format("{} [{}]", name(static_cast<DType>(dtype)), fmt::join(texts, ", "));
}

std::string lossPhrase(const fb::Loss &loss) {
  return fmt::format("{} · {}{}{}{}", loss.weight(), loss.name()->string_view(),
                     loss.term_weight() == 1 ? "" : fmt::format(" (a term of weight {})", loss.term_weight()),
                     loss.from_graph() ? " (computed by the model)" : "",
                     loss.note() && loss.note()->size() > 0 ? fmt::format(" ({})", loss.note()->string_view()) : "");
}

std::map<std::string, size_t> kernelCounts(const Plan &plan, const fb::Program &program) {
  std::map<std::string, size_t> counts;
  for (const fb::Call *call : *program.calls())
    ++counts[plan->kernels()->Get(call->kernel())->str()];
  return counts;
}

int64_t valueAtBounds(const Plan &plan, const fb::Executable &executable, uint32_t expr) {
  DimTable dims(*plan);
  std::vector<int64_t> values(dims.nodes());
  dims.evaluateDefined(largestMicroBatches(capacityOf(*plan, executable)).front(), values);
  return values[expr];
}

std::optional<double> quantity(const Plan &plan, std::string_view name) {
  for (uint32_t i = 0; plan->quantities() && i < plan->quantities()->size(); ++i)
    if (plan->quantities()->Get(i)->name()->string_view() == name)
      return plan->quantities()->Get(i)->value();
  return std::nullopt;
}

std::string assumptionPhrase(const Plan &plan) {
  for (uint32_t i = 0; plan->quantities() && i < plan->quantities()->size(); ++i)
    if (const fb::Quantity &quantity = *plan->quantities()->Get(i);
        quantity.name()->string_view() == "machine.arithmetic.0")
      if (size_t at = quantity.source()->str().find("assumed:"); at != std::string::npos)
        return "; " + quantity.source()->str().substr(at);
  return "";
}

std::string quantityPhrase(double value, std::string_view unit) {
  if (unit == "s")
    return humanSeconds(value);
  if (unit == "B")
    return humanBytes(static_cast<uint64_t>(value));
  if (unit == "B/s")
    return humanBandwidth(value);
  if (unit == "FLOP/s")
    return humanFlops(value) + "/s";
  if (unit == "FLOP")
    return humanFlops(value);
  if (unit == "%")
    return fmt::format("{:.3g} %", value);
  if (unit == "tokens/s")
    return humanCount(value) + " tokens/s";
  return fmt::format("{:.6g}{}{}", value, unit.empty() ? "" : " ", unit);
}

std::vector<const fb::Candidate *> candidatesOf(const Plan &plan, fb::CandidateKind kind) {
  std::vector<const fb::Candidate *> found;
  for (uint32_t i = 0; plan->candidates() && i < plan->candidates()->size(); ++i)
    if (plan->candidates()->Get(i)->kind() == kind)
      found.push_back(plan->candidates()->Get(i));
  return found;
}

std::string candidatePhrase(const Plan &plan, const fb::Candidate &candidate) {
  if (candidate.step_seconds() == 0)
    return candidate.missing_bytes() > 0 ? "lacks " + humanBytes(candidate.missing_bytes())
           : candidate.reason()->string_view().starts_with("the deadline") ? "not tried"
                                                                           : "not possible";
  std::vector<const fb::Candidate *> layouts =
      candidatesOf(plan, fb::CandidateKind::Layout); // The plan's own is the first.
  double own = !layouts.empty()     ? layouts.front()->step_seconds()
               : plan->prediction() ? plan->prediction()->step_seconds()
                                    : 0;
  return humanSeconds(candidate.step_seconds()) +
         (own > 0 ? fmt::format(", {:.2f} x", candidate.step_seconds() / own) : "");
}

TextTable comparisonTable(const Plan &plan) {
  TextTable table;
  for (const fb::Candidate *candidate : candidatesOf(plan, fb::CandidateKind::Layout))
    table.add({candidate->subject()->str() + (candidate->in_file_order() ? " *" : ""),
               candidatePhrase(plan, *candidate), candidate->choice()->str(), candidate->reason()->str()});
  return table;
}

uint64_t messageBytes(const Plan &plan, uint32_t edge) {
  for (const fb::Executable *executable : *plan->executables())
    for (const fb::Region *region : *executable->regions())
      if (region->kind() == fb::RegionKind::Channel && !region->gradient() && region->edge() == edge)
        return region->bytes();
  return 0;
}

namespace {
constexpr std::string_view kEdge = "edge ";
}

bool isOfEdge(const fb::Decision &decision) { return decision.subject()->string_view().starts_with(kEdge); }

std::string edgeReason(const Plan &plan, const fb::Edge &edge) {
  for (const fb::Decision *decision : *plan->decisions())
    if (isOfEdge(*decision) && decision->subject()->string_view().substr(kEdge.size()) == edge.name()->string_view())
      return decision->reason()->str();
  return "";
}

bool isOfTuning(std::string_view quantity) {
  return quantity.starts_with("search.") || quantity.starts_with(kHintPrefix) || quantity.starts_with("mean.") ||
         quantity.starts_with("step.p") || quantity == "step.simulated_seconds";
}

std::string utilizationPhrase(const Plan &plan, const std::string &name) {
  for (const char *kind : {"mfu", "hfu"})
    if (std::optional<double> share = quantity(plan, name + "." + kind))
      return fmt::format("{:.3g} % {}", *share, kind == std::string_view("mfu") ? "MFU" : "HFU");
  return "";
}

uint32_t sectionNamedIn(const Plan &plan, std::string_view name) {
  uint32_t found = kNone;
  size_t longest = 0;
  for (uint32_t i = 0; i < plan->sections()->size(); ++i) {
    std::string_view section = plan->sections()->Get(i)->name()->string_view();
    bool begins = name.substr(0, section.size()) == section &&
                  (name.size() == section.size() || name[section.size()] == '.' || name[section.size()] == ' ');
    if (begins && section.size() >= longest) {
      found = i;
      longest = section.size();
    }
  }
  return found;
}

double secondsAtBounds(const Plan &plan, const fb::Executable &executable,
                       const flatbuffers::Vector<flatbuffers::Offset<fb::CostTerm>> *cost) {
  std::vector<int64_t> sizes = largestMicroBatches(capacityOf(*plan, executable)).front();
  double seconds = 0;
  for (uint32_t i = 0; cost && i < cost->size(); ++i) {
    double term = static_cast<double>(cost->Get(i)->picoseconds()) * 1e-12;
    for (uint32_t symbol : *cost->Get(i)->symbols())
      term *= static_cast<double>(sizes[symbol]);
    seconds += term;
  }
  return seconds;
}

std::string deviceRanges(std::vector<uint32_t> devices) {
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  std::string text;
  for (size_t begin = 0, end; begin < devices.size(); begin = end) {
    for (end = begin + 1; end < devices.size() && devices[end] == devices[end - 1] + 1;)
      ++end;
    text += text.empty() ? "" : ", ";
    text +=
        end - begin < 2 ? fmt::format("{}", devices[begin]) : fmt::format("{}-{}", devices[begin], devices[end - 1]);
  }
  return fmt::format("device{} {}", devices.size() == 1 ? "" : "s", text);
}

std::vector<uint32_t> devicesOf(const Plan &plan, uint32_t section) {
  std::set<uint32_t> devices;
  for (const fb::Station *station : *plan->stations())
    if (plan->executables()->Get(station->executable())->section() == section)
      for (uint32_t rank : *station->ranks())
        devices.insert(plan->ranks()->Get(rank)->device());
  return {devices.begin(), devices.end()};
}

ParameterTotals parameterTotals(const Plan &plan, uint32_t component) {
  ParameterTotals totals;
  for (const fb::Parameter *parameter : *plan->parameters()) {
    if (parameter->component() != component)
      continue;
    uint64_t elements = 1;
    for (int64_t dim : *parameter->shape())
      elements *= static_cast<uint64_t>(dim);
    ++totals.tensors;
    totals.elements += elements;
    totals.trainable += parameter->trainable() ? elements : 0;
    totals.bytes += elements * byteSize(static_cast<DType>(parameter->dtype()));
    size_t &origin = parameter->source_file() != kNone                   ? totals.fromFiles
                     : parameter->inline_value() || elements == 0        ? totals.inPlan
                     : parameter->initializer() != fb::Initializer::None ? totals.seeded
                                                                         : totals.withoutValue;
    ++origin;
  }
  return totals;
}

} // namespace maestro::plan
