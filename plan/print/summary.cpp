// The summary: what people want to know first.
#include "plan/dims.h"
#include "plan/parameter_groups.h"
#include "plan/print/formats.h"
#include "plan/print/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

namespace maestro::plan {
namespace {

class Summary {
public:
  Summary(const Plan &plan, const Selection &selection) : plan(plan), selection(selection) {}

  std::string take() {
    header();
    if (selection.all()) {
      training();
      data();
    }
    sections();
    parameters();
    for (uint32_t i = 0; i < plan->executables()->size(); ++i)
      if (selection.hasExecutable(i))
        executable(*plan->executables()->Get(i));
    comparison();
    times();
    if (selection.all())
      spares();
    decisions();
    return std::move(text);
  }

private:
  template <typename... Args> void line(fmt::format_string<Args...> format, Args &&...args) {
    text += fmt::format(format, std::forward<Args>(args)...);
    text += '\n';
  }

  void heading(std::string_view name) { line("\n{}", name); }

  void header() {
    line("Plan '{}' by {}", plan->name()->string_view(), plan->producer()->string_view());
    line("  format {}.{}, {}, hash {:016x}, workload {:016x}", plan->version_major(), plan->version_minor(),
         humanBytes(plan.bytes().size()), plan.hash(), plan->workload_hash());
    const fb::Machine &machine = *plan->machine();
    line("  for {}: {} x {}{}{}", machine.name()->string_view(), machine.devices(),
         machine.device_kind()->string_view(),
         machine.memory_bytes() ? " with " + humanBytes(machine.memory_bytes()) + " each" : "",
         machine.nodes() > 1 ? fmt::format(" on {} nodes", machine.nodes()) : "");
    for (uint32_t i = 0;
         machine.device_kinds() && machine.device_kinds()->size() > 1 && i < machine.device_kinds()->size(); ++i) {
      const fb::DeviceKind &kind = *machine.device_kinds()->Get(i);
      line("    {} x {}, {}", kind.devices(), kind.name()->string_view(), humanBytes(kind.memory_bytes()));
    }
    for (uint32_t i = 0; plan->quantities() && i < plan->quantities()->size(); ++i)
      if (const fb::Quantity &own = *plan->quantities()->Get(i); own.name()->string_view().starts_with("machine.kept."))
        line("    kept of each: {}, {}", humanBytes(static_cast<uint64_t>(std::max(own.value(), 0.0))),
             own.source()->string_view());
    for (uint32_t i = 0; machine.links() && i < machine.links()->size(); ++i) {
      const fb::Link &link = *machine.links()->Get(i);
      line("    {} among {}: {} a direction after {}", link.name()->string_view(), link.spans(),
           humanBandwidth(link.bandwidth()), humanSeconds(link.latency()));
    }
    if (const fb::Prediction *prediction = plan->prediction())
      line("  predicted: {} and {} a step{}{}{}", humanSeconds(prediction->step_seconds()),
           humanFlops(prediction->step_flops()), ratePhrase(*prediction) + listed(utilizationPhrase(plan, "step")),
           prediction->tokens_per_second() > 0 ? ", " + humanCount(prediction->tokens_per_second()) + " tokens/s" : "",
           assumptionPhrase(plan));
  }

  void spares() {
    if (!plan->spares())
      return;
    heading("When nodes are lost and do not come back (maestro-run --restarts)");
    for (const fb::Spare *spare : *plan->spares()) {
      const fb::Plan &own = *fb::GetPlan(spare->plan()->data());
      line("  {} of {} nodes: {} devices{}", own.machine()->nodes(), plan->machine()->nodes(), own.machine()->devices(),
           own.prediction() ? ", predicted " + humanSeconds(own.prediction()->step_seconds()) + " a step" : "");
    }
  }

  static std::string listed(const std::string &phrase) { return phrase.empty() ? "" : ", " + phrase; }

  std::string ratePhrase(const fb::Prediction &prediction) const {
    double seconds = prediction.step_seconds() * static_cast<double>(plan->ranks()->size());
    return seconds > 0 ? fmt::format(", {}/s a device", humanFlops(prediction.step_flops() / seconds)) : "";
  }

