// JSON: every field of every table, in the order of plan.fbs. Element types are given by name, 64-bit hashes as
// hexadecimal text, bytes in base64, "none" indices and absent optional values as null.
#include "plan/print/formats.h"
#include "plan/print/json_fields.h"

namespace maestro::plan {
namespace {

class Json : JsonFields {
public:
  std::string print(const fb::Plan &plan) {
    json.object([&] { write(plan); });
    return json.take();
  }

private:
  /// A vector of tables or structs, each through write().
  template <typename Vector> void list(const char *name, const Vector *values, bool flat = true) {
    json.key(name).array([&] {
      for (const auto *value : *values)
        json.object([&] { write(*value); }, flat);
    });
  }

  template <typename Vector> void optionalList(const char *name, const Vector *values) {
    if (values)
      list(name, values);
  }

  template <typename Table> void table(const char *name, const Table *value) {
    json.key(name);
    value ? json.object([&] { write(*value); }, true) : json.null();
  }

  void write(const fb::Spare &spare) {
    json.key("plan").object([&] { write(*fb::GetPlan(spare.plan()->data())); });
  }

  void write(const fb::Symbol &symbol) {
    text("name", symbol.name());
    name("combine", fb::EnumNameCombine(symbol.combine()));
    number("sample_max", symbol.sample_max());
    number("multiple_of", symbol.multiple_of());
    text("unpadded", symbol.unpadded());
  }

  void write(const fb::DimExpr &expr) {
    name("op", fb::EnumNameDimOp(expr.op()));
    number("a", expr.a());
    number("b", expr.b());
  }

  void write(const fb::Field &field) {
    text("name", field.name());
    dtype("dtype", field.dtype());
    indices("shape", *field.shape());
    number("pad", field.pad());
    number("index_limit", field.index_limit());
    number("ignore_index", field.ignore_index());
    flag("has_ignore_index", field.has_ignore_index());
    flag("optional", field.optional());
    text("synthetic", field.synthetic());
    flag("own_positions", field.own_positions());
    if (field.marks())
      list("marks", field.marks());
    else
      json.key("marks").null();
  }

  void write(const fb::Mark &mark) {
    number("value", mark.value());
    number("symbol", mark.symbol());
    number("per_row", mark.per_row());
  }

  void write(const fb::SourceFile &file) {
    text("path", file.path());
    number("size", file.size());
    number("modified_ns", file.modified_ns());
  }

  void write(const fb::Parameter &parameter) {
    number("component", parameter.component());
    text("name", parameter.name());
    texts("aliases", parameter.aliases());
    name("kind", fb::EnumNameParameterKind(parameter.kind()));
    numbers("shape", parameter.shape());
    dtype("dtype", parameter.dtype());
    flag("trainable", parameter.trainable());
    index("source_file", parameter.source_file());
    number("source_offset", parameter.source_offset());
    number("source_bytes", parameter.source_bytes());
    dtype("source_dtype", parameter.source_dtype());
    flag("source_transposed", parameter.source_transposed());
    bytes("inline_value", parameter.inline_value());
    name("initializer", fb::EnumNameInitializer(parameter.initializer()));
    number("initializer_scale", parameter.initializer_scale());
    number("weight_decay", parameter.weight_decay());
    number("group", parameter.group());
  }

  void write(const fb::Component &component) {
    text("name", component.name());
    flag("frozen", component.frozen());
    text("model_path", component.model_path());
    dtype("precision", component.precision());
    flag("saves_trained", component.saves_trained());
    texts("strip", component.strip());
  }

  void write(const fb::Region &region) {
    name("kind", fb::EnumNameRegionKind(region.kind()));
    number("bytes", region.bytes());
    number("copies", region.copies());
    if (region.kind() == fb::RegionKind::Channel) {
      index("edge", region.edge());
      flag("gradient", region.gradient());
    }
  }

  void write(const fb::Buffer &buffer) {
    text("name", buffer.name());
    dtype("dtype", buffer.dtype());
    indices("shape", *buffer.shape());
    number("region", buffer.region());
    number("offset", buffer.offset());
    number("bytes", buffer.bytes());
    bytes("constant", buffer.constant());
  }

  void write(const fb::Attribute &attribute) {
    text("name", attribute.name());
    numbers("ints", attribute.ints());
    numbers("floats", attribute.floats());
    text("text", attribute.text());
    numbers("exprs", attribute.exprs());
  }

  void write(const fb::AttributeList &attributes) { list("items", attributes.items()); }

