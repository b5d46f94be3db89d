// The plan as the `plan` dialect writes it (ir/plan/plan_ops.td), without MLIR:
//
//   maestro-dump plan.mpl --format mlir | maestro-opt
//
// reads it, verifies it, and prints the same text. One operation a line, in the order of plan.fbs; executables and
// programs are nested modules. Of executables that are not selected only the head is shown.
#include "plan/print/formats.h"
#include "plan/print/mlir_text.h"

#include <fmt/format.h>

namespace maestro::plan {
namespace {

using Strings = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

template <typename T, typename Text> std::string bracketed(const flatbuffers::Vector<T> &values, Text text) {
  std::string result;
  for (const auto &value : values)
    result += (result.empty() ? "" : ", ") + text(value);
  return fmt::format("[{}]", result);
}

std::string integers(const flatbuffers::Vector<int64_t> &values) {
  return bracketed(values, [](int64_t value) { return std::to_string(value); });
}

std::string numbers(const flatbuffers::Vector<uint32_t> &values) {
  return bracketed(values, [](uint32_t value) { return std::to_string(value); });
}

std::string quoted(const flatbuffers::String &text) { return mlirString(text.string_view()); }

/// `keyword "text"` where there is a text.
std::string optional(const char *keyword, const flatbuffers::String *text) {
  return text && text->size() > 0 ? fmt::format(" {} {}", keyword, quoted(*text)) : "";
}

std::string optional(const char *keyword, const Strings *texts) {
  if (!texts || texts->size() == 0)
    return "";
  std::string list;
  for (const flatbuffers::String *text : *texts)
    list += (list.empty() ? "" : ", ") + quoted(*text);
  return fmt::format(" {} [{}]", keyword, list);
}

const char *flag(bool value, const char *keyword) { return value ? keyword : ""; }

class Mlir {
public:
  Mlir(const Plan &plan, const Selection &selection) : plan(plan), selection(selection), exprs(*plan) {}

  std::string take() {
    open();
    head();
    data();
    training();
    sections();
    for (uint32_t i = 0; i < plan->executables()->size(); ++i)
      executable(i, *plan->executables()->Get(i));
    stations();
    people();
    close();
    return std::move(text) + "\n"; // As maestro-opt ends.
  }

private:
  // ---- The plan as a whole -----------------------------------------------------------------------------------------

  void head() {
    line("plan.plan {} version({}, {}) producer {} workload_hash {}{}", quoted(*plan->name()), plan->version_major(),
         plan->version_minor(), quoted(*plan->producer()), plan->workload_hash(),
         optional("no_synthetic", plan->no_synthetic()));
    const fb::Machine &machine = *plan->machine();
    line("plan.machine {} kind {} devices {} memory_bytes {}", quoted(*machine.name()), quoted(*machine.device_kind()),
         machine.devices(), machine.memory_bytes());
    for (uint32_t i = 0; machine.links() && i < machine.links()->size(); ++i) {
      const fb::Link &link = *machine.links()->Get(i);
      line("plan.link {} spans {} bandwidth {} latency {}", quoted(*link.name()), link.spans(),
           mlirNumber(link.bandwidth()), mlirNumber(link.latency()));
    }
    for (uint32_t i = 0; machine.device_kinds() && i < machine.device_kinds()->size(); ++i) {
      const fb::DeviceKind &kind = *machine.device_kinds()->Get(i);
      line("plan.device_kind {} devices {} memory_bytes {}", quoted(*kind.name()), kind.devices(), kind.memory_bytes());
    }
    for (const fb::Symbol *symbol : *plan->symbols())
      line("plan.symbol {} {} sample_max {} multiple_of {}{}", quoted(*symbol->name()),
           fb::EnumNameCombine(symbol->combine()), symbol->sample_max(), symbol->multiple_of(),
           optional("unpadded", symbol->unpadded()));
    for (uint32_t i = 0; i < plan->exprs()->size(); ++i)
      line("plan.dim {} = {}", i, exprs.definition(i));
  }

