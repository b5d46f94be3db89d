#include "test/plan/example.h"

#include "base/dtype.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace maestro::plan::test {
namespace {

template <typename T> T &add(std::vector<std::unique_ptr<T>> &list) {
  list.push_back(std::make_unique<T>());
  return *list.back();
}

uint8_t code(DType dtype) { return static_cast<uint8_t>(dtype); }

/// The symbols and shapes that the example's parts share.
struct Dims {
  explicit Dims(PlanBuilder &builder)
      : batch(builder.symbol("batch", fb::Combine::Sum, 4)), seq(builder.symbol("seq", fb::Combine::Max, 20, 8)),
        images(builder.symbol("images", fb::Combine::Sum, 2)), rows(builder.dim(fb::DimOp::Mul, batch, seq)),
        two(builder.constant(2)), width(builder.constant(8)), classes(builder.constant(16)),
        half(builder.dim(fb::DimOp::CeilDiv, seq, two)) {
    // One node of every operation. Statement by statement: the order of arguments differs between compilers.
    uint32_t floor = builder.dim(fb::DimOp::FloorDiv, seq, two);
    uint32_t sum = builder.dim(fb::DimOp::Add, floor, half);
    uint32_t rest = builder.dim(fb::DimOp::Mod, seq, width);
    uint32_t least = builder.dim(fb::DimOp::Min, rest, sum);
    uint32_t products = builder.dim(fb::DimOp::Mul, rows, builder.constant(256));
    flops = builder.dim(fb::DimOp::Max, products, least);
  }
  uint32_t batch, seq, images, rows, two, width, classes, half, flops;
};

/// Buffers, one after the other in each region.
class Arena {
public:
  Arena(fb::ExecutableT &executable, std::initializer_list<fb::RegionKind> kinds) : executable(executable) {
    for (fb::RegionKind kind : kinds)
      add(executable.regions).kind = kind;
  }

  uint32_t buffer(fb::RegionKind kind, std::string name, DType dtype, std::vector<uint32_t> shape, uint64_t bytes) {
    uint32_t region = 0;
    while (executable.regions[region]->kind != kind)
      ++region;
    fb::BufferT &buffer = add(executable.buffers);
    buffer.name = std::move(name);
    buffer.dtype = code(dtype);
    buffer.shape = std::move(shape);
    buffer.region = region;
    buffer.offset = executable.regions[region]->bytes;
    buffer.bytes = bytes;
    executable.regions[region]->bytes += (bytes + 63) / 64 * 64;
    return static_cast<uint32_t>(executable.buffers.size() - 1);
  }