  void write(const fb::Call &call) {
    number("kernel", call.kernel());
    indices("inputs", *call.inputs());
    indices("outputs", *call.outputs());
    index("attributes", call.attributes());
    index("scope", call.scope());
    name("kind", fb::EnumNameCallKind(call.kind()));
    name("axis", fb::EnumNameMeshAxis(call.axis()));
  }

  void write(const fb::Program &program) {
    name("kind", fb::EnumNameProgramKind(program.kind()));
    list("calls", program.calls());
    indices("fields", *program.fields());
    number("flops", program.flops());
    number("memory_bytes", program.memory_bytes());
    optionalList("cost", program.cost());
  }

  void write(const fb::CostTerm &term) {
    number("picoseconds", term.picoseconds());
    indices("symbols", *term.symbols());
  }

  void write(const fb::Binding &binding) {
    name("kind", fb::EnumNameBindingKind(binding.kind()));
    number("index", binding.index());
    number("buffer", binding.buffer());
    index("split_dim", binding.split_dim());
  }

  void write(const fb::Bound &bound) {
    number("symbol", bound.symbol());
    number("value", bound.value());
  }

  void write(const fb::Area &area) {
    number("rows", area.rows());
    number("padded", area.padded());
    number("value", area.value());
  }

  void write(const fb::Executable &executable) {
    text("name", executable.name());
    number("section", executable.section());
    number("stage", executable.stage());
    list("regions", executable.regions());
    list("buffers", executable.buffers());
    list("programs", executable.programs(), false);
    list("bindings", executable.bindings());
    list("bounds", executable.bounds());
    number("samples", executable.samples());
    number("peak_bytes", executable.peak_bytes());
    optionalList("areas", executable.areas());
  }

  void write(const fb::Layout &layout) {
    number("data_parallel", layout.data_parallel());
    number("stages", layout.stages());
    number("tensor_parallel", layout.tensor_parallel());
    number("context_parallel", layout.context_parallel());
    number("expert_parallel", layout.expert_parallel());
    number("zero_stage", layout.zero_stage());
    flag("recompute", layout.recompute());
    flag("full_recompute", layout.full_recompute());
    number("lighter_layers", layout.lighter_layers());
    flag("lighter_evenly", layout.lighter_evenly());
    number("split_backward", layout.split_backward());
    number("loss_chunks", layout.loss_chunks());
  }

  void write(const fb::Section &section) {
    text("name", section.name());
    indices("components", *section.components());
    flag("trains", section.trains());
    table("layout", section.layout());
    number("micro_batch_samples", section.micro_batch_samples());
    texts("scopes", section.scopes());
    if (section.active())
      indices("active", *section.active());
    if (section.unpadded())
      indices("unpadded", *section.unpadded());
    else
      json.key("unpadded").null();
  }

  void write(const fb::Edge &edge) {
    text("name", edge.name());
    number("producer", edge.producer());
    number("consumer", edge.consumer());
    dtype("dtype", edge.dtype());
    indices("shape", *edge.shape());
    flag("carries_gradient", edge.carries_gradient());
    number("producer_stage", edge.producer_stage());
    number("consumer_stage", edge.consumer_stage());
    flag("held_until_backward", edge.held_until_backward());
    optionalList("cost", edge.cost());
  }

  void write(const fb::Station &station) {
    number("executable", station.executable());
    number("replica", station.replica());
    indices("ranks", *station.ranks());
  }

  void write(const fb::Communicator &communicator) {
    name("axis", fb::EnumNameMeshAxis(communicator.axis()));
    indices("ranks", *communicator.ranks());
  }

  void write(const fb::GradientSum &sum) {
    indices("parameters", *sum.parameters());
    indices("stations", *sum.stations());
    sum.degrees() ? indices("degrees", *sum.degrees()) : json.key("degrees").null();
    number("staging_bytes", sum.staging_bytes());
  }

  void write(const fb::Rank &rank) {
    number("device", rank.device());
    number("threads", rank.threads());
    number("peak_bytes", rank.peak_bytes());
  }

  void write(const fb::Machine &machine) {
    text("name", machine.name());
    text("device_kind", machine.device_kind());
    number("devices", machine.devices());
    number("memory_bytes", machine.memory_bytes());
    optionalList("links", machine.links());
    optionalList("device_kinds", machine.device_kinds());
    number("nodes", machine.nodes());
  }

  void write(const fb::Link &link) {
    text("name", link.name());
    number("spans", link.spans());
    number("bandwidth", link.bandwidth());
    number("latency", link.latency());
  }