  void data() {
    for (const fb::Field *field : *plan->fields())
      line("plan.field {} {} {} pad {} index_limit {}{}{}{}{}{}", quoted(*field->name()),
           mlirElementType(field->dtype()), exprs.list(*field->shape()), mlirNumber(field->pad()), field->index_limit(),
           field->has_ignore_index() ? fmt::format(" ignore_index {}", field->ignore_index()) : "",
           flag(field->optional(), " optional"), optional("synthetic", field->synthetic()),
           flag(field->own_positions(), " own_positions"), marks(*field));
    for (uint32_t i = 0; i < plan->files()->size(); ++i) {
      const fb::SourceFile &file = *plan->files()->Get(i);
      line("plan.file {} = {} size {} modified_ns {}", i, quoted(*file.path()), file.size(), file.modified_ns());
    }
    for (const fb::Component *component : *plan->components())
      line("plan.component {} precision {}{}{}", quoted(*component->name()), mlirElementType(component->precision()),
           flag(component->frozen(), " frozen"), optional("model", component->model_path()));
    for (uint32_t i = 0; i < plan->parameters()->size(); ++i)
      parameter(i, *plan->parameters()->Get(i));
  }

  std::string marks(const fb::Field &field) const {
    if (!field.marks() || field.marks()->size() == 0)
      return "";
    auto each = [&](auto print) { return bracketed(*field.marks(), print); };
    return " marks " + each([](const fb::Mark *mark) { return fmt::to_string(mark->value()); }) + " each " +
           each([&](const fb::Mark *mark) { return quoted(*plan->symbols()->Get(mark->symbol())->name()); }) +
           " times " + each([](const fb::Mark *mark) { return fmt::to_string(mark->per_row()); });
  }

  void parameter(uint32_t number, const fb::Parameter &parameter) {
    std::string source = mlirElementType(parameter.source_dtype());
    if (parameter.source_file() != kNone)
      source += fmt::format(" file {}", parameter.source_file());
    source += fmt::format(" offset {} bytes {}{}", parameter.source_offset(), parameter.source_bytes(),
                          flag(parameter.source_transposed(), " transposed"));
    if (parameter.inline_value() && parameter.inline_value()->size() > 0)
      source += " value \"" + hexDigits(*parameter.inline_value()) + "\"";
    line("plan.parameter {} = {} {} {} {} {}{}{} weight_decay {} source {} initializer {} {}", number,
         quoted(*plan->components()->Get(parameter.component())->name()), quoted(*parameter.name()),
         fb::EnumNameParameterKind(parameter.kind()), mlirElementType(parameter.dtype()), integers(*parameter.shape()),
         flag(parameter.trainable(), " trainable"), optional("aliases", parameter.aliases()),
         mlirNumber(parameter.weight_decay()), source, fb::EnumNameInitializer(parameter.initializer()),
         mlirNumber(parameter.initializer_scale()));
  }

  void training() {
    for (uint32_t i = 0; i < plan->losses()->size(); ++i) {
      const fb::Loss &loss = *plan->losses()->Get(i);
      line("plan.loss {} = {} weight {} term_weight {}{}{}{}", i, quoted(*loss.name()), mlirNumber(loss.weight()),
           mlirNumber(loss.term_weight()),
           loss.count_floor() > 0 ? " count_floor " + mlirNumber(loss.count_floor()) : "",
           flag(loss.from_graph(), " from_graph"), optional("note", loss.note()));
    }
    const fb::Training &training = *plan->training();
    line("plan.training {} global_batch {} lr {} betas({}, {}) eps {} momentum {}{} clip_grad_norm {} decay {} "
         "warmup_steps {} total_steps {} min_lr {} seed {}{}",
         fb::EnumNameOptimizer(training.optimizer()), training.global_batch(), mlirNumber(training.lr()),
         mlirNumber(training.beta1()), mlirNumber(training.beta2()), mlirNumber(training.eps()),
         mlirNumber(training.momentum()), flag(training.nesterov(), " nesterov"), mlirNumber(training.clip_grad_norm()),
         fb::EnumNameDecay(training.decay()), training.warmup_steps(), training.total_steps(),
         mlirNumber(training.min_lr()), training.seed(),
         training.bad_steps() == 3 ? "" : fmt::format(" bad_steps {}", training.bad_steps()));
  }

  // ---- Sections ----------------------------------------------------------------------------------------------------

  std::string symbolNames(const flatbuffers::Vector<uint32_t> &symbols) const {
    return bracketed(symbols, [&](uint32_t symbol) { return quoted(*plan->symbols()->Get(symbol)->name()); });
  }