  /// Another shape of the same bytes.
  uint32_t view(uint32_t of, DType dtype, std::vector<uint32_t> shape) {
    auto copy = std::make_unique<fb::BufferT>(*executable.buffers[of]);
    copy->name.clear();
    copy->dtype = code(dtype);
    copy->shape = std::move(shape);
    executable.buffers.push_back(std::move(copy));
    return static_cast<uint32_t>(executable.buffers.size() - 1);
  }

private:
  fb::ExecutableT &executable;
};

void addCall(PlanBuilder &builder, fb::ProgramT &program, std::string_view kernel, std::vector<uint32_t> inputs,
             std::vector<uint32_t> outputs, std::string_view scope = "", std::vector<fb::AttributeT> attributes = {}) {
  fb::CallT &call = add(program.calls);
  call.kernel = builder.kernel(kernel);
  call.inputs = std::move(inputs);
  call.outputs = std::move(outputs);
  call.scope = builder.scope(scope);
  call.attributes = builder.attributes(std::move(attributes));
}

fb::ProgramT &addProgram(fb::ExecutableT &executable, fb::ProgramKind kind, const Dims &dims,
                         std::vector<uint32_t> fields) {
  fb::ProgramT &program = add(executable.programs);
  program.kind = kind;
  program.fields = std::move(fields);
  program.flops = dims.flops;
  program.memory_bytes = dims.rows;
  fb::CostTermT &term = add(program.cost);
  term.picoseconds = 1500;
  term.symbols = {0, 1};
  return program;
}

void bind(fb::ExecutableT &executable, fb::BindingKind kind, uint32_t index, uint32_t buffer) {
  fb::BindingT &binding = add(executable.bindings);
  binding.kind = kind;
  binding.index = index;
  binding.buffer = buffer;
}

void setBounds(PlanBuilder &builder, fb::ExecutableT &executable) {
  for (auto [name, value] : {std::pair("batch", 4), {"seq", 24}, {"images", 8}}) {
    fb::BoundT &bound = add(executable.bounds);
    bound.symbol = builder.symbolIndex(name);
    bound.value = value;
  }
  executable.samples = 4;
  fb::AreaT &area = add(executable.areas);
  area.rows = builder.symbolIndex("batch");
  area.padded = builder.symbolIndex("seq");
  area.value = 72;
}

void addData(PlanBuilder &builder, const Dims &dims) {
  fb::FieldT &tokens = add(builder.plan().fields);
  tokens.name = "input_ids";
  tokens.dtype = code(DType::I64);
  tokens.shape = {dims.batch, dims.seq};
  tokens.index_limit = 16;
  tokens.synthetic = "seq=lognormal(12, 0.6)";
  fb::MarkT &mark = add(tokens.marks);
  mark.value = 3;
  mark.symbol = builder.symbolIndex("images");
  mark.per_row = 2;
  fb::FieldT &labels = add(builder.plan().fields);
  labels.name = "labels";
  labels.dtype = code(DType::I64);
  labels.shape = {dims.batch, dims.seq};
  labels.pad = -100;
  labels.index_limit = 16;
  labels.ignore_index = -100;
  labels.has_ignore_index = true;
  fb::FieldT &pixels = add(builder.plan().fields);
  pixels.name = "pixel_values";
  pixels.dtype = code(DType::F32);
  pixels.shape = {dims.images, builder.constant(3)};
  pixels.optional = true;
}

void addParameters(PlanBuilder &builder) {
  fb::SourceFileT &file = add(builder.plan().files);
  file.path = "../models/student.onnx.data";
  file.size = 8192;
  file.modified_ns = 1700000000000000000;

  fb::ParameterT &table = add(builder.plan().parameters);
  table.component = 1;
  table.name = "embed.weight";
  table.aliases = {"lm_head.weight"};
  table.shape = {16, 8};
  table.dtype = table.source_dtype = code(DType::F32);
  table.trainable = true;
  table.source_file = 0;
  table.source_offset = 4096;
  table.source_bytes = 512;
  table.source_transposed = true;
  table.weight_decay = 0.1;
  fb::ParameterT &bias = add(builder.plan().parameters);
  bias.component = 1;
  bias.name = "lm_head.bias";
  bias.shape = {16};
  bias.dtype = code(DType::F32);
  bias.source_dtype = code(DType::BF16);
  bias.trainable = true;
  bias.inline_value.assign(32, 0);
  bias.inline_value[1] = 0x3f;
  fb::ParameterT &positions = add(builder.plan().parameters);
  positions.component = 1;
  positions.name = "positions";
  positions.kind = fb::ParameterKind::NonPersistentBuffer;
  positions.shape = {};
  positions.dtype = positions.source_dtype = code(DType::I64);
  positions.initializer = fb::Initializer::Zeros;
  fb::ParameterT &frozen = add(builder.plan().parameters);
  frozen.component = 0;
  frozen.name = "embed.weight";
  frozen.shape = {16, 8};
  frozen.dtype = code(DType::F32);
  frozen.initializer = fb::Initializer::Normal;
  frozen.initializer_scale = 0.02;
}

void addTeacher(PlanBuilder &builder, const Dims &dims) {
  using R = fb::RegionKind;
  fb::ExecutableT &executable = add(builder.plan().executables);
  executable.name = "teacher";
  executable.section = 0;
  setBounds(builder, executable);
  Arena arena(executable, {R::Parameters, R::Slot});
  uint32_t weight = arena.buffer(R::Parameters, "embed.weight", DType::F32, {dims.classes, dims.width}, 512);
  uint32_t tokens = arena.buffer(R::Slot, "input_ids", DType::I64, {dims.batch, dims.seq}, 768);
  uint32_t hidden = arena.buffer(R::Slot, "hidden", DType::F32, {dims.batch, dims.seq, dims.width}, 3072);
  bind(executable, fb::BindingKind::Value, 3, weight);
  bind(executable, fb::BindingKind::Field, 0, tokens);
  bind(executable, fb::BindingKind::EdgeOutput, 0, hidden);
  for (fb::ProgramKind kind : {fb::ProgramKind::Forward, fb::ProgramKind::Evaluate})
    addCall(builder, addProgram(executable, kind, dims, {0}), "embedding", {weight, tokens}, {hidden}, "teacher.embed");
  executable.peak_bytes = 65536;
}

void addStudentPrograms(PlanBuilder &builder, const Dims &dims, fb::ExecutableT &executable, Arena &arena) {
  using R = fb::RegionKind;
  using B = fb::BindingKind;
  using P = fb::ProgramKind;
  uint32_t weight = arena.buffer(R::Parameters, "embed.weight", DType::F32, {dims.classes, dims.width}, 512);
  uint32_t bias = arena.buffer(R::Parameters, "lm_head.bias", DType::F32, {dims.classes}, 64);
  uint32_t positions = arena.buffer(R::Parameters, "positions", DType::I64, {}, 8);
  uint32_t narrow = arena.buffer(R::Parameters, "embed.weight (bf16)", DType::BF16, {dims.classes, dims.width}, 256);
  uint32_t weightGradient = arena.buffer(R::Gradients, "embed.weight", DType::F32, {dims.classes, dims.width}, 512);
  uint32_t biasGradient = arena.buffer(R::Gradients, "lm_head.bias", DType::F32, {dims.classes}, 64);
  uint32_t gradients = arena.view(weightGradient, DType::F32, {builder.constant(144)});
  executable.buffers[gradients]->bytes = 576;
  uint32_t moments[4];
  for (int i = 0; i < 4; ++i)
    moments[i] = i < 2 ? arena.buffer(R::OptimizerState, "", DType::F32, {dims.classes, dims.width}, 512)
                       : arena.buffer(R::OptimizerState, "", DType::F32, {dims.classes}, 64);
  uint32_t scale = arena.buffer(R::Constants, "scale", DType::F32, {dims.two}, 8);
  executable.buffers[scale]->constant = {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40};
  uint32_t lossScale = arena.buffer(R::Step, "", DType::F32, {}, 4);
  uint32_t hyper = arena.buffer(R::Step, "", DType::F32, {dims.width}, 32);
  uint32_t norm = arena.buffer(R::Step, "", DType::F64, {builder.constant(1)}, 8);
  uint32_t tokens = arena.buffer(R::Slot, "input_ids", DType::I64, {dims.batch, dims.seq}, 768);
  uint32_t labels = arena.buffer(R::Slot, "labels", DType::I64, {dims.batch, dims.seq}, 768);
  uint32_t random = arena.buffer(R::Slot, "", DType::I64, {dims.two}, 16);
  uint32_t ids = arena.buffer(R::Slot, "", DType::I64, {dims.batch}, 32);
  uint32_t lossSum = arena.buffer(R::Slot, "", DType::F32, {}, 4);
  uint32_t lossCount = arena.buffer(R::Slot, "", DType::F32, {}, 4);
  uint32_t hidden = arena.buffer(R::Slot, "hidden", DType::F32, {dims.batch, dims.seq, dims.width}, 3072);
  uint32_t flat = arena.view(hidden, DType::F32, {dims.rows, dims.width});
  uint32_t logits = arena.buffer(R::Slot, "logits", DType::F32, {dims.rows, dims.classes}, 6144);
  uint32_t scratch = arena.buffer(R::Workspace, "", DType::F32, {dims.rows, dims.classes}, 6144);
  uint32_t arriving = arena.buffer(R::Channel, "teacher.hidden", DType::F32, {dims.batch, dims.seq, dims.width}, 3072);
  uint32_t flatLabels = arena.view(labels, DType::I64, {dims.rows});

  bind(executable, B::Field, 0, tokens);
  bind(executable, B::Field, 1, labels);
  bind(executable, B::LossSum, 0, lossSum);
  bind(executable, B::LossCount, 0, lossCount);
  bind(executable, B::LossScale, 0, lossScale);
  bind(executable, B::HyperParameters, 0, hyper);
  bind(executable, B::NormSquares, 0, norm);
  bind(executable, B::RandomState, 0, random);
  bind(executable, B::SampleIds, 0, ids);
  bind(executable, B::Value, 0, weight);
  bind(executable, B::Value, 1, bias);
  bind(executable, B::Value, 2, positions);
  bind(executable, B::Gradient, 0, weightGradient);
  bind(executable, B::Gradient, 1, biasGradient);
  bind(executable, B::Moment1, 0, moments[0]);
  bind(executable, B::Moment2, 0, moments[1]);
  bind(executable, B::Moment1, 1, moments[2]);
  bind(executable, B::Moment2, 1, moments[3]);
  bind(executable, B::EdgeInput, 0, arriving);

  fb::AttributeT ignore = intsAttribute("ignore_index", {-100});
  addCall(builder, addProgram(executable, P::Prepare, dims, {}), "cast", {weight}, {narrow});
  addCall(builder, addProgram(executable, P::Count, dims, {1}), "count_not_equal", {flatLabels}, {lossCount}, "loss",
          {ignore});
  for (P kind : {P::Forward, P::Evaluate}) {
    fb::ProgramT &program = addProgram(executable, kind, dims, {0, 1});
    addCall(builder, program, "embedding", {narrow, tokens}, {hidden}, "student.embed");
    addCall(builder, program, "dropout", {hidden, random, ids, scale}, {hidden}, "student.drop",
            {floatsAttribute("p", {0.1}), textAttribute("mode", "train"),
             exprsAttribute("shape", {dims.batch, dims.half})});
    addCall(builder, program, "add", {hidden, arriving}, {hidden}, "student.join");
    addCall(builder, program, "matmul", {flat, weight, bias}, {logits}, "student.lm_head",
            {intsAttribute("transpose_b", {1})});
    addCall(builder, program, "softmax_cross_entropy", {logits, flatLabels, kNone}, {lossSum, kNone}, "loss", {ignore});
  }
  fb::ProgramT &backward = addProgram(executable, P::Backward, dims, {1});
  addCall(builder, backward, "add", {hidden, arriving}, {hidden}, "student.join"); // Recomputed: the edge is held.
  addCall(builder, backward, "softmax_cross_entropy_grad", {logits, flatLabels, lossScale}, {scratch}, "loss",
          {ignore});
  addCall(builder, backward, "matmul_grad_weight", {scratch, flat}, {weightGradient}, "student.lm_head",
          {intsAttribute("accumulate", {1})});
  addCall(builder, backward, "add_into", {bias}, {biasGradient}, "student.lm_head");
  addCall(builder, addProgram(executable, P::Norm, dims, {}), "sum_squares", {gradients}, {norm});
  fb::ProgramT &update = addProgram(executable, P::Update, dims, {});
  addCall(builder, update, "adamw", {weight, weightGradient, moments[0], moments[1], hyper},
          {weight, weightGradient, moments[0], moments[1]}, "embed.weight", {floatsAttribute("weight_decay", {0.1})});
  addCall(builder, update, "adamw", {bias, biasGradient, moments[2], moments[3], hyper},
          {bias, biasGradient, moments[2], moments[3]}, "lm_head.bias", {floatsAttribute("weight_decay", {0})});
  addCall(builder, update, "cast", {weight}, {narrow});
}

void addStudent(PlanBuilder &builder, const Dims &dims) {
  using R = fb::RegionKind;
  fb::ExecutableT &executable = add(builder.plan().executables);
  executable.name = "student";
  executable.section = kStudent;
  setBounds(builder, executable);
  Arena arena(executable, {R::Parameters, R::Gradients, R::OptimizerState, R::Constants, R::Step, R::Slot, R::Workspace,
                           R::Channel});
  executable.regions[7]->edge = 0;
  addStudentPrograms(builder, dims, executable, arena);
  executable.regions[5]->copies = executable.regions[7]->copies = 2;
  executable.peak_bytes = 131072;
}

void addSections(PlanBuilder &builder, const Dims &dims) {
  for (const char *name : {"teacher", "student"}) {
    fb::ComponentT &component = add(builder.plan().components);
    component.name = name;
    component.model_path = std::string(name) + ".onnx";
    fb::SectionT &section = add(builder.plan().sections);
    section.name = name;
    section.components = {static_cast<uint32_t>(builder.plan().sections.size() - 1)};
    section.layout = std::make_unique<fb::LayoutT>();
    section.micro_batch_samples = 4;
    section.scopes = {name};
    section.active = {builder.symbolIndex("batch")};
  }
  builder.plan().components[0]->frozen = true;
  builder.plan().components[0]->precision = code(DType::BF16);
  builder.plan().components[kStudent]->saves_trained = true;
  builder.plan().components[kStudent]->strip = {"module."};
  builder.plan().sections[kStudent]->trains = true;
  builder.plan().sections[kStudent]->layout->recompute = true;
  fb::EdgeT &edge = add(builder.plan().edges);
  edge.name = "teacher.hidden";
  edge.producer = 0;
  edge.consumer = kStudent;
  edge.dtype = code(DType::F32);
  edge.shape = {dims.batch, dims.seq, dims.width};
  edge.held_until_backward = true;
  fb::CostTermT &transfer = add(edge.cost);
  transfer.picoseconds = 2000;
  transfer.symbols = {0};
}

void addPlaces(PlanBuilder &builder) {
  fb::PlanT &plan = builder.plan();
  plan.machine->name = "two cores";
  plan.machine->device_kind = "cpu";
  plan.machine->devices = 2;
  plan.machine->memory_bytes = uint64_t{1} << 30;
  fb::LinkT &link = add(plan.machine->links);
  link.name = "bus";
  link.spans = 2;
  link.bandwidth = 1e10;
  link.latency = 1e-6;
  for (const char *name : {"fast core", "slow core"}) {
    fb::DeviceKindT &kind = add(plan.machine->device_kinds);
    kind.name = name;
    kind.devices = 1;
    kind.memory_bytes = uint64_t{1} << 30;
  }
  for (uint32_t i = 0; i < 2; ++i) {
    fb::RankT &rank = add(plan.ranks);
    rank.device = i;
    rank.threads = 1;
    rank.peak_bytes = (64 + i) << 20;
    fb::StationT &station = add(plan.stations);
    station.executable = i;
    station.ranks = {i};
  }
  fb::CommunicatorT &communicator = add(plan.communicators);
  communicator.axis = fb::MeshAxis::Expert; // Nothing runs in it.
  communicator.ranks = {0, 1};
}

void addTraining(PlanBuilder &builder) {
  fb::PlanT &plan = builder.plan();
  fb::LossT &loss = add(plan.losses);
  loss.count_floor = 1;
  loss.name = "cross_entropy";
  loss.weight = 0.5;
  loss.note = "over the labels that count";
  fb::TrainingT &training = *plan.training;
  training.global_batch = 8;
  training.optimizer = fb::Optimizer::AdamW;
  training.lr = 3e-4;
  training.beta1 = 0.9;
  training.beta2 = 0.95;
  training.eps = 1e-8;
  training.clip_grad_norm = 1;
  training.decay = fb::Decay::Cosine;
  training.warmup_steps = 10;
  training.total_steps = 100;
  training.min_lr = 3e-5;
  training.seed = 7;
  training.bad_steps = 5;
  fb::ParameterGroupT &group = add(training.groups);
  group.optimizer = fb::Optimizer::Sgd;
  group.lr = 1e-2;
  group.momentum = 0.9;
  group.nesterov = true;
  plan.prediction = std::make_unique<fb::PredictionT>();
  plan.prediction->step_seconds = 0.25;
  plan.prediction->step_flops = 1e9;
  plan.prediction->tokens_per_second = 4000;
  add(plan.step_samples).sizes = {1, 12, 1, 1, 7, 0};
  fb::DecisionT &given = add(plan.decisions);
  given.subject = "student.micro_batch";
  given.choice = "4 samples";
  given.reason = "pinned with --pin student.micro_batch=4";
  fb::DecisionT &taken = add(plan.decisions);
  taken.subject = "train.optimizer";
  taken.choice = "adamw";
  taken.reason = "the workload names none";
  taken.is_default = true;
}

/// Of each kind of candidate, limit and quantity.
void addExplanation(PlanBuilder &builder) {
  fb::PlanT &plan = builder.plan();
  auto candidate = [&](fb::CandidateKind kind, const char *subject, const char *choice, double seconds,
                       const char *reason) -> fb::CandidateT & {
    fb::CandidateT &row = add(plan.candidates);
    row.kind = kind;
    row.subject = subject;
    row.choice = choice;
    row.step_seconds = seconds;
    row.reason = reason;
    return row;
  };
  using K = fb::CandidateKind;
  candidate(K::Layout, "search", "teacher on 0, student on 1", 0.25, "no layout is faster");
  candidate(K::Layout, "static split", "teacher on 0, student on 1", 0.3, "device 1 waits 50 ms longer").in_file_order =
      true;
  candidate(K::Layout, "all data parallel", "none", 0, "device 0 lacks memory").missing_bytes = 3 << 20;
  candidate(K::Alternative, "student.micro_batch", "2 samples, 72 padded tokens", 0.28, "device 1 works 30 ms longer");
  candidate(K::WhatIf, "devices", "one more", 0.2, "for a second replica of student");
  auto limit = [&](fb::LimitKind kind, const char *place, double used, double most, const char *reason) {
    fb::LimitT &row = add(plan.limits);
    row.kind = kind;
    row.place = place;
    row.used = used;
    row.limit = most;
    row.reason = reason;
  };
  limit(fb::LimitKind::Time, "device 1", 0.24, 0.25, "student: 0.24 s");
  limit(fb::LimitKind::Memory, "device 1", 65 << 20, 1 << 30, "student: 65 MiB");
  auto quantity = [&](const char *name, double value, const char *unit, const char *source) {
    fb::QuantityT &row = add(plan.quantities);
    row.name = name;
    row.value = value;
    row.unit = unit;
    row.source = source;
  };
  quantity("device.flops_per_second", 1e11, "FLOP/s", "measured: device.yaml");
  quantity("student.busy_seconds", 0.24, "s", "simulated");
}

/// A third one, like the second.
void addDevice(fb::PlanT &plan) {
  plan.machine->devices = 3;
  plan.machine->links.back()->spans = 3;
  plan.machine->device_kinds.back()->devices = 2;
}

} // namespace