  void write(const fb::DeviceKind &kind) {
    text("name", kind.name());
    number("devices", kind.devices());
    number("memory_bytes", kind.memory_bytes());
  }

  void write(const fb::Loss &loss) {
    text("name", loss.name());
    number("weight", loss.weight());
    flag("from_graph", loss.from_graph());
    number("term_weight", loss.term_weight());
    number("count_floor", loss.count_floor());
    text("note", loss.note());
  }

  /// Of Training itself, or of one of its groups.
  template <typename Table> void optimizer(const Table &own) {
    name("optimizer", fb::EnumNameOptimizer(own.optimizer()));
    number("lr", own.lr());
    number("beta1", own.beta1());
    number("beta2", own.beta2());
    number("eps", own.eps());
    number("momentum", own.momentum());
    flag("nesterov", own.nesterov());
    number("iterations", own.iterations());
    flag("match_rms", own.match_rms());
    number("beta2_decay", own.beta2_decay());
    number("eps2", own.eps2());
    number("clip", own.clip());
  }

  void write(const fb::Training &training) {
    number("global_batch", training.global_batch());
    optimizer(training);
    number("clip_grad_norm", training.clip_grad_norm());
    name("decay", fb::EnumNameDecay(training.decay()));
    number("warmup_steps", training.warmup_steps());
    number("total_steps", training.total_steps());
    number("min_lr", training.min_lr());
    number("seed", training.seed());
    number("bad_steps", training.bad_steps());
    number("decay_steps", training.decay_steps());
    optionalList("groups", training.groups());
    number("ema_decay", training.ema_decay());
  }

  void write(const fb::ParameterGroup &group) { optimizer(group); }

  void write(const fb::Decision &decision) {
    text("subject", decision.subject());
    text("choice", decision.choice());
    text("reason", decision.reason());
    flag("is_default", decision.is_default());
  }

  void write(const fb::Prediction &prediction) {
    number("step_seconds", prediction.step_seconds());
    number("step_flops", prediction.step_flops());
    number("tokens_per_second", prediction.tokens_per_second());
  }

  void write(const fb::Candidate &candidate) {
    name("kind", fb::EnumNameCandidateKind(candidate.kind()));
    text("subject", candidate.subject());
    text("choice", candidate.choice());
    number("step_seconds", candidate.step_seconds());
    number("missing_bytes", candidate.missing_bytes());
    flag("in_file_order", candidate.in_file_order());
    text("reason", candidate.reason());
  }

  void write(const fb::Limit &limit) {
    name("kind", fb::EnumNameLimitKind(limit.kind()));
    text("place", limit.place());
    number("used", limit.used());
    number("limit", limit.limit());
    text("reason", limit.reason());
  }

  void write(const fb::Quantity &quantity) {
    text("name", quantity.name());
    number("value", quantity.value());
    text("unit", quantity.unit());
    text("source", quantity.source());
  }

  void write(const fb::StepSamples &step) { indices("sizes", *step.sizes()); }

  void write(const fb::Plan &plan) {
    number("version_major", plan.version_major());
    number("version_minor", plan.version_minor());
    text("producer", plan.producer());
    text("name", plan.name());
    hash("workload_hash", plan.workload_hash());
    list("symbols", plan.symbols());
    list("exprs", plan.exprs());
    list("fields", plan.fields());
    list("files", plan.files());
    list("components", plan.components());
    list("parameters", plan.parameters());
    texts("kernels", plan.kernels());
    texts("scopes", plan.scopes());
    list("attribute_lists", plan.attribute_lists());
    list("sections", plan.sections());
    list("edges", plan.edges());
    list("executables", plan.executables(), false);
    list("stations", plan.stations());
    list("ranks", plan.ranks());
    table("machine", plan.machine());
    list("losses", plan.losses());
    table("training", plan.training());
    table("prediction", plan.prediction());
    list("decisions", plan.decisions());
    text("no_synthetic", plan.no_synthetic());
    optionalList("gradient_sums", plan.gradient_sums());
    optionalList("candidates", plan.candidates());
    optionalList("limits", plan.limits());
    optionalList("quantities", plan.quantities());
    optionalList("step_samples", plan.step_samples());
    optionalList("communicators", plan.communicators());
    if (plan.spares())
      list("spares", plan.spares(), false);
  }
};

} // namespace

std::string printJson(const Plan &plan) { return Json().print(*plan); }

} // namespace maestro::plan