  std::string sectionName(uint32_t section) const { return quoted(*plan->sections()->Get(section)->name()); }

  void sections() {
    for (const fb::Section *section : *plan->sections()) {
      const fb::Layout &layout = *section->layout();
      bool hasActive = section->active() && section->active()->size() > 0;
      bool hasUnpadded = section->unpadded() && section->unpadded()->size() > 0;
      line("plan.section {} components {}{} micro_batch_samples {} data_parallel {} stages {} tensor_parallel {} "
           "context_parallel {} expert_parallel {} zero_stage {}{}{}{}{}{}{}{}{}",
           quoted(*section->name()),
           bracketed(*section->components(), [&](uint32_t c) { return quoted(*plan->components()->Get(c)->name()); }),
           flag(section->trains(), " trains"), section->micro_batch_samples(), layout.data_parallel(), layout.stages(),
           layout.tensor_parallel(), layout.context_parallel(), layout.expert_parallel(), layout.zero_stage(),
           flag(layout.recompute(), " recompute"), flag(layout.full_recompute(), " full_recompute"),
           layout.lighter_layers() ? fmt::format(" lighter_layers {}", layout.lighter_layers()) : "",
           flag(layout.lighter_evenly(), " lighter_evenly"),
           layout.split_backward() ? fmt::format(" split_backward {}", layout.split_backward()) : "",
           optional("scopes", section->scopes()), hasActive ? " active " + symbolNames(*section->active()) : "",
           hasUnpadded ? " unpadded " + symbolNames(*section->unpadded()) : "");
    }
    for (const fb::Edge *edge : *plan->edges())
      line("plan.edge {} from {} stage {} to {} stage {} : {} {}{}{}{}", quoted(*edge->name()),
           sectionName(edge->producer()), edge->producer_stage(), sectionName(edge->consumer()), edge->consumer_stage(),
           mlirElementType(edge->dtype()), exprs.list(*edge->shape()), flag(edge->carries_gradient(), " gradient"),
           flag(edge->held_until_backward(), " held_until_backward"), cost(edge->cost()));
  }

  /// ` cost [1500, 12*batch*seq]`: picoseconds times symbols.
  std::string cost(const flatbuffers::Vector<flatbuffers::Offset<fb::CostTerm>> *terms) const {
    if (!terms || terms->size() == 0)
      return "";
    std::string list;
    for (const fb::CostTerm *term : *terms) {
      list += (list.empty() ? "" : ", ") + std::to_string(term->picoseconds());
      for (uint32_t symbol : *term->symbols())
        list.append("*").append(mlirSymbol(plan->symbols()->Get(symbol)->name()->string_view()));
    }
    return fmt::format(" cost [{}]", list);
  }

  void stations() {
    for (uint32_t i = 0; i < plan->ranks()->size(); ++i)
      line("plan.rank {} = device {} threads {}{}", i, plan->ranks()->Get(i)->device(),
           plan->ranks()->Get(i)->threads(),
           plan->ranks()->Get(i)->peak_bytes() > 0 ? fmt::format(" peak_bytes {}", plan->ranks()->Get(i)->peak_bytes())
                                                   : "");
    for (const fb::Station *station : *plan->stations())
      line("plan.station executable {} replica {} ranks {}", station->executable(), station->replica(),
           numbers(*station->ranks()));
    for (uint32_t i = 0; plan->gradient_sums() && i < plan->gradient_sums()->size(); ++i)
      line("plan.gradient_sum parameters {} stations {}", numbers(*plan->gradient_sums()->Get(i)->parameters()),
           numbers(*plan->gradient_sums()->Get(i)->stations()));
  }

