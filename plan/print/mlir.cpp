// The plan as MLIR, written without it: one operation for each row of its tables, in the order of plan.fbs, in MLIR's
// generic form.
//
//   maestro-dump plan.mpl --format mlir | mlir-opt --allow-unregistered-dialect
//
// Executables and programs are regions. Sizes are as people write them ("4*batch*seq"), rows of other tables by name
// where they have one. Of executables that are not selected only the head is shown.
#include "plan/dims.h"
#include "plan/print/formats.h"
#include "plan/print/mlir_attributes.h"

#include <fmt/format.h>

namespace maestro::plan {
namespace {

using namespace mlir_attributes;

class Mlir {
public:
  Mlir(const Plan &plan, const Selection &selection) : plan(plan), selection(selection), exprs(*plan) {}

  std::string take() {
    text = "module {\n";
    depth = 1;
    head();
    data();
    training();
    sections();
    for (uint32_t i = 0; i < plan->executables()->size(); ++i)
      executable(i, *plan->executables()->Get(i));
    stations();
    people();
    return std::move(text) + "}\n";
  }

private:
  // ---- The plan as a whole -----------------------------------------------------------------------------------------

  void head() {
    op("plan", string("name", plan->name()), number("version_major", plan->version_major()),
       number("version_minor", plan->version_minor()), string("producer", plan->producer()),
       word("workload_hash", fmt::format("{:016x}", plan->workload_hash())),
       string("no_synthetic", plan->no_synthetic()));
    const fb::Machine &machine = *plan->machine();
    op("machine", string("name", machine.name()), string("device_kind", machine.device_kind()),
       number("devices", machine.devices()), number("memory_bytes", machine.memory_bytes()),
       number("nodes", machine.nodes()));
    each(machine.links(), [&](uint32_t, const fb::Link &link) {
      op("link", string("name", link.name()), number("spans", link.spans()), number("bandwidth", link.bandwidth()),
         number("latency", link.latency()));
    });
    each(machine.device_kinds(), [&](uint32_t, const fb::DeviceKind &kind) {
      op("device_kind", string("name", kind.name()), number("devices", kind.devices()),
         number("memory_bytes", kind.memory_bytes()));
    });
    each(plan->symbols(), [&](uint32_t, const fb::Symbol &symbol) {
      op("symbol", string("name", symbol.name()), word("combine", fb::EnumNameCombine(symbol.combine())),
         number("sample_max", symbol.sample_max()), number("multiple_of", symbol.multiple_of()),
         string("unpadded", symbol.unpadded()));
    });
  }

  void data() {
    each(plan->fields(), [&](uint32_t, const fb::Field &field) {
      op("field", string("name", field.name()), dtype("dtype", field.dtype()), dims("shape", *field.shape()),
         number("pad", field.pad()), number("index_limit", field.index_limit()),
         field.has_ignore_index() ? number("ignore_index", field.ignore_index()) : "",
         flag("optional", field.optional()), string("synthetic", field.synthetic()),
         flag("own_positions", field.own_positions()), list("marks", field.marks(), [&](const fb::Mark *mark) {
           return dictionary(number("value", mark->value()), string("symbol", symbolName(mark->symbol())),
                             number("per_row", mark->per_row()));
         }));
    });
    each(plan->files(), [&](uint32_t index, const fb::SourceFile &file) {
      op("file", number("index", index), string("path", file.path()), number("size", file.size()),
         number("modified_ns", file.modified_ns()));
    });
    each(plan->components(), [&](uint32_t, const fb::Component &component) {
      op("component", string("name", component.name()), dtype("precision", component.precision()),
         flag("frozen", component.frozen()), string("model_path", component.model_path()),
         flag("saves_trained", component.saves_trained()), strings("strip", component.strip()));
    });
    each(plan->parameters(), [&](uint32_t index, const fb::Parameter &own) { parameter(index, own); });
  }

  void parameter(uint32_t index, const fb::Parameter &parameter) {
    op("parameter", number("index", index), string("component", plan->components()->Get(parameter.component())->name()),
       string("name", parameter.name()), word("kind", fb::EnumNameParameterKind(parameter.kind())),
       dtype("dtype", parameter.dtype()),
       parameter.shape()->size() > 0 ? numbers("shape", parameter.shape()) : "shape = []",
       flag("trainable", parameter.trainable()), strings("aliases", parameter.aliases()),
       number("weight_decay", parameter.weight_decay()), number("group", parameter.group()),
       dtype("source_dtype", parameter.source_dtype()), indexOrNone("source_file", parameter.source_file()),
       number("source_offset", parameter.source_offset()), number("source_bytes", parameter.source_bytes()),
       flag("source_transposed", parameter.source_transposed()), hex("inline_value", parameter.inline_value()),
       word("initializer", fb::EnumNameInitializer(parameter.initializer())),
       number("initializer_scale", parameter.initializer_scale()));
  }