PlanBuilder exampleBuilder() {
  PlanBuilder builder;
  Dims dims(builder);
  builder.plan().producer = "maestro-plan 0.1.0";
  builder.plan().name = "example";
  builder.plan().workload_hash = 0x0123456789abcdef;
  addData(builder, dims);
  addParameters(builder);
  addSections(builder, dims);
  addTeacher(builder, dims);
  addStudent(builder, dims);
  addPlaces(builder);
  addTraining(builder);
  addExplanation(builder);
  return builder;
}

void addReplica(PlanBuilder &builder) {
  fb::PlanT &plan = builder.plan();
  addDevice(plan);
  plan.sections[kStudent]->layout->data_parallel = 2;
  add(plan.ranks).device = 2;
  fb::StationT &station = add(plan.stations);
  station.executable = kStudent;
  station.replica = 1;
  station.ranks = {2};
  fb::GradientSumT &sum = add(plan.gradient_sums);
  sum.parameters = {0, 1};
  sum.stations = {1, 2};
  sum.degrees = {2};
}

void addSpare(PlanBuilder &builder) {
  fb::PlanT &plan = builder.plan();
  plan.machine->nodes = 1;
  std::vector<uint8_t> bytes = packUnverified(plan);
  plan.machine->nodes = 2;
  add(plan.spares).plan = std::move(bytes);
}

