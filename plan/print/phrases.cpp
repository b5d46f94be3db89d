// Facts of a plan in words, shared by the formats for people.
#include "base/dtype.h"
#include "plan/dims.h"
#include "plan/print/formats.h"
#include "plan/print/text.h"

#include <fmt/format.h>

#include <vector>

namespace maestro::plan {

std::string optimizerPhrase(const fb::Training &training) {
  std::string text = fmt::format("{}, lr {}", fb::EnumNameOptimizer(training.optimizer()), training.lr());
  if (training.optimizer() == fb::Optimizer::Sgd)
    text += fmt::format(", momentum {}{}", training.momentum(), training.nesterov() ? " (Nesterov)" : "");
  else
    text += fmt::format(", betas {} and {}, eps {}", training.beta1(), training.beta2(), training.eps());
  if (training.clip_grad_norm() > 0)
    text += fmt::format("; gradients clipped at norm {}", training.clip_grad_norm());
  return text;
}

std::string schedulePhrase(const fb::Training &training) {
  std::string warmup =
      training.warmup_steps() > 0 ? fmt::format("{} steps of warm-up, then ", grouped(training.warmup_steps())) : "";
  if (training.decay() == fb::Decay::Constant)
    return warmup + "constant learning rate";
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
    parts.push_back("recompute");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string boundsPhrase(const Plan &plan, const fb::Executable &executable) {
  std::vector<std::string> parts;
  for (const fb::Bound *bound : *executable.bounds())
    parts.push_back(
        fmt::format("{} ≤ {}", plan->symbols()->Get(bound->symbol())->name()->string_view(), bound->value()));
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
  std::vector<int64_t> symbols(dims.symbols(), DimTable::kUndefined), values(dims.nodes());
  for (const fb::Bound *bound : *executable.bounds())
    symbols[bound->symbol()] = bound->value();
  dims.evaluateDefined(symbols, values);
  return values[expr];
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
    size_t &origin = parameter->source_file() != kNone                         ? totals.fromFiles
                     : parameter->inline_value() || elements == 0              ? totals.inPlan
                     : parameter->initializer() != fb::Initializer::None       ? totals.seeded
                                                                               : totals.withoutValue;
    ++origin;
  }
  return totals;
}

} // namespace maestro::plan