  void training() {
    each(plan->losses(), [&](uint32_t, const fb::Loss &loss) {
      op("loss", string("name", loss.name()), number("weight", loss.weight()),
         number("term_weight", loss.term_weight()), number("count_floor", loss.count_floor()),
         flag("from_graph", loss.from_graph()), string("note", loss.note()));
    });
    const fb::Training &own = *plan->training();
    op("training", word("optimizer", fb::EnumNameOptimizer(own.optimizer())),
       number("global_batch", own.global_batch()), number("lr", own.lr()), number("beta1", own.beta1()),
       number("beta2", own.beta2()), number("eps", own.eps()), number("momentum", own.momentum()),
       flag("nesterov", own.nesterov()), number("clip_grad_norm", own.clip_grad_norm()),
       word("decay", fb::EnumNameDecay(own.decay())), number("warmup_steps", own.warmup_steps()),
       number("total_steps", own.total_steps()), number("min_lr", own.min_lr()), number("seed", own.seed()),
       number("bad_steps", own.bad_steps()), number("decay_steps", own.decay_steps()),
       number("iterations", own.iterations()), flag("match_rms", own.match_rms()),
       number("beta2_decay", own.beta2_decay()), number("eps2", own.eps2()), number("clip", own.clip()),
       number("ema_decay", own.ema_decay()));
    each(own.groups(), [&](uint32_t index, const fb::ParameterGroup &group) {
      op("parameter_group", number("index", index + 1), word("optimizer", fb::EnumNameOptimizer(group.optimizer())),
         number("lr", group.lr()), number("beta1", group.beta1()), number("beta2", group.beta2()),
         number("eps", group.eps()), number("momentum", group.momentum()), flag("nesterov", group.nesterov()),
         number("iterations", group.iterations()), flag("match_rms", group.match_rms()),
         number("beta2_decay", group.beta2_decay()), number("eps2", group.eps2()), number("clip", group.clip()));
    });
  }

  // ---- Sections ----------------------------------------------------------------------------------------------------

  const flatbuffers::String *symbolName(uint32_t symbol) const { return plan->symbols()->Get(symbol)->name(); }
  const flatbuffers::String *sectionName(uint32_t section) const { return plan->sections()->Get(section)->name(); }

  void sections() {
    auto symbol = [&](uint32_t own) { return quoted(symbolName(own)); };
    each(plan->sections(), [&](uint32_t, const fb::Section &section) {
      const fb::Layout &layout = *section.layout();
      op("section", string("name", section.name()),
         list("components", section.components(),
              [&](uint32_t own) { return quoted(plan->components()->Get(own)->name()); }),
         flag("trains", section.trains()), number("micro_batch_samples", section.micro_batch_samples()),
         number("data_parallel", layout.data_parallel()), number("stages", layout.stages()),
         number("tensor_parallel", layout.tensor_parallel()), number("context_parallel", layout.context_parallel()),
         number("expert_parallel", layout.expert_parallel()), number("zero_stage", layout.zero_stage()),
         flag("recompute", layout.recompute()), flag("full_recompute", layout.full_recompute()),
         number("lighter_layers", layout.lighter_layers()), flag("lighter_evenly", layout.lighter_evenly()),
         number("split_backward", layout.split_backward()), number("loss_chunks", layout.loss_chunks()),
         strings("scopes", section.scopes()), list("active", section.active(), symbol),
         list("unpadded", section.unpadded(), symbol));
    });
    each(plan->edges(), [&](uint32_t, const fb::Edge &edge) {
      op("edge", string("name", edge.name()), string("producer", sectionName(edge.producer())),
         number("producer_stage", edge.producer_stage()), string("consumer", sectionName(edge.consumer())),
         number("consumer_stage", edge.consumer_stage()), dtype("dtype", edge.dtype()), dims("shape", *edge.shape()),
         flag("carries_gradient", edge.carries_gradient()), flag("held_until_backward", edge.held_until_backward()),
         cost(edge.cost()));
    });
  }