  /// "2 parameters (vision.proj.weight …)"
  std::string membersPhrase(uint32_t group) const {
    uint64_t count = 0;
    std::string first;
    for (const fb::Parameter *parameter : *plan->parameters())
      if (parameter->group() == group && count++ == 0)
        first = parameter->name()->str();
    return fmt::format("{} parameter{} ({}{})", grouped(count), count == 1 ? "" : "s", first, count > 1 ? " …" : "");
  }

  void training() {
    heading("Training");
    const fb::Training &training = *plan->training();
    line("  global batch {}, seed {}", grouped(training.global_batch()), training.seed());
    line("  {}", optimizerPhrase(training));
    for (uint32_t group = 1; group < groupCount(training); ++group)
      line("  {}: {}", membersPhrase(group), groupPhrase(training, group));
    line("  {}", schedulePhrase(training));
    for (const fb::Loss *loss : *plan->losses())
      line("  loss: {}", lossPhrase(*loss));
  }

  void data() {
    heading("Data");
    TextTable fields;
    for (const fb::Field *field : *plan->fields())
      fields.add({field->name()->str(), tensorPhrase(plan, field->dtype(), *field->shape()), fieldNotes(*field)});
    text += fields.str();
    TextTable symbols;
    for (const fb::Symbol *symbol : *plan->symbols())
      symbols.add({symbol->name()->str(), symbolPhrase(*symbol)});
    text += symbols.str();
  }

  std::string fieldNotes(const fb::Field &field) const {
    std::vector<std::string> notes;
    if (field.index_limit() > 0)
      notes.push_back(fmt::format("ids below {}", field.index_limit()));
    if (field.has_ignore_index())
      notes.push_back(fmt::format("{} is ignored", field.ignore_index()));
    if (field.pad() != 0)
      notes.push_back(fmt::format("padded with {}", field.pad()));
    if (field.optional())
      notes.push_back("optional");
    if (field.own_positions())
      notes.push_back("made from the sizes: 1 at a sample's own positions");
    if (field.synthetic())
      notes.push_back("synthetic: " + field.synthetic()->str());
    for (uint32_t i = 0; field.marks() && i < field.marks()->size(); ++i) {
      const fb::Mark &mark = *field.marks()->Get(i);
      notes.push_back(fmt::format("{} x {} for each of {}", mark.per_row(), mark.value(),
                                  plan->symbols()->Get(mark.symbol())->name()->string_view()));
    }
    return fmt::format("{}", fmt::join(notes, ", "));
  }

  static std::string symbolPhrase(const fb::Symbol &symbol) {
    if (symbol.combine() == fb::Combine::Sum)
      return fmt::format("sum over samples, at most {} of one sample", symbol.sample_max());
    std::string multiple = symbol.multiple_of() > 1 ? fmt::format(", a multiple of {}", symbol.multiple_of()) : "";
    return fmt::format("padded to the longest sample, at most {}{}", symbol.sample_max(), multiple);
  }

  void sections() {
    heading("Sections");
    TextTable table;
    for (uint32_t i = 0; i < plan->sections()->size(); ++i) {
      const fb::Section &section = *plan->sections()->Get(i);
      if (selection.hasSection(i))
        table.add({section.name()->str(), section.trains() ? "trains" : "forward only", layoutPhrase(*section.layout()),
                   deviceRanges(devicesOf(plan, i)), "micro-batches of at most " + microBatchPhrase(plan, i),
                   "components " + componentNames(section)});
    }
    text += table.str();
    for (const fb::Edge *edge : *plan->edges())
      if (selection.hasSection(edge->producer()) || selection.hasSection(edge->consumer()))
        line("  edge {}: {} -> {}, {}{}{}", edge->name()->string_view(),
             endName(edge->producer(), edge->producer_stage()), endName(edge->consumer(), edge->consumer_stage()),
             tensorPhrase(plan, edge->dtype(), *edge->shape()), edge->carries_gradient() ? ", gradients back" : "",
             ringPhrase(*edge));
    line("  {} on {}", plural(plan->stations()->size(), "station"), plural(plan->ranks()->size(), "rank"));
    for (const fb::Rank *rank : *plan->ranks())
      if (plan->ranks()->size() > 1 && rank->peak_bytes() > 0)
        line("  device {}: predicted peak {}", rank->device(), humanBytes(rank->peak_bytes()));
    for (uint32_t i = 0; plan->gradient_sums() && i < plan->gradient_sums()->size(); ++i) {
      const fb::GradientSum &sum = *plan->gradient_sums()->Get(i);
      line("  gradients of {} added up over {}{}", plural(sum.parameters()->size(), "parameter"),
           plural(sum.stations()->size(), "station"),
           sum.degrees() ? fmt::format(" in stages of {}", fmt::join(*sum.degrees(), ", ")) : "");
    }
  }