void shareStudent(PlanBuilder &builder) {
  fb::PlanT &plan = builder.plan();
  addDevice(plan);
  plan.sections[kStudent]->layout->tensor_parallel = 2;
  add(plan.ranks).device = 2;
  plan.stations[kStudent]->ranks = {1, 2};
  fb::CommunicatorT &communicator = add(plan.communicators);
  communicator.axis = fb::MeshAxis::Tensor;
  communicator.ranks = {1, 2};
}

void splitStudent(PlanBuilder &builder) {
  fb::PlanT &plan = builder.plan();
  plan.sections[kStudent]->layout->split_backward = 1;
  fb::ExecutableT &executable = *plan.executables[kStudent];
  auto isBackward = [](const auto &program) { return program->kind == fb::ProgramKind::Backward; };
  fb::ProgramT &backward = **std::find_if(executable.programs.begin(), executable.programs.end(), isBackward);
  auto program = std::make_unique<fb::ProgramT>(backward);
  program->kind = fb::ProgramKind::WeightGradient;
  program->fields.clear();
  program->calls.erase(program->calls.begin(), program->calls.begin() + 2);
  fb::BufferT &scratch = *executable.buffers[program->calls.front()->inputs.front()]; // Kept until then.
  scratch.region = 5;
  scratch.offset = executable.regions[5]->bytes;
  executable.regions[5]->bytes += scratch.bytes;
  backward.calls.resize(2);
  executable.programs.push_back(std::move(program));
}

std::vector<uint8_t> packUnverified(const fb::PlanT &plan) {
  flatbuffers::FlatBufferBuilder buffer;
  fb::FinishPlanBuffer(buffer, fb::Plan::Pack(buffer, &plan));
  return {buffer.GetBufferPointer(), buffer.GetBufferPointer() + buffer.GetSize()};
}

std::vector<uint8_t> exampleBytes() {
  auto bytes = exampleBuilder().finish();
  if (!bytes) {
    std::fprintf(stderr, "the example plan: %s\n", std::string(bytes.status().message()).c_str());
    std::abort();
  }
  return *bytes;
}

} // namespace maestro::plan::test