  /// `cost = ["1500", "12*batch*seq"]`: picoseconds times symbols.
  std::string cost(const flatbuffers::Vector<flatbuffers::Offset<fb::CostTerm>> *terms) const {
    return list("cost", terms, [&](const fb::CostTerm *term) {
      std::string product = std::to_string(term->picoseconds());
      for (uint32_t symbol : *term->symbols())
        product += "*" + symbolName(symbol)->str();
      return quoted(product);
    });
  }

  void stations() {
    each(plan->ranks(), [&](uint32_t, const fb::Rank &rank) {
      op("rank", number("device", rank.device()), number("threads", rank.threads()),
         number("peak_bytes", rank.peak_bytes()));
    });
    each(plan->stations(), [&](uint32_t, const fb::Station &station) {
      op("station", number("executable", station.executable()), number("replica", station.replica()),
         numbers("ranks", station.ranks()));
    });
    each(plan->communicators(), [&](uint32_t, const fb::Communicator &communicator) {
      op("communicator", word("axis", fb::EnumNameMeshAxis(communicator.axis())),
         numbers("ranks", communicator.ranks()));
    });
    each(plan->spares(), [&](uint32_t, const fb::Spare &spare) { // Whole plans: maestro-dump --lost-nodes shows them.
      op("spare", number("nodes", fb::GetPlan(spare.plan()->data())->machine()->nodes()));
    });
    each(plan->gradient_sums(), [&](uint32_t, const fb::GradientSum &sum) {
      op("gradient_sum", numbers("parameters", sum.parameters()), numbers("stations", sum.stations()),
         numbers("degrees", sum.degrees()), number("staging_bytes", sum.staging_bytes()));
    });
  }

  void people() {
    if (const fb::Prediction *prediction = plan->prediction())
      op("prediction", number("step_seconds", prediction->step_seconds()),
         number("step_flops", prediction->step_flops()), number("tokens_per_second", prediction->tokens_per_second()));
    each(plan->step_samples(),
         [&](uint32_t, const fb::StepSamples &step) { op("step_samples", numbers("sizes", step.sizes())); });
    each(plan->decisions(), [&](uint32_t, const fb::Decision &decision) {
      op("decision", string("subject", decision.subject()), string("choice", decision.choice()),
         string("reason", decision.reason()), flag("is_default", decision.is_default()));
    });
    each(plan->candidates(), [&](uint32_t, const fb::Candidate &candidate) {
      op("candidate", word("kind", fb::EnumNameCandidateKind(candidate.kind())), string("subject", candidate.subject()),
         string("choice", candidate.choice()), number("step_seconds", candidate.step_seconds()),
         number("missing_bytes", candidate.missing_bytes()), flag("in_file_order", candidate.in_file_order()),
         string("reason", candidate.reason()));
    });
    each(plan->limits(), [&](uint32_t, const fb::Limit &limit) {
      op("limit", word("kind", fb::EnumNameLimitKind(limit.kind())), string("place", limit.place()),
         number("used", limit.used()), number("limit", limit.limit()), string("reason", limit.reason()));
    });
    each(plan->quantities(), [&](uint32_t, const fb::Quantity &quantity) {
      op("quantity", string("name", quantity.name()), number("value", quantity.value()),
         string("unit", quantity.unit()), string("source", quantity.source()));
    });
  }

  // ---- Executables -------------------------------------------------------------------------------------------------

  void executable(uint32_t index, const fb::Executable &executable) {
    open("executable");
    if (selection.hasExecutable(index))
      body(executable);
    close(number("index", index), string("name", executable.name()),
          string("section", sectionName(executable.section())), number("stage", executable.stage()),
          number("samples", executable.samples()), number("peak_bytes", executable.peak_bytes()));
  }