  std::string endName(uint32_t section, uint32_t stage) const {
    bool cut = plan->sections()->Get(section)->layout()->stages() > 1;
    return std::string(sectionName(section)) + (cut ? fmt::format(" stage {}", stage) : "");
  }

  /// The consumer's ring: how many micro-batches may have arrived, and what they take.
  std::string ringPhrase(const fb::Edge &edge) const {
    for (const fb::Executable *executable : *plan->executables())
      for (const fb::Region *region : *executable->regions())
        if (region->kind() == fb::RegionKind::Channel && !region->gradient() &&
            plan->edges()->Get(region->edge()) == &edge)
          return fmt::format(", {} of {}", plural(region->copies(), "slot"), humanBytes(region->bytes()));
    return "";
  }

  std::string_view sectionName(uint32_t section) const { return plan->sections()->Get(section)->name()->string_view(); }

  std::string componentNames(const fb::Section &section) const {
    std::vector<std::string> names;
    for (uint32_t component : *section.components())
      names.push_back(plan->components()->Get(component)->name()->str());
    return fmt::format("{}", fmt::join(names, ", "));
  }

  static std::string plural(size_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  }

  void parameters() {
    heading("Parameters");
    TextTable table(0b1110);
    for (uint32_t i = 0; i < plan->components()->size(); ++i) {
      if (!selection.hasComponent(i))
        continue;
      ParameterTotals totals = parameterTotals(plan, i);
      const fb::Component &component = *plan->components()->Get(i);
      table.add({component.name()->str(), plural(totals.tensors, "tensor"),
                 humanCount(static_cast<double>(totals.elements)) + " elements",
                 humanCount(static_cast<double>(totals.trainable)) + " trainable", originPhrase(totals),
                 component.frozen()          ? "frozen"
                 : component.saves_trained() ? "what trains is saved"
                                             : "",
                 component.precision() != 0 ? "bf16" : ""});
    }
    text += table.str();
    for (uint32_t i = 0; i < plan->components()->size(); ++i)
      if (selection.hasComponent(i) && !plan->components()->Get(i)->frozen())
        trained(i);
  }

  void trained(uint32_t component) {
    std::string_view name = plan->components()->Get(component)->name()->string_view();
    for (bool trains : {true, false})
      if (std::string names = trainedNames(plan, component, trains); !names.empty())
        line("  {} {}: {}", name, trains ? "trains" : "keeps as it is", names);
  }