  void people() {
    if (const fb::Prediction *prediction = plan->prediction())
      line("plan.prediction step_seconds {} step_flops {} tokens_per_second {}", mlirNumber(prediction->step_seconds()),
           mlirNumber(prediction->step_flops()), mlirNumber(prediction->tokens_per_second()));
    for (uint32_t i = 0; plan->step_samples() && i < plan->step_samples()->size(); ++i)
      line("plan.step_samples {}", numbers(*plan->step_samples()->Get(i)->sizes()));
    for (const fb::Decision *decision : *plan->decisions())
      line("plan.decision {} = {} because {}{}", quoted(*decision->subject()), quoted(*decision->choice()),
           quoted(*decision->reason()), flag(decision->is_default(), " default"));
    for (uint32_t i = 0; plan->candidates() && i < plan->candidates()->size(); ++i) {
      const fb::Candidate &candidate = *plan->candidates()->Get(i);
      line("plan.candidate {} {} = {} step_seconds {} missing_bytes {}{} because {}",
           fb::EnumNameCandidateKind(candidate.kind()), quoted(*candidate.subject()), quoted(*candidate.choice()),
           mlirNumber(candidate.step_seconds()), candidate.missing_bytes(),
           flag(candidate.in_file_order(), " in_file_order"), quoted(*candidate.reason()));
    }
    for (uint32_t i = 0; plan->limits() && i < plan->limits()->size(); ++i) {
      const fb::Limit &limit = *plan->limits()->Get(i);
      line("plan.limit {} {} used {} limit {} because {}", fb::EnumNameLimitKind(limit.kind()), quoted(*limit.place()),
           mlirNumber(limit.used()), mlirNumber(limit.limit()), quoted(*limit.reason()));
    }
    for (uint32_t i = 0; plan->quantities() && i < plan->quantities()->size(); ++i) {
      const fb::Quantity &quantity = *plan->quantities()->Get(i);
      line("plan.quantity {} = {} unit {} source {}", quoted(*quantity.name()), mlirNumber(quantity.value()),
           quoted(*quantity.unit()), quoted(*quantity.source()));
    }
  }

  // ---- Executables -------------------------------------------------------------------------------------------------

  void executable(uint32_t number, const fb::Executable &executable) {
    open();
    line("plan.executable {} = {} section {} stage {} samples {} peak_bytes {}", number, quoted(*executable.name()),
         sectionName(executable.section()), executable.stage(), executable.samples(), executable.peak_bytes());
    if (selection.hasExecutable(number))
      body(executable);
    close();
  }

  void body(const fb::Executable &executable) {
    for (const fb::Bound *bound : *executable.bounds())
      line("plan.bound {} = {}", quoted(*plan->symbols()->Get(bound->symbol())->name()), bound->value());
    for (uint32_t i = 0; executable.areas() && i < executable.areas()->size(); ++i) {
      const fb::Area &area = *executable.areas()->Get(i);
      line("plan.area {} by {} = {}", quoted(*plan->symbols()->Get(area.rows())->name()),
           quoted(*plan->symbols()->Get(area.padded())->name()), area.value());
    }
    for (uint32_t i = 0; i < executable.regions()->size(); ++i) {
      const fb::Region &region = *executable.regions()->Get(i);
      std::string edge = region.edge() == kNone ? "" : " edge " + quoted(*plan->edges()->Get(region.edge())->name());
      line("plan.region r{} = {} bytes {} copies {}{}{}", i, fb::EnumNameRegionKind(region.kind()), region.bytes(),
           region.copies(), edge, flag(region.gradient(), " gradient"));
    }
    for (uint32_t i = 0; i < executable.buffers()->size(); ++i)
      buffer(i, *executable.buffers()->Get(i));
    for (const fb::Binding *binding : *executable.bindings()) {
      const flatbuffers::String *target = bindingTarget(*binding);
      line("plan.binding b{} = {} {}{}{}", binding->buffer(), fb::EnumNameBindingKind(binding->kind()),
           binding->index(), target ? fmt::format(" {}", quoted(*target)) : "",
           binding->split_dim() == kNone ? "" : fmt::format(" split_dim {}", binding->split_dim()));
    }
    for (const fb::Program *program : *executable.programs())
      this->program(executable, *program);
  }

  void buffer(uint32_t number, const fb::Buffer &buffer) {
    bool hasConstant = buffer.constant() && buffer.constant()->size() > 0;
    line("plan.buffer b{} = {} {} in r{} at {} bytes {}{}{}", number, mlirElementType(buffer.dtype()),
         exprs.list(*buffer.shape()), buffer.region(), buffer.offset(), buffer.bytes(), optional("name", buffer.name()),
         hasConstant ? " constant \"" + hexDigits(*buffer.constant()) + "\"" : "");
  }