  void body(const fb::Executable &executable) {
    each(executable.bounds(), [&](uint32_t, const fb::Bound &bound) {
      op("bound", string("symbol", symbolName(bound.symbol())), number("value", bound.value()));
    });
    each(executable.areas(), [&](uint32_t, const fb::Area &area) {
      op("area", string("rows", symbolName(area.rows())), string("padded", symbolName(area.padded())),
         number("value", area.value()));
    });
    each(executable.regions(), [&](uint32_t, const fb::Region &region) {
      op("region", word("kind", fb::EnumNameRegionKind(region.kind())), number("bytes", region.bytes()),
         number("copies", region.copies()),
         string("edge", region.edge() == kNone ? nullptr : plan->edges()->Get(region.edge())->name()),
         flag("gradient", region.gradient()));
    });
    each(executable.buffers(), [&](uint32_t index, const fb::Buffer &buffer) {
      op("buffer", number("index", index), string("name", buffer.name()), dtype("dtype", buffer.dtype()),
         dims("shape", *buffer.shape()), number("region", buffer.region()), number("offset", buffer.offset()),
         number("bytes", buffer.bytes()), hex("constant", buffer.constant()));
    });
    each(executable.bindings(), [&](uint32_t, const fb::Binding &binding) {
      op("binding", number("buffer", binding.buffer()), word("kind", fb::EnumNameBindingKind(binding.kind())),
         number("index", binding.index()), string("target", bindingTarget(binding)),
         indexOrNone("split_dim", binding.split_dim()));
    });
    each(executable.programs(), [&](uint32_t, const fb::Program &own) { program(own); });
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
    case fb::BindingKind::Average:
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

  void program(const fb::Program &program) {
    open("program");
    each(program.calls(), [&](uint32_t, const fb::Call &own) { call(own); });
    close(word("kind", fb::EnumNameProgramKind(program.kind())),
          list("fields", program.fields(), [&](uint32_t field) { return quoted(plan->fields()->Get(field)->name()); }),
          word("flops", exprs.text(program.flops())), word("memory_bytes", exprs.text(program.memory_bytes())),
          cost(program.cost()));
  }

  /// A buffer that is not given is -1.
  void call(const fb::Call &call) {
    auto buffer = [](uint32_t own) { return own == kNone ? std::string("-1") : std::to_string(own); };
    bool isKernel = call.kind() == fb::CallKind::Kernel;
    op("call", string("kernel", plan->kernels()->Get(call.kernel())), list("inputs", call.inputs(), buffer),
       list("outputs", call.outputs(), buffer), attributes(call),
       string("scope", call.scope() == kNone ? nullptr : plan->scopes()->Get(call.scope())),
       isKernel ? std::string() : word("kind", fb::EnumNameCallKind(call.kind())),
       isKernel ? std::string() : word("axis", fb::EnumNameMeshAxis(call.axis())));
  }

  std::string attributes(const fb::Call &call) const {
    if (call.attributes() == kNone)
      return "";
    std::string result;
    for (const fb::Attribute *item : *plan->attribute_lists()->Get(call.attributes())->items())
      result += (result.empty() ? "" : ", ") + attribute(*item);
    return "attributes = {" + result + "}";
  }

  std::string attribute(const fb::Attribute &own) const {
    std::string name = quoted(own.name());
    if (own.text())
      return string(name, own.text());
    if (own.floats())
      return numbers(name, own.floats());
    if (own.exprs())
      return dims(name, *own.exprs());
    return own.ints() && own.ints()->size() > 0 ? numbers(name, own.ints()) : name + " = []";
  }

  // ---- Operations --------------------------------------------------------------------------------------------------

  std::string dims(std::string_view key, const flatbuffers::Vector<uint32_t> &shape) const {
    std::string result;
    for (uint32_t expr : shape)
      result += (result.empty() ? "" : ", ") + quoted(exprs.text(expr));
    return fmt::format("{} = [{}]", key, result);
  }

  /// An operation with these attributes; those that are empty text are left out.
  template <typename... Attributes> void op(std::string_view name, const Attributes &...attributes) {
    line(fmt::format("\"plan.{}\"() {} : () -> ()", name, dictionary(attributes...)));
  }

  /// An operation with a region, whose attributes come behind what is in it.
  void open(std::string_view name) {
    line(fmt::format("\"plan.{}\"() ({{", name));
    ++depth;
  }
  template <typename... Attributes> void close(const Attributes &...attributes) {
    --depth;
    line(fmt::format("}}) {} : () -> ()", dictionary(attributes...)));
  }

  void line(std::string_view content) {
    text.append(2 * depth, ' ').append(content);
    text += '\n';
  }

  const Plan &plan;
  const Selection &selection;
  DimTable exprs;
  std::string text;
  size_t depth = 0;
};

} // namespace

std::string printMlir(const Plan &plan, const Selection &selection) { return Mlir(plan, selection).take(); }

} // namespace maestro::plan
