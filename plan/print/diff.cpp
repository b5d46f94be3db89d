// What differs between two plans: each is turned into named facts, which are compared by name.
#include "plan/print/diff.h"
#include "plan/parameter_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace maestro::plan {
namespace {

class Facts {
public:
  explicit Facts(const Plan &plan) : plan(plan) {
    addHeader();
    addTraining();
    addDecisions();
    addSections();
    addData();
    for (const fb::Executable *executable : *plan->executables())
      addExecutable(*executable);
  }

  struct Fact {
    std::string name, value;
  };
  const std::vector<Fact> &all() const { return facts; }
  const std::string *find(const std::string &name) const {
    auto found = positions.find(name);
    return found == positions.end() ? nullptr : &facts[found->second].value;
  }

private:
  /// Facts of the same name are numbered, so that each has its partner.
  void add(std::string name, std::string value) {
    size_t &count = counts[name];
    if (++count > 1)
      name += fmt::format(" #{}", count);
    positions.emplace(name, facts.size());
    facts.push_back({std::move(name), std::move(value)});
  }

  void addHeader() {
    add("producer", plan->producer()->str());
    add("name", plan->name()->str());
    add("workload", fmt::format("{:016x}", plan->workload_hash()));
    const fb::Machine &machine = *plan->machine();
    add("machine", fmt::format("{}: {} x {} with {}", machine.name()->string_view(), machine.devices(),
                               machine.device_kind()->string_view(), humanBytes(machine.memory_bytes())));
    if (const fb::Prediction *prediction = plan->prediction())
      add("predicted step",
          fmt::format("{}, {}", humanSeconds(prediction->step_seconds()), humanFlops(prediction->step_flops())));
  }

  void addTraining() {
    const fb::Training &training = *plan->training();
    add("train.global_batch", grouped(training.global_batch()));
    add("train.seed", std::to_string(training.seed()));
    add("train.optimizer", optimizerPhrase(training));
    for (uint32_t group = 1; group < groupCount(training); ++group)
      add(fmt::format("train.optimizer of group {}", group), groupPhrase(training, group));
    add("train.schedule", schedulePhrase(training));
    for (const fb::Loss *loss : *plan->losses())
      add("loss " + loss->name()->str(), lossPhrase(*loss));
  }

  void addDecisions() {
    for (const fb::Decision *decision : *plan->decisions())
      add("decision " + decision->subject()->str(),
          fmt::format("{}{}", decision->choice()->string_view(), decision->is_default() ? " (default)" : ""));
  }

  void addSections() {
    for (uint32_t i = 0; i < plan->sections()->size(); ++i) {
      const fb::Section &section = *plan->sections()->Get(i);
      add("section " + section.name()->str(),
          fmt::format("{}, {}, micro-batches of {}", section.trains() ? "trains" : "forward only",
                      layoutPhrase(*section.layout()), microBatchPhrase(plan, i)));
    }
    for (const fb::Edge *edge : *plan->edges())
      add("edge " + edge->name()->str(),
          fmt::format("{} -> {}, {}", plan->sections()->Get(edge->producer())->name()->string_view(),
                      plan->sections()->Get(edge->consumer())->name()->string_view(),
                      tensorPhrase(plan, edge->dtype(), *edge->shape())));
    add("stations", std::to_string(plan->stations()->size()));
    add("ranks", std::to_string(plan->ranks()->size()));
  }

  void addData() {
    for (const fb::Field *field : *plan->fields())
      add("field " + field->name()->str(), tensorPhrase(plan, field->dtype(), *field->shape()));
    for (const fb::Parameter *parameter : *plan->parameters())
      add(fmt::format("parameter {}.{}", plan->components()->Get(parameter->component())->name()->string_view(),
                      parameter->name()->string_view()),
          fmt::format("[{}], {}, {}, decay {}{}", fmt::join(*parameter->shape(), ", "),
                      parameter->trainable() ? "trainable" : "fixed", valuePhrase(*parameter),
                      parameter->weight_decay(),
                      parameter->group() > 0 ? fmt::format(", group {}", parameter->group()) : ""));
  }

  std::string valuePhrase(const fb::Parameter &parameter) const {
    if (parameter.source_file() != kNone)
      return fmt::format("{} bytes at {} of '{}'", parameter.source_bytes(), parameter.source_offset(),
                         plan->files()->Get(parameter.source_file())->path()->string_view());
    if (parameter.inline_value())
      return fmt::format("inline value {:016x}",
                         hashBytes({parameter.inline_value()->data(), parameter.inline_value()->size()}));
    return fmt::format("initializer {} {}", fb::EnumNameInitializer(parameter.initializer()),
                       parameter.initializer_scale());
  }

  void addExecutable(const fb::Executable &executable) {
    std::string name = executable.name()->str();
    add(name + " bounds", boundsPhrase(plan, executable));
    add(name + " peak", humanBytes(executable.peak_bytes()));
    for (const fb::Region *region : *executable.regions())
      add(fmt::format("{} memory {}", name, fb::EnumNameRegionKind(region->kind())),
          fmt::format("{} x {} bytes", region->copies(), grouped(region->bytes())));
    for (const fb::Program *program : *executable.programs()) {
      std::string prefix = fmt::format("{} {}", name, fb::EnumNameProgramKind(program->kind()));
      add(prefix, fmt::format("{} calls, {}", program->calls()->size(),
                              humanFlops(static_cast<double>(valueAtBounds(plan, executable, program->flops())))));
      for (auto &[kernel, count] : kernelCounts(plan, *program))
        add(fmt::format("{} {}", prefix, kernel), fmt::format("{} calls", count));
    }
  }

  const Plan &plan;
  std::vector<Fact> facts;
  std::unordered_map<std::string, size_t> positions, counts;
};

} // namespace

std::string diff(const Plan &before, const Plan &after, const StepTimes *beforeTimes, const StepTimes *afterTimes) {
  if (std::equal(before.bytes().begin(), before.bytes().end(), after.bytes().begin(), after.bytes().end()))
    return "the plans are the same\n";
  Facts old(before), fresh(after);
  std::string text = diffChoices(before, after, beforeTimes, afterTimes) + "\nfacts\n";
  size_t head = text.size();
  for (const Facts::Fact &fact : old.all()) {
    const std::string *other = fresh.find(fact.name);
    if (!other)
      text += fmt::format("- {}: {}\n", fact.name, fact.value);
    else if (*other != fact.value)
      text += fmt::format("~ {}: {} -> {}\n", fact.name, fact.value, *other);
  }
  for (const Facts::Fact &fact : fresh.all())
    if (!old.find(fact.name))
      text += fmt::format("+ {}: {}\n", fact.name, fact.value);
  return text.size() == head ? "the bytes differ, and nothing that is compared here; see --format json\n" : text;
}

} // namespace maestro::plan