  const flatbuffers::String *bindingTarget(const fb::Binding &binding) const {
    switch (binding.kind()) {
    case fb::BindingKind::Field:
      return plan->fields()->Get(binding.index())->name();
    case fb::BindingKind::LossSum:
    case fb::BindingKind::LossCount:
    case fb::BindingKind::LossScale:
      return plan->losses()->Get(binding.index())->name();
    case fb::BindingKind::Value:
    case fb::BindingKind::Gradient:
    case fb::BindingKind::Moment1:
    case fb::BindingKind::Moment2:
      return plan->parameters()->Get(binding.index())->name();
    case fb::BindingKind::EdgeInput:
    case fb::BindingKind::EdgeOutput:
    case fb::BindingKind::EdgeGradientInput:
    case fb::BindingKind::EdgeGradientOutput:
      return plan->edges()->Get(binding.index())->name();
    default:
      return nullptr;
    }
  }

  // ---- Programs ----------------------------------------------------------------------------------------------------

  void program(const fb::Executable &executable, const fb::Program &program) {
    open();
    line("plan.program {} fields {} flops {} memory_bytes {}{}", fb::EnumNameProgramKind(program.kind()),
         bracketed(*program.fields(), [&](uint32_t field) { return quoted(*plan->fields()->Get(field)->name()); }),
         exprs.reference(program.flops()), exprs.reference(program.memory_bytes()), cost(program.cost()));
    for (const fb::Call *call : *program.calls())
      this->call(executable, *call);
    close();
  }

  void call(const fb::Executable &executable, const fb::Call &call) {
    std::string results = types(executable, *call.outputs());
    if (call.outputs()->size() != 1) // MLIR leaves the parentheses of one result out.
      results = fmt::format("({})", results);
    const flatbuffers::String *scope = call.scope() == kNone ? nullptr : plan->scopes()->Get(call.scope());
    line("plan.call {}({}) -> ({}){}{} : ({}) -> {}", quoted(*plan->kernels()->Get(call.kernel())),
         buffers(*call.inputs()), buffers(*call.outputs()), attributes(call), optional("scope", scope),
         types(executable, *call.inputs()), results);
  }

  static std::string buffers(const flatbuffers::Vector<uint32_t> &list) {
    std::string result;
    for (uint32_t buffer : list)
      result += (result.empty() ? "" : ", ") + (buffer == kNone ? "none" : fmt::format("b{}", buffer));
    return result;
  }

  static std::string types(const fb::Executable &executable, const flatbuffers::Vector<uint32_t> &list) {
    std::string result;
    for (uint32_t buffer : list)
      result += std::string(result.empty() ? "" : ", ") +
                (buffer == kNone ? "none" : mlirElementType(executable.buffers()->Get(buffer)->dtype()));
    return result;
  }

  std::string attributes(const fb::Call &call) const {
    if (call.attributes() == kNone)
      return "";
    std::string result;
    for (const fb::Attribute *item : *plan->attribute_lists()->Get(call.attributes())->items())
      result += (result.empty() ? "" : ", ") + mlirKeyword(item->name()->string_view()) + " = " + value(*item);
    return " attributes {" + result + "}";
  }

  std::string value(const fb::Attribute &attribute) const {
    if (attribute.floats())
      return "f64" + bracketed(*attribute.floats(), mlirNumber);
    if (attribute.text())
      return quoted(*attribute.text());
    if (attribute.exprs())
      return "dims" + exprs.list(*attribute.exprs());
    return attribute.ints() ? integers(*attribute.ints()) : "[]";
  }

  // ---- Lines -------------------------------------------------------------------------------------------------------

  template <typename... Args> void line(fmt::format_string<Args...> format, Args &&...args) {
    text.append(2 * depth, ' ');
    text += fmt::format(format, std::forward<Args>(args)...);
    text += '\n';
  }

  void open() {
    line("module {{");
    ++depth;
  }

  void close() {
    --depth;
    line("}}");
  }

  const Plan &plan;
  const Selection &selection;
  MlirExprs exprs;
  std::string text;
  size_t depth = 0;
};

} // namespace

std::string printMlir(const Plan &plan, const Selection &selection) { return Mlir(plan, selection).take(); }

} // namespace maestro::plan