  static std::string originPhrase(const ParameterTotals &totals) {
    std::vector<std::string> parts;
    auto part = [&](size_t count, const char *what) {
      if (count > 0)
        parts.push_back(fmt::format("{} {}", count, what));
    };
    part(totals.fromFiles, "from files");
    part(totals.inPlan, "in the plan");
    part(totals.seeded, "seeded");
    part(totals.withoutValue, "only from --weights");
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  void executable(const fb::Executable &executable) {
    heading(fmt::format("Memory of '{}' (section {}, stage {}), predicted peak {}", executable.name()->string_view(),
                        sectionName(executable.section()), executable.stage(), humanBytes(executable.peak_bytes())));
    line("  micro-batches: at most {}; {}", plural(static_cast<size_t>(executable.samples()), "sample"),
         boundsPhrase(plan, executable));
    memory(executable);
    heading(fmt::format("Programs of '{}'", executable.name()->string_view()));
    programs(executable);
  }

  void memory(const fb::Executable &executable) {
    uint64_t most = 1, beside = executable.peak_bytes(); // The verifier: no less than the regions.
    for (const fb::Region *region : *executable.regions())
      most = std::max(most, region->bytes() * region->copies());
    TextTable table(0b10);
    for (const fb::Region *region : *executable.regions()) {
      uint64_t bytes = region->bytes() * region->copies();
      std::string bar(static_cast<size_t>(std::ceil(40.0 * static_cast<double>(bytes) / static_cast<double>(most))),
                      '#');
      std::string copies =
          region->copies() > 1 ? fmt::format("{} x {}", region->copies(), humanBytes(region->bytes())) : "";
      table.add({fb::EnumNameRegionKind(region->kind()), humanBytes(bytes), copies, bar});
      beside -= bytes;
    }
    table.add({"beside them", humanBytes(beside), "process and kernels' scratch", ""});
    text += table.str();
  }

  void programs(const fb::Executable &executable) {
    TextTable table(0b1110);
    for (const fb::Program *program : *executable.programs())
      table.add({fb::EnumNameProgramKind(program->kind()), plural(program->calls()->size(), "call"),
                 humanFlops(static_cast<double>(valueAtBounds(plan, executable, program->flops()))),
                 humanBytes(static_cast<uint64_t>(
                     std::max<int64_t>(0, valueAtBounds(plan, executable, program->memory_bytes())))) +
                     " moved",
                 kernelsPhrase(*program)});
    text += table.str();
  }

  /// The most frequent kernels first; the rare ones of many are left out.
  std::string kernelsPhrase(const fb::Program &program) const {
    std::vector<std::pair<size_t, std::string>> counts;
    for (auto &[name, count] : kernelCounts(plan, program))
      counts.emplace_back(count, name);
    std::stable_sort(counts.begin(), counts.end(), [](auto &a, auto &b) { return a.first > b.first; });
    std::vector<std::string> parts;
    constexpr size_t kMost = 12;
    size_t shown = counts.size() > kMost + 1 ? kMost : counts.size();
    for (auto &[count, name] : std::span(counts).first(shown))
      parts.push_back(count == 1 ? name : fmt::format("{} {}", count, name));
    if (shown < counts.size())
      parts.push_back(fmt::format("{} other kernels", counts.size() - shown));
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  void comparison() {
    if (!selection.all() || candidatesOf(plan, fb::CandidateKind::Layout).empty())
      return;
    heading(fmt::format("Compared, a step as predicted{} (* in file order)",
                        assumptionPhrase(plan).empty() ? "" : ", assumed rates"));
    text += comparisonTable(plan).str();
  }

  /// Of a step, of the same samples: operations and rates; and as the search simulated it, where there was a search.
  void times() {
    TextTable table(0b1111110);
    for (uint32_t i = 0; i < plan->sections()->size(); ++i) {
      std::string name = plan->sections()->Get(i)->name()->str();
      std::optional<double> busy = quantity(plan, name + ".busy_seconds"),
                            idle = quantity(plan, name + ".idle_seconds"),
                            count = quantity(plan, name + ".microbatches"), flops = quantity(plan, name + ".flops"),
                            tokens = quantity(plan, name + ".tokens_per_second");
      if (selection.hasSection(i) && flops)
        table.add({name, humanFlops(*flops), tokens ? humanCount(*tokens) + " tokens/s" : "",
                   utilizationPhrase(plan, name), busy ? humanSeconds(*busy) + " busy" : "",
                   idle ? humanSeconds(*idle) + " idle" : "",
                   count ? fmt::format("{:.4g} micro-batches", *count) : ""});
    }
    if (table.empty())
      return;
    heading("A predicted step by section, busy and idle of its mean device" +
            std::string(assumptionPhrase(plan).empty() ? "" : ", assumed rates"));
    text += table.str();
  }

  void decisions() {
    if (plan->decisions()->size() == 0)
      return;
    heading("Decisions (* by default)");
    TextTable table;
    for (const fb::Decision *decision : *plan->decisions())
      if (!isOfEdge(*decision)) // Said with the edges, by --explain.
        table.add({decision->is_default() ? "*" : " ", decision->subject()->str(), decision->choice()->str(),
                   decision->reason()->str()});
    text += table.str();
  }

  const Plan &plan;
  const Selection &selection;
  std::string text;
};

} // namespace

std::string printSummary(const Plan &plan, const Selection &selection) { return Summary(plan, selection).take(); }

} // namespace maestro::plan
