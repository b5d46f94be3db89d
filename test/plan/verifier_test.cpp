// Every rule of the verifier, broken once in a plan that is right otherwise, and the message it gives.
#include "base/dtype.h"
#include "plan/collectives.h"
#include "test/plan/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace maestro::plan {
namespace {

/// The student's buffers, as the example makes them.
enum Buffer : uint32_t {
  Weight,
  Bias,
  Positions,
  Narrow,
  WeightGradient,
  BiasGradient,
  Gradients,
  Moment,
  SecondMoment,
  BiasMoment,
  BiasSecondMoment,
  Scale,
  LossScale,
  Hyper,
  Norm,
  Tokens,
  Labels,
  Random,
  Ids,
  LossSum,
  LossCount,
  Hidden,
  Flat,
  Logits,
  Scratch,
  Arriving,
  FlatLabels
};

/// The example's tables, and short names for their parts.
struct Mutable {
  PlanBuilder builder = test::exampleBuilder();
  fb::PlanT &plan = builder.plan();
  fb::ExecutableT &student = *plan.executables[test::kStudent];
  fb::TrainingT &training = *plan.training;

  fb::BufferT &buffer(Buffer index) { return *student.buffers[index]; }
  fb::RegionT &region(fb::RegionKind kind) {
    for (auto &region : student.regions)
      if (region->kind == kind)
        return *region;
    std::abort();
  }
  fb::ProgramT &program(fb::ProgramKind kind) {
    for (auto &program : student.programs)
      if (program->kind == kind)
        return *program;
    std::abort();
  }
  fb::BindingT &binding(fb::BindingKind kind, uint32_t index = 0) {
    for (auto &binding : student.bindings)
      if (binding->kind == kind && binding->index == index)
        return *binding;
    std::abort();
  }
  void dropBinding(fb::BindingKind kind, uint32_t index = 0) {
    std::erase_if(student.bindings, [&](auto &binding) { return binding->kind == kind && binding->index == index; });
  }
  fb::ParameterGroupT &addGroup() {
    fb::ParameterGroupT &group = *training.groups.emplace_back(std::make_unique<fb::ParameterGroupT>());
    group.lr = 1, group.eps = 1e-8;
    return group;
  }
  void dropProgram(fb::ProgramKind kind) {
    std::erase_if(student.programs, [&](auto &program) { return program->kind == kind; });
  }
  template <typename T> static void repeat(std::vector<std::unique_ptr<T>> &list, size_t index) {
    list.push_back(std::make_unique<T>(*list[index]));
  }
};

using CallKind = fb::CallKind;
using Kind = fb::BindingKind;
using Prog = fb::ProgramKind;
using Reg = fb::RegionKind;

/// A last call, of the hidden states onto themselves, at a student of two ranks.
void addCollective(Mutable &m, Prog program, const char *kernel, std::vector<fb::AttributeT> attributes = {}) {
  test::shareStudent(m.builder);
  m.program(program).calls.push_back(std::make_unique<fb::CallT>());
  fb::CallT &call = *m.program(program).calls.back();
  call.kernel = m.builder.kernel(kernel);
  call.kind = plan::kindNamed(kernel);
  call.attributes = m.builder.attributes(std::move(attributes));
  call.inputs = call.outputs = {Hidden};
}

struct Rule {
  const char *name;
  void (*breakIt)(Mutable &m);
  const char *message;
};

const Rule kRules[] = {
    // Names and prose.
    {"emptyName", [](Mutable &m) { m.plan.name = ""; }, "plan.name: the name has 0 bytes, and must have 1 to 4096"},
    {"longName", [](Mutable &m) { m.plan.name = std::string(5000, 'x'); }, "plan.name: the name has 5000 bytes"},
    {"notUtf8", [](Mutable &m) { m.plan.producer = "a\xc3"; }, "plan.producer: the byte at 1 is not UTF-8"},
    {"surrogate", [](Mutable &m) { m.plan.producer = "\xed\xa0\x80"; }, "plan.producer: the byte at 0 is not UTF-8"},
    {"overlong", [](Mutable &m) { m.plan.producer = "\xe0\x80\x80"; }, "plan.producer: the byte at 0 is not UTF-8"},
    {"control", [](Mutable &m) { m.plan.kernels[0] = "a\x1b["; }, "plan.kernels[0]: the byte at 1 is a control character"},
    {"scope", [](Mutable &m) { m.plan.scopes[1] = ""; }, "plan.scopes[1]: the name has 0 bytes"},
    {"longReason", [](Mutable &m) { m.plan.decisions[1]->reason = std::string(70000, 'x'); },
     "plan.decisions[1].reason: the text has 70000 bytes, more than 65536"},
    {"choice", [](Mutable &m) { m.plan.decisions[0]->choice = "\r"; }, "plan.decisions[0].choice: the byte at 0 is a control"},
    {"subject", [](Mutable &m) { m.plan.decisions[0]->subject = ""; }, "plan.decisions[0].subject: the name has 0"},
    {"prediction", [](Mutable &m) { m.plan.prediction->step_seconds = NAN; }, "plan.prediction.step_seconds: nan is not"},
    {"predictedFlops", [](Mutable &m) { m.plan.prediction->step_flops = -1; }, "plan.prediction.step_flops: -1 is not"},
    {"stepOfPart", [](Mutable &m) { m.plan.step_samples[0]->sizes.pop_back(); },
     "plan.step_samples[0].sizes: 5 numbers are not those of one or more samples, 3 each"},
    {"stepOfNone", [](Mutable &m) { m.plan.step_samples[0]->sizes.clear(); }, "plan.step_samples[0].sizes: 0 numbers are not"},
    {"stepTooLong", [](Mutable &m) { m.plan.step_samples[0]->sizes[4] = 99; },
     "plan.step_samples[0].sizes[4]: 99 is above the sample_max of symbols[1]"},
    {"predictedTokens", [](Mutable &m) { m.plan.prediction->tokens_per_second = INFINITY; },
     "plan.prediction.tokens_per_second: inf is not a finite number of at least 0"},
    {"candidateKind", [](Mutable &m) { m.plan.candidates[0]->kind = static_cast<fb::CandidateKind>(3); },
     "plan.candidates[0].kind: 3 is not a known value; the last is 2"},
    {"candidateSubject", [](Mutable &m) { m.plan.candidates[1]->subject = ""; }, "plan.candidates[1].subject: the name has 0"},
    {"candidateSeconds", [](Mutable &m) { m.plan.candidates[1]->step_seconds = -1; }, "plan.candidates[1].step_seconds: -1 is not"},
    {"candidateChoice", [](Mutable &m) { m.plan.candidates[1]->choice = "\r"; }, "plan.candidates[1].choice: the byte at 0 is a control"},
    {"candidateReason", [](Mutable &m) { m.plan.candidates[2]->reason = std::string(70000, 'x'); },
     "plan.candidates[2].reason: the text has 70000 bytes, more than 65536"},
    {"candidatesTooMany", [](Mutable &m) {
       while (m.plan.candidates.size() <= 4096)
         Mutable::repeat(m.plan.candidates, 0);
     }, "plan.candidates: 4097 is not in [0, 4096]"},
    {"limitKind", [](Mutable &m) { m.plan.limits[0]->kind = static_cast<fb::LimitKind>(2); },
     "plan.limits[0].kind: 2 is not a known value; the last is 1"},
    {"limitPlace", [](Mutable &m) { m.plan.limits[0]->place = ""; }, "plan.limits[0].place: the name has 0"},
    {"limitUsed", [](Mutable &m) { m.plan.limits[0]->used = NAN; }, "plan.limits[0].used: nan is not"},
    {"limitLimit", [](Mutable &m) { m.plan.limits[1]->limit = -2; }, "plan.limits[1].limit: -2 is not"},
    {"limitReason", [](Mutable &m) { m.plan.limits[1]->reason = "\x01"; }, "plan.limits[1].reason: the byte at 0 is a control"},
    {"limitsTooMany", [](Mutable &m) {
       while (m.plan.limits.size() <= 4096)
         Mutable::repeat(m.plan.limits, 0);
     }, "plan.limits: 4097 is not in [0, 4096]"},
    {"quantityName", [](Mutable &m) { m.plan.quantities[0]->name = ""; }, "plan.quantities[0].name: the name has 0"},
    {"quantityTwice", [](Mutable &m) { Mutable::repeat(m.plan.quantities, 0); },
     "plan.quantities[2].name: 'device.flops_per_second' is the name of an earlier one"},
    {"quantityValue", [](Mutable &m) { m.plan.quantities[0]->value = INFINITY; }, "plan.quantities[0].value: inf is not"},
    {"quantityUnit", [](Mutable &m) { m.plan.quantities[0]->unit = "\x02"; }, "plan.quantities[0].unit: the byte at 0 is a control"},
    {"quantitySource", [](Mutable &m) { m.plan.quantities[1]->source = "\xff"; }, "plan.quantities[1].source: the byte at 0 is not UTF-8"},
    {"quantitiesTooMany", [](Mutable &m) {
       while (m.plan.quantities.size() <= 4096)
         Mutable::repeat(m.plan.quantities, 0);
     }, "plan.quantities: 4097 is not in [0, 4096]"},
    {"machineName", [](Mutable &m) { m.plan.machine->name = ""; }, "plan.machine.name: the name has 0"},
    {"deviceKind", [](Mutable &m) { m.plan.machine->device_kind = ""; }, "plan.machine.device_kind: the name has 0"},
    {"linkName", [](Mutable &m) { m.plan.machine->links[0]->name = ""; }, "plan.machine.links[0].name: the name has 0"},
    {"linkSpansFewer", [](Mutable &m) { m.plan.machine->links[0]->spans = 1; }, "plan.machine.links[0].spans: 1 is not in [2, 2]"},
    {"linkSpansNone", [](Mutable &m) { Mutable::repeat(m.plan.machine->links, 0), m.plan.machine->links[0]->spans = 0; },
     "plan.machine.links[0].spans: 0 is not in [1, 2]"},
    {"linkSpansDoNotDivide", [](Mutable &m) { Mutable::repeat(m.plan.machine->links, 0), m.plan.machine->devices = 3, m.plan.machine->links[1]->spans = 3; },
     "plan.machine.links[1].spans: 3 is no multiple of 2"},
    {"linkBandwidth", [](Mutable &m) { m.plan.machine->links[0]->bandwidth = -1; }, "plan.machine.links[0].bandwidth: -1 is not"},
    {"linkLatency", [](Mutable &m) { m.plan.machine->links[0]->latency = NAN; }, "plan.machine.links[0].latency: nan is not"},
    {"deviceKindName", [](Mutable &m) { m.plan.machine->device_kinds[1]->name = ""; }, "plan.machine.device_kinds[1].name: the name has 0"},
    {"deviceKindsTooFew", [](Mutable &m) { m.plan.machine->device_kinds.pop_back(); }, "plan.machine.device_kinds[0].devices: 1 is not in [2, 2]"},
    {"deviceKindEmpty", [](Mutable &m) { m.plan.machine->device_kinds[0]->devices = 0; }, "plan.machine.device_kinds[0].devices: 0 is not in [1, 2]"},
    {"noDevices", [](Mutable &m) { m.plan.machine->devices = 0; }, "plan.machine.devices: 0 is not in [1,"},

    // Symbols, expressions, attributes.
    {"symbolTwice", [](Mutable &m) { m.plan.symbols[2]->name = "seq"; }, "plan.symbols[2].name: 'seq' is the name of an earlier"},
    {"combine", [](Mutable &m) { m.plan.symbols[0]->combine = static_cast<fb::Combine>(2); },
     "plan.symbols[0].combine: 2 is not a known value; the last is 1"},
    {"sampleMax", [](Mutable &m) { m.plan.symbols[0]->sample_max = 0; }, "plan.symbols[0].sample_max: 0 is not in [1, 2147483647]"},
    {"multipleOf", [](Mutable &m) { m.plan.symbols[1]->multiple_of = -8; }, "plan.symbols[1].multiple_of: -8 is not in [1,"},
    {"unpaddedSum", [](Mutable &m) { m.plan.symbols[0]->unpadded = "x"; }, "plan.symbols[0].unpadded: a symbol that sums"},
    {"unpaddedMultiple", [](Mutable &m) { m.plan.symbols[1]->unpadded = "x"; },
     "plan.symbols[1].unpadded: a symbol that sums, or is rounded up to a multiple of 8, cannot be unpadded"},
    {"unpaddedText", [](Mutable &m) { m.plan.symbols[1]->unpadded = "\x7f"; }, "plan.symbols[1].unpadded: the byte at 0"},
    {"exprOp", [](Mutable &m) { m.plan.exprs[0] = fb::DimExpr(static_cast<fb::DimOp>(9), 0, 0); },
     "plan.exprs[0].op: 9 is not a known value; the last is 8"},
    {"exprSymbol", [](Mutable &m) { m.plan.exprs[0] = fb::DimExpr(fb::DimOp::Symbol, 3, 0); },
     "plan.exprs[0].a: 3 is not below the number of symbols, 3"},
    {"exprOwnOperand", [](Mutable &m) { m.plan.exprs[3] = fb::DimExpr(fb::DimOp::Mul, 3, 0); },
     "plan.exprs[3].a: 3 is not below the number of earlier expressions, 3"},
    {"exprLaterOperand", [](Mutable &m) { m.plan.exprs[3] = fb::DimExpr(fb::DimOp::Mul, 0, 7); }, "plan.exprs[3].b: 7 is not below"},
    {"exprNegativeOperand", [](Mutable &m) { m.plan.exprs[3] = fb::DimExpr(fb::DimOp::Mul, -1, 0); }, "plan.exprs[3].a: "},
    {"attributeName", [](Mutable &m) { m.plan.attribute_lists[0]->items[0]->name = ""; }, "plan.attribute_lists[0].items[0].name: "},
    {"attributeTwoValues", [](Mutable &m) { m.plan.attribute_lists[0]->items[0]->text = "x"; },
     "plan.attribute_lists[0].items[0]: 2 of ints, floats, text and exprs are present"},
    {"attributeTwice", [](Mutable &m) { Mutable::repeat(m.plan.attribute_lists[1]->items, 0); },
     "plan.attribute_lists[1].items[3].name: 'p' is the name of an earlier one"},
    {"attributeExpr", [](Mutable &m) { m.plan.attribute_lists[1]->items[2]->exprs[1] = 99; },
     "plan.attribute_lists[1].items[2].exprs[1]: 99 is not below the number of expressions, "},

    // Fields.
    {"fieldTwice", [](Mutable &m) { m.plan.fields[1]->name = "input_ids"; }, "plan.fields[1].name: 'input_ids' is the name"},
    {"fieldDType", [](Mutable &m) { m.plan.fields[0]->dtype = 10; }, "plan.fields[0].dtype: 10 is not a known element type; the last is 9"},
    {"fieldRank", [](Mutable &m) { m.plan.fields[0]->shape.assign(9, 0); }, "plan.fields[0].shape: 9 dims are not in [1, 8]"},
    {"fieldScalar", [](Mutable &m) { m.plan.fields[0]->shape.clear(); }, "plan.fields[0].shape: 0 dims are not in [1, 8]"},
    {"fieldShapeIndex", [](Mutable &m) { m.plan.fields[0]->shape[1] = 77; }, "plan.fields[0].shape[1]: 77 is not below"},
    {"fieldShapeProduct", [](Mutable &m) { m.plan.fields[0]->shape[1] = 3; }, "plan.fields[0].shape[1]: exprs[3] is neither a constant nor"},
    {"fieldShapeConstant", [](Mutable &m) { m.plan.fields[0]->shape[1] = m.builder.constant(-1); }, "plan.fields[0].shape[1]: -1 is not in [0,"},
    {"fieldRows", [](Mutable &m) { m.plan.fields[0]->shape[0] = 1; }, "plan.fields[0].shape: no dim sums over the samples"},
    {"fieldElements", [](Mutable &m) { for (int i = 0; i < 2; ++i) m.plan.fields[2]->shape.push_back(m.builder.constant(int64_t{1} << 31)); },
     "plan.fields[2].shape[3]: a sample of the largest sizes has more than 1099511627776 elements"},
    {"fieldPad", [](Mutable &m) { m.plan.fields[0]->pad = NAN; }, "plan.fields[0].pad: nan is not"},
    {"fieldIndexLimit", [](Mutable &m) { m.plan.fields[2]->index_limit = 5; }, "plan.fields[2].index_limit: 5 needs to be"},
    {"fieldOwnPositionsLimit", [](Mutable &m) { m.plan.fields[0]->own_positions = true; }, "plan.fields[0].own_positions: such a field holds 1 and 0"},
    {"fieldOwnPositionsSymbol", [](Mutable &m) { m.plan.fields[2]->own_positions = true; m.plan.fields[2]->optional = false; }, "plan.fields[2].shape[0]: no field of the data has this symbol"},
    {"manyMarks", [](Mutable &m) { while (m.plan.fields[0]->marks.size() < 65) m.plan.fields[0]->marks.push_back(std::make_unique<fb::MarkT>(*m.plan.fields[0]->marks[0])); }, "plan.fields[0].marks: 65 are more than 64"},
    {"markSymbol", [](Mutable &m) { m.plan.fields[0]->marks[0]->symbol = 77; }, "plan.fields[0].marks[0].symbol: 77"},
    {"markOfLengths", [](Mutable &m) { m.plan.fields[0]->marks[0]->symbol = 1; }, "plan.fields[0].marks[0].symbol: symbols[1] does not sum"},
    {"markPerRow", [](Mutable &m) { m.plan.fields[0]->marks[0]->per_row = 0; }, "plan.fields[0].marks[0].per_row: 0 is not in [1,"},
    {"markOfFloats", [](Mutable &m) { m.plan.fields[2]->marks.push_back(std::move(m.plan.fields[0]->marks[0])), m.plan.fields[0]->marks.clear(); }, "plan.fields[2].marks[0]: elements of f32 have no marks"},
    {"noSynthetic", [](Mutable &m) { m.plan.no_synthetic = "\x7f"; }, "plan.no_synthetic: the byte at 0"},
    {"fieldSynthetic", [](Mutable &m) { m.plan.fields[0]->synthetic = "\x7f"; }, "plan.fields[0].synthetic: the byte at 0"},

    // Files, components, parameters.
    {"fileAbsolute", [](Mutable &m) { m.plan.files[0]->path = "/etc/passwd"; }, "plan.files[0].path: '/etc/passwd' is absolute"},
    {"fileClimbs", [](Mutable &m) { m.plan.files[0]->path = "models/../../x"; }, "plan.files[0].path: 'models/../../x' has an empty part, a '.', or a '..' that"},
    {"fileHere", [](Mutable &m) { m.plan.files[0]->path = "./x"; }, "plan.files[0].path: './x' has an empty part"},
    {"fileDoubleSlash", [](Mutable &m) { m.plan.files[0]->path = "a//b"; }, "plan.files[0].path: 'a//b' has an empty part"},
    {"fileFolder", [](Mutable &m) { m.plan.files[0]->path = "../.."; }, "plan.files[0].path: '../..' has an empty part"},
    {"fileEmpty", [](Mutable &m) { m.plan.files[0]->path = ""; }, "plan.files[0].path: the name has 0"},
    {"componentTwice", [](Mutable &m) { m.plan.components[1]->name = "teacher"; }, "plan.components[1].name: 'teacher' is the name"},
    {"componentPath", [](Mutable &m) { m.plan.components[1]->name = "../x"; }, "plan.components[1].name: '../x' cannot name a file"},
    {"componentDots", [](Mutable &m) { m.plan.components[1]->name = ".."; }, "plan.components[1].name: '..' cannot name a file"},
    {"componentIsTheOptimizersFile", [](Mutable &m) { m.plan.components[1]->name = "optimizer"; }, "plan.components[1].name: 'optimizer' is the name of the optimizer's file"},
    {"componentPrecision", [](Mutable &m) { m.plan.components[1]->precision = 3; }, "plan.components[1].precision: 3 is neither 0 (f32) nor 2 (bf16)"},
    {"prefixes", [](Mutable &m) { m.plan.components[1]->strip.resize(17, "x."); }, "plan.components[1].strip: 17 prefixes exceed the limit of 16"},
    {"emptyPrefix", [](Mutable &m) { m.plan.components[1]->strip = {""}; }, "plan.components[1].strip[0]: "},
    {"modelPath", [](Mutable &m) { m.plan.components[0]->model_path = "\x01"; }, "plan.components[0].model_path: "},
    {"parameterComponent", [](Mutable &m) { m.plan.parameters[0]->component = 2; }, "plan.parameters[0].component: 2 is not below the number of components, 2"},
    {"parameterTwice", [](Mutable &m) { m.plan.parameters[2]->name = "lm_head.bias"; }, "plan.parameters[2].name: 'lm_head.bias' is the name"},
    {"aliasTwice", [](Mutable &m) { m.plan.parameters[0]->aliases[0] = "embed.weight"; }, "plan.parameters[0].aliases[0]: 'embed.weight' is the name"},
    {"aliasEmpty", [](Mutable &m) { m.plan.parameters[0]->aliases[0] = ""; }, "plan.parameters[0].aliases[0]: the name has 0"},
    {"parameterKind", [](Mutable &m) { m.plan.parameters[0]->kind = static_cast<fb::ParameterKind>(3); }, "plan.parameters[0].kind: 3 is not a known value"},
    {"parameterDType", [](Mutable &m) { m.plan.parameters[0]->dtype = 200; }, "plan.parameters[0].dtype: 200 is not"},
    {"parameterRank", [](Mutable &m) { m.plan.parameters[0]->shape.assign(9, 1); }, "plan.parameters[0].shape: 9 dims are more than 8"},
    {"parameterNegative", [](Mutable &m) { m.plan.parameters[0]->shape[0] = -16; }, "plan.parameters[0].shape: dim -16 is negative"},
    {"parameterHuge", [](Mutable &m) { m.plan.parameters[0]->shape = {INT64_MAX, 16}; }, "plan.parameters[0].shape: dim 9223372036854775807 is negative, or makes more"},
    {"trainableInteger", [](Mutable &m) { m.plan.parameters[2]->trainable = true; }, "plan.parameters[2].trainable: elements of type i64 cannot be trained"},
    {"trainableBuffer", [](Mutable &m) { m.plan.parameters[1]->kind = fb::ParameterKind::Buffer; }, "plan.parameters[1].trainable: a buffer cannot be trained"},
    {"trainableFrozen", [](Mutable &m) { m.plan.parameters[3]->trainable = true; }, "plan.parameters[3].trainable: components[0] is frozen"},
    {"sourceDType", [](Mutable &m) { m.plan.parameters[0]->source_dtype = 11; }, "plan.parameters[0].source_dtype: 11 is not"},
    {"sourceFile", [](Mutable &m) { m.plan.parameters[0]->source_file = 1; }, "plan.parameters[0].source_file: 1 is not below the number of files, 1"},
    {"sourceBytes", [](Mutable &m) { m.plan.parameters[0]->source_bytes = 511; }, "plan.parameters[0].source_bytes: 511 are not the 512 of the shape"},
    {"sourceOutside", [](Mutable &m) { m.plan.parameters[0]->source_offset = 8000; }, "plan.parameters[0].source_offset: 8000 + 512 bytes exceed the 8192 of files[0]"},
    {"sourceWraps", [](Mutable &m) { m.plan.parameters[0]->source_offset = UINT64_MAX - 100; }, "plan.parameters[0].source_offset: 18446744073709551515 + 512"},
    {"transposedVector", [](Mutable &m) { m.plan.parameters[1]->source_transposed = true; }, "plan.parameters[1].source_transposed: the parameter has 1 dims"},
    {"inlineSize", [](Mutable &m) { m.plan.parameters[1]->inline_value.resize(31); }, "plan.parameters[1].inline_value: 31 bytes are not the 32 of the shape"},
    {"inlineAndFile", [](Mutable &m) { m.plan.parameters[0]->inline_value.assign(512, 0); }, "plan.parameters[0].inline_value: the value lies in source_file"},
    {"initializer", [](Mutable &m) { m.plan.parameters[3]->initializer = static_cast<fb::Initializer>(5); }, "plan.parameters[3].initializer: 5 is not a known value"},
    {"initializerScale", [](Mutable &m) { m.plan.parameters[3]->initializer_scale = -0.5; }, "plan.parameters[3].initializer_scale: -0.5 is not"},
    {"weightDecay", [](Mutable &m) { m.plan.parameters[0]->weight_decay = INFINITY; }, "plan.parameters[0].weight_decay: inf is not"},

    // Training.
    {"lossName", [](Mutable &m) { m.plan.losses[0]->name = ""; }, "plan.losses[0].name: the name has 0"},
    {"lossWeight", [](Mutable &m) { m.plan.losses[0]->weight = NAN; }, "plan.losses[0].weight: nan is not"},
    {"termWeight", [](Mutable &m) { m.plan.losses[0]->term_weight = INFINITY; }, "plan.losses[0].term_weight: inf is not"},
    {"countFloor", [](Mutable &m) { m.plan.losses[0]->count_floor = -1; }, "plan.losses[0].count_floor: -1 is not"},
    {"lossNote", [](Mutable &m) { m.plan.losses[0]->note = "\x7f"; }, "plan.losses[0].note: the byte at 0"},
    {"globalBatch", [](Mutable &m) { m.training.global_batch = 0; }, "plan.training.global_batch: 0 is not in [1,"},
    {"badSteps", [](Mutable &m) { m.training.bad_steps = 0; }, "plan.training.bad_steps: 0 is not at least 1"},
    {"optimizer", [](Mutable &m) { m.training.optimizer = static_cast<fb::Optimizer>(5); }, "plan.training.optimizer: 5 is not"},
    {"lr", [](Mutable &m) { m.training.lr = NAN; }, "plan.training.lr: nan is not a finite positive number"},
    {"beta1", [](Mutable &m) { m.training.beta1 = 1; }, "plan.training.beta1: 1 is not in [0,"},
    {"beta2", [](Mutable &m) { m.training.beta2 = -0.1; }, "plan.training.beta2: -0.1 is not in [0,"},
    {"eps", [](Mutable &m) { m.training.eps = -1; }, "plan.training.eps: -1 is not"},
    {"clip", [](Mutable &m) { m.training.clip_grad_norm = -1; }, "plan.training.clip_grad_norm: -1 is not"},
    {"momentum", [](Mutable &m) { m.training.optimizer = fb::Optimizer::Sgd, m.training.momentum = NAN; }, "plan.training.momentum: nan is not"},
    {"nesterov", [](Mutable &m) { m.training.optimizer = fb::Optimizer::Sgd, m.training.nesterov = true; }, "plan.training.nesterov: needs a momentum"},
    {"groupLr", [](Mutable &m) { m.addGroup().lr = 0; }, "plan.training.groups[1].lr: 0 is not a finite positive number"},
    {"groupOptimizer", [](Mutable &m) { m.addGroup().optimizer = static_cast<fb::Optimizer>(5); }, "plan.training.groups[1].optimizer: 5 is not"},
    {"muonsIterations", [](Mutable &m) { m.training.optimizer = fb::Optimizer::Muon; }, "plan.training.iterations: 0 is not from 1 to 100"},
    {"muonKeepsNoSecondMoment", [](Mutable &m) { m.training.optimizer = fb::Optimizer::Muon, m.training.iterations = 5; }, "has a Moment2, which Muon does not keep"},
    {"adafactorsClip", [](Mutable &m) { m.training.optimizer = fb::Optimizer::Adafactor; }, "plan.training.clip: 0 is not a finite positive number"},
    {"adafactorsMoments", [](Mutable &m) { m.training.optimizer = fb::Optimizer::Adafactor, m.training.clip = 1; }, " elements"},
    {"averagesUnbound", [](Mutable &m) { m.training.ema_decay = 0.9; }, "the trainable parameters[0] ('embed.weight') has no Average"},
    {"averagesDecay", [](Mutable &m) { m.training.ema_decay = 1.5; }, "plan.training.ema_decay: 1.5 is not in [0, 1]"},
    {"groups", [](Mutable &m) { for (int i = 0; i < 64; ++i) m.addGroup(); }, "plan.training.groups: 65 are more than 64"},
    {"groupOfParameter", [](Mutable &m) { m.plan.parameters[0]->group = 2; }, "plan.parameters[0].group: 2, and training has 1 groups"},
    {"groupUnbound", [](Mutable &m) { m.plan.parameters[0]->group = 1, m.training.groups[0]->optimizer = fb::Optimizer::Adam; }, "the trainable parameters[0] ('embed.weight') is of group 1, and that has no HyperParameters"},
    {"hyperOfNoGroup", [](Mutable &m) { m.binding(Kind::HyperParameters).index = 2; }, "training's groups and itself"},
    {"decay", [](Mutable &m) { m.training.decay = static_cast<fb::Decay>(4); }, "plan.training.decay: 4 is not"},
    {"minLr", [](Mutable &m) { m.training.min_lr = -1; }, "plan.training.min_lr: -1 is not"},
    {"decaySteps", [](Mutable &m) { m.training.decay_steps = 5; }, "plan.training.decay_steps: 5 is not from 0 to 0"},
    {"decayStepsOfWsd", [](Mutable &m) { m.training.decay = fb::Decay::Wsd, m.training.decay_steps = 91; }, "plan.training.decay_steps: 91 is not from 1 to 90"},
    {"totalSteps", [](Mutable &m) { m.training.total_steps = 10; }, "plan.training.total_steps: 10 is not more than warmup_steps, 10"},

    // Sections, edges, places.
    {"noSection", [](Mutable &m) { m.plan.sections.clear(); }, "plan.sections: there is none"},
    {"sectionTwice", [](Mutable &m) { m.plan.sections[1]->name = "teacher"; }, "plan.sections[1].name: 'teacher' is the name"},
    {"sectionComponent", [](Mutable &m) { m.plan.sections[0]->components[0] = 5; }, "plan.sections[0].components[0]: 5 is not below"},
    {"layoutZeroDegree", [](Mutable &m) { m.plan.sections[0]->layout->tensor_parallel = 0; }, "plan.sections[0].layout.tensor_parallel: 0 is not in [1,"},
    {"layoutLighterEvenly", [](Mutable &m) { m.plan.sections[0]->layout->lighter_evenly = true; }, "plan.sections[0].layout.lighter_evenly: 1 is not in [0, 0]"},
    {"layoutLighterLayers", [](Mutable &m) { m.plan.sections[0]->layout->lighter_layers = 2; }, "plan.sections[0].layout.lighter_layers: 2 is not in [0, 0]"},
    {"layoutLossChunks", [](Mutable &m) { m.plan.sections[1]->layout->loss_chunks = 0; }, "plan.sections[1].layout.loss_chunks: 0 is not in [1,"},
    {"layoutRecompute", [](Mutable &m) { m.plan.sections[0]->layout->full_recompute = true; }, "plan.sections[0].layout.full_recompute: 1 is not in [0, 0]"},
    {"layoutSplitFrozen", [](Mutable &m) { m.plan.sections[0]->layout->split_backward = 1; }, "plan.sections[0].layout.split_backward: 1 is not in [0, 0]"},
    {"layoutSplit", [](Mutable &m) { m.plan.sections[1]->layout->split_backward = 2; }, "plan.sections[1].layout.split_backward: 2 is not in [0, 1]"},
    {"layoutZero", [](Mutable &m) { m.plan.sections[0]->layout->zero_stage = 4; }, "plan.sections[0].layout.zero_stage: 4 is not in [0, 3]"},
    {"microBatch", [](Mutable &m) { m.plan.sections[0]->micro_batch_samples = 0; }, "plan.sections[0].micro_batch_samples: 0 is not"},
    {"sectionScope", [](Mutable &m) { m.plan.sections[0]->scopes[0] = "\x02"; }, "plan.sections[0].scopes[0]: "},
    {"sectionActive", [](Mutable &m) { m.plan.sections[0]->active[0] = 3; }, "plan.sections[0].active[0]: 3 is not below the number of symbols, 3"},
    {"sectionUnpadded", [](Mutable &m) { m.plan.sections[0]->unpadded = {3}; }, "plan.sections[0].unpadded[0]: 3 is not below the number of symbols, 3"},
    {"sectionUnpaddedPadded", [](Mutable &m) { m.plan.sections[0]->unpadded = {1}; }, "plan.sections[0].unpadded[0]: symbols[1] does not say `unpadded`"},
    {"sectionActivePadded", [](Mutable &m) { m.plan.sections[0]->active[0] = 1; }, "plan.sections[0].active[0]: symbols[1] does not sum over samples"},
    {"layoutStages", [](Mutable &m) { m.plan.sections[0]->layout->stages = 0; }, "plan.sections[0].layout.stages: 0 is not in [1,"},
    {"layoutReplicas", [](Mutable &m) { m.plan.sections[0]->layout->data_parallel = 2000000; }, "plan.sections[0].layout.data_parallel: 2000000 is not in [1,"},
    {"edgeName", [](Mutable &m) { m.plan.edges[0]->name = ""; }, "plan.edges[0].name: the name has 0"},
    {"edgeProducer", [](Mutable &m) { m.plan.edges[0]->producer = 2; }, "plan.edges[0].producer: 2 is not below the number of sections, 2"},
    {"edgeConsumer", [](Mutable &m) { m.plan.edges[0]->consumer = kNone; }, "plan.edges[0].consumer: 4294967295 is not below"},
    {"edgeDType", [](Mutable &m) { m.plan.edges[0]->dtype = 12; }, "plan.edges[0].dtype: 12 is not"},
    {"edgeRank", [](Mutable &m) { m.plan.edges[0]->shape.assign(8, 0); }, "plan.edges[0].shape: 8 dims are more than 7"},
    {"edgeShape", [](Mutable &m) { m.plan.edges[0]->shape[0] = 99; }, "plan.edges[0].shape[0]: 99 is not below"},
    {"edgeGradient", [](Mutable &m) { m.plan.edges[0]->carries_gradient = true; }, "plan.edges[0].carries_gradient: sections[0] or sections[1] does not train"},
    {"edgeTwice", [](Mutable &m) { Mutable::repeat(m.plan.edges, 0); }, "plan.edges[1].name: 'teacher.hidden' is the name of an earlier one"},
    {"edgeProducerStage", [](Mutable &m) { m.plan.edges[0]->producer_stage = 1; }, "plan.edges[0].producer_stage: 1 is not below the number of the producer's stages, 1"},
    {"edgeConsumerStage", [](Mutable &m) { m.plan.edges[0]->consumer_stage = 1; }, "plan.edges[0].consumer_stage: 1 is not below the number of the consumer's stages, 1"},
    {"edgeToItself", [](Mutable &m) { m.plan.edges[0]->consumer = 0; }, "plan.edges[0].consumer_stage: 0 is not behind producer_stage 0"},
    {"edgeBackwards", [](Mutable &m) { m.plan.sections[0]->layout->stages = 2, m.plan.edges[0]->consumer = 0, m.plan.edges[0]->producer_stage = 1; },
     "plan.edges[0].consumer_stage: 0 is not behind producer_stage 1"},
    {"edgeWithoutRows", [](Mutable &m) { m.plan.edges[0]->shape = {1}; }, "plan.edges[0].shape: 0 dims are sums over samples, and it must be one"},
    {"edgeRowsTwice", [](Mutable &m) { m.plan.edges[0]->shape[1] = 2; }, "plan.edges[0].shape: 2 dims are sums over samples, and it must be one"},
    {"edgeRowsPadded", [](Mutable &m) { m.plan.edges[0]->shape = {3}; }, "plan.edges[0].shape[0]: it mixes a sum over samples with a padded dim"},
    {"edgeCostNegative", [](Mutable &m) { m.plan.edges[0]->cost[0]->picoseconds = -1; }, "plan.edges[0].cost[0].picoseconds: -1 is not in [0,"},
    {"edgeCostSymbol", [](Mutable &m) { m.plan.edges[0]->cost[0]->symbols[0] = 3; }, "plan.edges[0].cost[0].symbols[0]: 3 is not below the number of symbols, 3"},
    {"edgeCostFactors", [](Mutable &m) { m.plan.edges[0]->cost[0]->symbols.assign(17, 0); }, "plan.edges[0].cost[0].symbols: 17 factors are more than 16"},
    {"edgeCycle", [](Mutable &m) { Mutable::repeat(m.plan.edges, 0), m.plan.edges[1]->name = "back", std::swap(m.plan.edges[1]->producer, m.plan.edges[1]->consumer); },
     "plan.edges: the sections form a cycle"},
    {"executableName", [](Mutable &m) { m.student.name = ""; }, "plan.executables[1].name: the name has 0"},
    {"executableSection", [](Mutable &m) { m.student.section = 2; }, "plan.executables[1].section: 2 is not below"},
    {"executableStage", [](Mutable &m) { m.student.stage = 1; }, "plan.executables[1].stage: 1 is not below the number of the section's stages, 1"},
    {"executableSamples", [](Mutable &m) { m.student.samples = 0; }, "plan.executables[1].samples: 0 is not in [1,"},
    {"doesNotFit", [](Mutable &m) { m.student.peak_bytes = 2ull << 30; }, "plan.executables[1].peak_bytes: 2147483648 exceeds the machine's memory_bytes, 1073741824"},
    {"missingStage", [](Mutable &m) { m.plan.sections[0]->layout->stages = 2; }, "plan.executables: they serve 2 of the sections' 3 stages"},
    {"stationExecutable", [](Mutable &m) { m.plan.stations[0]->executable = 2; }, "plan.stations[0].executable: 2 is not below"},
    {"stationReplica", [](Mutable &m) { m.plan.stations[0]->replica = 1; }, "plan.stations[0].replica: 1 is not below the number of the section's replicas, 1"},
    {"stationNoRank", [](Mutable &m) { m.plan.stations[0]->ranks.clear(); }, "plan.stations[0].ranks: there is none"},
    {"stationRank", [](Mutable &m) { m.plan.stations[0]->ranks[0] = 2; }, "plan.stations[0].ranks[0]: 2 is not below the number of ranks, 2"},
    {"stationRankTwice", [](Mutable &m) { m.plan.sections[0]->layout->tensor_parallel = 2, m.plan.stations[0]->ranks = {0, 0}; }, "plan.stations[0].ranks[1]: rank 0 is there twice"},
    {"stationTwice", [](Mutable &m) { Mutable::repeat(m.plan.stations, 0); }, "plan.stations[2]: an earlier station runs replica 0 of stage 0 of sections[0]"},
    {"stationMissing", [](Mutable &m) { m.plan.stations.pop_back(); }, "plan.stations: 1 stations do not run the sections' 2 stages and replicas"},
    {"stationAlone", [](Mutable &m) { m.plan.sections[0]->layout->tensor_parallel = 2; },
     "plan.stations[0].ranks: there are 1, and the section's tensor_parallel is 2"},
    {"stationsOverlap", [](Mutable &m) { m.plan.sections[0]->layout->tensor_parallel = 2, m.plan.stations[0]->ranks = {0, 1}; },
     "plan.stations[1].ranks: rank 1 is in an earlier station with other ranks"},
    {"executableTwice", [](Mutable &m) { m.plan.sections.pop_back(), m.plan.edges.clear(), m.plan.stations.pop_back(), m.student.section = 0; },
     "plan.executables[1]: an earlier executable serves stage 0 of sections[0], too"},
    {"rankDevice", [](Mutable &m) { m.plan.ranks[1]->device = 2; }, "plan.ranks[1].device: 2 is not below the number of the machine's devices, 2"},
    {"rankThreads", [](Mutable &m) { m.plan.ranks[1]->threads = 5000; }, "plan.ranks[1].threads: 5000 is not in [0, 4096]"},

    // Bounds, regions, buffers.
    {"boundSymbol", [](Mutable &m) { m.student.bounds[0]->symbol = 3; }, "plan.executables[1].bounds[0].symbol: 3 is not below"},
    {"boundTwice", [](Mutable &m) { m.student.bounds[1]->symbol = 0; }, "plan.executables[1].bounds[1].symbol: symbols[0] has a bound already"},
    {"boundTooSmall", [](Mutable &m) { m.student.bounds[1]->value = 16; }, "plan.executables[1].bounds[1].value: 16 is not in [20 (sample_max of symbols[1], 'seq')"},
    {"boundNoMultiple", [](Mutable &m) { m.student.bounds[1]->value = 22; }, "plan.executables[1].bounds[1].value: 22 is not a multiple of 8"},
    {"areaRows", [](Mutable &m) { m.student.areas[0]->rows = 9; }, "plan.executables[1].areas[0].rows: 9 is not below"},
    {"areaRowsPadded", [](Mutable &m) { m.student.areas[0]->rows = 1; }, "plan.executables[1].areas[0].rows: symbols[1] does not combine by Sum, or has no bound here"},
    {"areaPaddedSum", [](Mutable &m) { m.student.areas[0]->padded = 2; }, "plan.executables[1].areas[0].padded: symbols[2] does not combine by Max, or has no bound here"},
    {"areaTwice", [](Mutable &m) { Mutable::repeat(m.student.areas, 0); }, "plan.executables[1].areas[1].padded: symbols[1] has an area already"},
    {"areaOtherRows", [](Mutable &m) { Mutable::repeat(m.student.areas, 0), m.student.areas[1]->rows = 2; }, "plan.executables[1].areas[1].rows: symbols[2] is not the 0 of the first area"},
    {"areaTooSmall", [](Mutable &m) { m.student.areas[0]->value = 23; }, "plan.executables[1].areas[0].value: 23 is not in [24, 4 · 24]"},
    {"areaTooLarge", [](Mutable &m) { m.student.areas[0]->value = 97; }, "plan.executables[1].areas[0].value: 97 is not in [24, 4 · 24]"},
    {"areaBuffer", [](Mutable &m) { m.buffer(Hidden).bytes = 2240; }, "bytes: 2240 are less than the 2304 of its shape"},
    {"regionKind", [](Mutable &m) { m.student.regions[0]->kind = static_cast<Reg>(8); }, "plan.executables[1].regions[0].kind: 8 is not"},
    {"regionNoCopy", [](Mutable &m) { m.region(Reg::Slot).copies = 0; }, "plan.executables[1].regions[5].copies: 0 is not in [1, 1048576]"},
    {"regionCopies", [](Mutable &m) { m.region(Reg::Step).copies = 2; }, "plan.executables[1].regions[4].copies: 2 is not in [1, 1]; slots and rings alone have copies"},
    {"regionUneven", [](Mutable &m) { m.region(Reg::Slot).bytes += 1; }, "plan.executables[1].regions[5].bytes: 11009 is not a multiple of 64"},
    {"regionSlots", [](Mutable &m) { Mutable::repeat(m.student.regions, 5); }, "plan.executables[1].regions[8].kind: an earlier region is of kind Slot, too"},
    {"regionGradients", [](Mutable &m) { Mutable::repeat(m.student.regions, 1); }, "plan.executables[1].regions[8].kind: an earlier region is of kind Gradients, too"},
    {"regionRing", [](Mutable &m) { Mutable::repeat(m.student.regions, 7); },
     "plan.executables[1].regions[8].kind: an earlier region is of kind Channel and of this end of the edge, too"},
    {"regionsMany", [](Mutable &m) { while (m.student.regions.size() <= 1024) Mutable::repeat(m.student.regions, 7); },
     "plan.executables[1].regions: 1025 are more than 1024"},
    {"regionManyCopies", [](Mutable &m) { m.region(Reg::Slot).copies = (1 << 20) + 1; }, "plan.executables[1].regions[5].copies: 1048577 is not in [1, 1048576]"},
    {"ringNoCopy", [](Mutable &m) { m.region(Reg::Channel).copies = 0; }, "plan.executables[1].regions[7].copies: 0 is not in [1, 1048576]"},
    {"ringUneven", [](Mutable &m) { m.region(Reg::Channel).bytes += 1; }, "plan.executables[1].regions[7].bytes: 3073 is not a multiple of 64"},
    {"ringEdge", [](Mutable &m) { m.region(Reg::Channel).edge = 1; }, "plan.executables[1].regions[7].edge: 1 is not below the number of edges, 1"},
    {"ringOfSlot", [](Mutable &m) { m.region(Reg::Slot).edge = 0; }, "plan.executables[1].regions[5].edge: the region is no Channel"},
    {"ringGradient", [](Mutable &m) { m.region(Reg::Channel).gradient = true; }, "plan.executables[1].regions[7].gradient: edges[0] carries no gradient"},
    {"ringElsewhere", [](Mutable &m) { Mutable::repeat(m.plan.executables[0]->regions, 1), m.plan.executables[0]->regions[2]->kind = Reg::Channel, m.plan.executables[0]->regions[2]->edge = 0; },
     "plan.executables[0].regions[2].edge: edges[0] ends at stage 0 of sections[1], not here"},
    {"peakTooSmall", [](Mutable &m) { m.student.peak_bytes = 30000; }, "plan.executables[1].peak_bytes: 30000 is less than the regions need"},
    {"peakOverflows", [](Mutable &m) { m.region(Reg::Workspace).bytes = UINT64_MAX; }, "plan.executables[1].regions: they take more than 70368744177664 bytes together"},
    {"bufferName", [](Mutable &m) { m.buffer(Weight).name = "\n\x01"; }, "plan.executables[1].buffers[0].name: the byte at 1"},
    {"bufferDType", [](Mutable &m) { m.buffer(Weight).dtype = 10; }, "plan.executables[1].buffers[0].dtype: 10 is not"},
    {"bufferRegion", [](Mutable &m) { m.buffer(Weight).region = 8; }, "plan.executables[1].buffers[0].region: 8 is not below the number of regions, 8"},
    {"bufferOffset", [](Mutable &m) { m.buffer(Logits).offset += 32; }, "plan.executables[1].buffers[23].offset: 4896 is not a multiple of 64"},
    {"bufferBehind", [](Mutable &m) { m.buffer(Logits).offset = 1 << 20; }, "plan.executables[1].buffers[23].offset: 1048576 exceeds region 5's 11008 bytes"},
    {"bufferOver", [](Mutable &m) { m.buffer(Logits).bytes += 64; }, "plan.executables[1].buffers[23].bytes: 6208 from offset 4864 exceed region 5's 11008 bytes"},
    {"bufferTooSmall", [](Mutable &m) { m.buffer(Logits).bytes = 4607; }, "plan.executables[1].buffers[23].bytes: 4607 are less than the 4608 of its shape"},
    {"bufferRank", [](Mutable &m) { m.buffer(Logits).shape.assign(9, 0); }, "plan.executables[1].buffers[23].shape: 9 dims are more than 8"},
    {"bufferShape", [](Mutable &m) { m.buffer(Logits).shape[0] = 99; }, "plan.executables[1].buffers[23].shape[0]: 99 is not below"},
    {"bufferUnbound", [](Mutable &m) { m.student.bounds.erase(m.student.bounds.begin() + 1), m.student.areas.clear(); },
     "plan.executables[1].buffers[15].shape[1]: has no value at the executable's bounds: exprs[1]: the symbol 'seq' has no value here"},
    {"bufferNegative", [](Mutable &m) { m.buffer(Logits).shape[0] = m.builder.constant(-3); }, "plan.executables[1].buffers[23].shape[0]: -3 is negative"},
    {"bufferOverflows", [](Mutable &m) { m.buffer(Logits).shape = m.builder.constants(std::vector<int64_t>{INT64_MAX, 3}); },
     "plan.executables[1].buffers[23].shape[0]: 9223372036854775807 is negative at the executable's bounds, or makes"},
    {"exprDivisor", [](Mutable &m) { m.buffer(Logits).shape[0] = m.builder.dim(fb::DimOp::FloorDiv, 0, m.builder.constant(0)); }, "(batch floordiv 0): the divisor is 0, and must be positive"},
    {"exprOverflow", [](Mutable &m) { m.buffer(Logits).shape[0] = m.builder.dim(fb::DimOp::Mul, 0, m.builder.constant(INT64_MAX)); }, "3 and 9223372036854775807 overflow 64 bits"},
    {"constantRegion", [](Mutable &m) { m.buffer(Weight).constant.assign(512, 0); }, "plan.executables[1].buffers[0].constant: region 0 is not of kind Constants"},
    {"constantSize", [](Mutable &m) { m.buffer(Scale).constant.push_back(0); }, "plan.executables[1].buffers[11].constant: 9 bytes are not the buffer's 8"},
    {"constantShape", [](Mutable &m) { m.buffer(Scale).shape = {m.builder.dim(fb::DimOp::Min, 0, m.builder.constant(1))}; }, "plan.executables[1].buffers[11].shape: a constant's dims are constant"},

    // Programs.
    {"programKind", [](Mutable &m) { m.program(Prog::Norm).kind = static_cast<Prog>(8); }, "plan.executables[1].programs[5].kind: 8 is not"},
    {"programTwice", [](Mutable &m) { m.program(Prog::Norm).kind = Prog::Prepare; }, "plan.executables[1].programs[5].kind: an earlier program is of kind Prepare"},
    {"programField", [](Mutable &m) { m.program(Prog::Forward).fields[1] = 3; }, "plan.executables[1].programs[2].fields[1]: 3 is not below the number of fields, 3"},
    {"programFlops", [](Mutable &m) { m.program(Prog::Forward).flops = 99; }, "plan.executables[1].programs[2].flops: 99 is not below"},
    {"programMoved", [](Mutable &m) { m.program(Prog::Forward).memory_bytes = m.builder.dim(fb::DimOp::Mod, 0, m.builder.constant(0)); },
     "plan.executables[1].programs[2].memory_bytes: has no value at the executable's bounds"},
    {"callKernel", [](Mutable &m) { m.program(Prog::Norm).calls[0]->kernel = 99; }, "plan.executables[1].programs[5].calls[0].kernel: 99 is not below the number of kernels"},
    {"callInput", [](Mutable &m) { m.program(Prog::Norm).calls[0]->inputs[0] = 27; }, "plan.executables[1].programs[5].calls[0].inputs[0]: 27 is not below the number of buffers, 27"},
    {"callOutput", [](Mutable &m) { m.program(Prog::Norm).calls[0]->outputs[0] = 27; }, "plan.executables[1].programs[5].calls[0].outputs[0]: 27 is not below"},
    {"callScope", [](Mutable &m) { m.program(Prog::Norm).calls[0]->scope = 99; }, "plan.executables[1].programs[5].calls[0].scope: 99 is not below the number of scopes"},
    {"callAttributes", [](Mutable &m) { m.program(Prog::Norm).calls[0]->attributes = 99; }, "plan.executables[1].programs[5].calls[0].attributes: 99 is not below the number of attribute lists"},
    {"attributeUndefined", [](Mutable &m) { m.plan.attribute_lists[1]->items[2]->exprs[0] = m.builder.dim(fb::DimOp::CeilDiv, 0, m.builder.constant(0)); },
     "plan.executables[1].programs[2].calls[1].attributes: has no value at the executable's bounds"},
    {"weightGradientUnsaid", [](Mutable &m) { test::splitStudent(m.builder), m.plan.sections[1]->layout->split_backward = 0; },
     "plan.executables[1].programs: there is a WeightGradient program, and split_backward is 0 of 1 stages"},
    {"weightGradientAlone", [](Mutable &m) { m.plan.executables[0]->programs[0]->kind = Prog::WeightGradient; },
     "plan.executables[0].programs: there is a WeightGradient program, and no Backward program"},
    {"weightGradientReadsScratch", [](Mutable &m) {
       test::splitStudent(m.builder), m.buffer(Scratch).region = 6, m.buffer(Scratch).offset = 0; },
     "region 6 (Workspace) before anything was written there"},
    {"noBackward", [](Mutable &m) { m.dropProgram(Prog::Backward); }, "plan.executables[1].programs: there is no Backward program, and sections[1] trains"},
    {"surplusBackward", [](Mutable &m) { m.plan.sections[1]->trains = false; }, "plan.executables[1].programs: there is a Backward program, and sections[1] does not train"},
    {"noEvaluate", [](Mutable &m) { m.dropProgram(Prog::Evaluate); }, "plan.executables[1].programs: there is no Evaluate program"},
    {"costNegative", [](Mutable &m) { m.program(Prog::Norm).cost[0]->picoseconds = -5; }, "plan.executables[1].programs[5].cost[0].picoseconds: -5 is not in [0,"},
    {"costSymbol", [](Mutable &m) { m.program(Prog::Norm).cost[0]->symbols[1] = 9; }, "plan.executables[1].programs[5].cost[0].symbols[1]: 9 is not below the number of symbols, 3"},
    {"costFactors", [](Mutable &m) { m.program(Prog::Norm).cost[0]->symbols.assign(17, 0); }, "plan.executables[1].programs[5].cost[0].symbols: 17 factors are more than 16"},
    {"noForward", [](Mutable &m) { m.dropProgram(Prog::Forward); }, "plan.executables[1].programs: there is a Backward program without a Forward program"},

    // Bindings.
    {"bindingKind", [](Mutable &m) { m.student.bindings[0]->kind = static_cast<Kind>(17); }, "plan.executables[1].bindings[0].kind: 17 is not"},
    {"bindingIndex", [](Mutable &m) { m.binding(Kind::Field).index = 3; }, "plan.executables[1].bindings[0].index: 3 is not below the number of fields, 3"},
    {"bindingLoss", [](Mutable &m) { m.binding(Kind::LossSum).index = 1; }, "plan.executables[1].bindings[2].index: 1 is not below the number of losses, 1"},
    {"bindingSingle", [](Mutable &m) { m.binding(Kind::NormSquares).index = 2; }, "plan.executables[1].bindings[6].index: 2 is not below the number of kinds of NormSquares, 2"},
    {"bindingParameter", [](Mutable &m) { m.binding(Kind::Value).index = 4; }, "plan.executables[1].bindings[9].index: 4 is not below the number of parameters, 4"},
    {"bindingBuffer", [](Mutable &m) { m.binding(Kind::Value).buffer = 27; }, "plan.executables[1].bindings[9].buffer: 27 is not below the number of buffers, 27"},
    {"bindingTwice", [](Mutable &m) { Mutable::repeat(m.student.bindings, 0); }, "plan.executables[1].bindings[19]: an earlier binding is of kind Field and index 0"},
    {"bindingRegion", [](Mutable &m) { m.binding(Kind::Value).buffer = WeightGradient; }, "plan.executables[1].bindings[9].buffer: buffers[4] lies in a region of kind Gradients, where no Value may be"},
    {"bindingDType", [](Mutable &m) { m.binding(Kind::Value).buffer = Narrow; }, "plan.executables[1].bindings[9].buffer: buffers[3] has elements of type bf16, and a Value needs f32"},
    {"bindingStoredDType", [](Mutable &m) {
       m.plan.parameters[3]->dtype = m.plan.executables[0]->buffers[0]->dtype = static_cast<uint8_t>(DType::BF16);
       m.plan.executables[0]->buffers[0]->bytes /= 2, m.plan.components[0]->frozen = false;
     }, "plan.executables[0].bindings[0].buffer: buffers[0] has elements of type bf16, and a Value needs f32"},
    {"bindingInteger", [](Mutable &m) { m.buffer(Positions).dtype = static_cast<uint8_t>(DType::I32), m.buffer(Positions).bytes = 4; }, "buffers[2] has elements of type i32, and a Value needs i64"},
    {"bindingSize", [](Mutable &m) { m.plan.parameters[1]->shape = {8}, m.plan.parameters[1]->inline_value.resize(16); }, "plan.executables[1].bindings[10].buffer: buffers[1] has 16 elements, and Value needs 8"},
    {"bindingFieldShape", [](Mutable &m) { m.binding(Kind::Field).buffer = FlatLabels; }, "plan.executables[1].bindings[0].buffer: buffers[26] has not the shape of fields[0]"},
    {"bindingHyper", [](Mutable &m) { m.buffer(Hyper).shape = {m.builder.constant(7)}, m.buffer(Hyper).bytes = 28; }, "buffers[13] has 7 elements, and HyperParameters needs 8"},
    {"bindingRandom", [](Mutable &m) { m.buffer(Random).shape = {m.builder.constant(1)}, m.buffer(Random).bytes = 8; }, "buffers[17] has 1 elements, and RandomState needs 2"},
    {"bindingIds", [](Mutable &m) { m.student.samples = 5; }, "buffers[18] has 4 elements at the bounds, and SampleIds needs 5"},
    {"bindingScalar", [](Mutable &m) { m.binding(Kind::LossSum).buffer = Hidden; }, "buffers[21] has no fixed shape, as a LossSum needs"},
    {"bindingIdsScalar", [](Mutable &m) { m.student.samples = 1, m.buffer(Ids).shape.clear(), m.buffer(Ids).bytes = 8; },
     "buffers[18] is not of one dim that is a symbol and sums over samples"},
    {"bindingIdsPadded", [](Mutable &m) { m.buffer(Ids).shape[0] = m.plan.fields[0]->shape[1], m.buffer(Ids).offset = m.buffer(Logits).offset, m.buffer(Ids).bytes = 192; },
     "buffers[18] is not of one dim that is a symbol and sums over samples"},
    {"bindingFieldBetween", [](Mutable &m) { m.buffer(Tokens).shape[1] = m.builder.dim(fb::DimOp::Min, m.buffer(Tokens).shape[1], m.builder.constant(24)); },
     "plan.executables[1].bindings[0].buffer: buffers[15] has not the shape of fields[0]"},
    {"bindingEdgeBetween", [](Mutable &m) { m.buffer(Arriving).shape[1] = m.builder.dim(fb::DimOp::Max, m.buffer(Tokens).shape[1], m.builder.constant(24)); },
     "plan.executables[1].bindings[18].buffer: buffers[25] has not the shape of edges[0]"},
    {"bindingValueBetween", [](Mutable &m) { m.buffer(Bias).shape[0] = m.builder.dim(fb::DimOp::Min, m.buffer(Tokens).shape[1], m.builder.constant(16)); },
     "plan.executables[1].bindings[10].buffer: buffers[1] has no fixed shape, as a Value needs"},
    {"bindingValueRoom", [](Mutable &m) { m.buffer(Bias).bytes = 128; }, "plan.executables[1].buffers[1].bytes: 128 are more than the 64 of its shape, which is fixed"},
    {"fieldUnbound", [](Mutable &m) { m.dropBinding(Kind::Field, 1); }, "plan.executables[1].programs[1].fields[0]: no binding says where fields[1] goes"},
    {"edgeInputUnbound", [](Mutable &m) { m.dropBinding(Kind::EdgeInput); }, "plan.executables[1].bindings: there is no EdgeInput for edges[0]"},
    {"edgeOutputUnbound", [](Mutable &m) { m.plan.executables[0]->bindings.pop_back(); }, "plan.executables[0].bindings: there is no EdgeOutput for edges[0]"},
    {"edgeSurplus", [](Mutable &m) { Mutable::repeat(m.student.bindings, 18), m.student.bindings[19]->kind = Kind::EdgeOutput, m.student.bindings[19]->buffer = Hidden; },
     "plan.executables[1].bindings: there is a EdgeOutput for edges[0]"},
    {"edgeInputRegion", [](Mutable &m) { m.binding(Kind::EdgeInput).buffer = Hidden; }, "plan.executables[1].bindings[18].buffer: buffers[21] lies in a region of kind Slot, where no EdgeInput may be"},
    {"edgeOutputRegion", [](Mutable &m) { m.plan.executables[0]->bindings[2]->buffer = 0; }, "plan.executables[0].bindings[2].buffer: buffers[0] lies in a region of kind Parameters, where no EdgeOutput may be"},
    {"edgeInputShape", [](Mutable &m) { m.buffer(Arriving).shape = {3, m.builder.constant(8)}; }, "plan.executables[1].bindings[18].buffer: buffers[25] has not the shape of edges[0]"},
    {"edgeInputDType", [](Mutable &m) { m.buffer(Arriving).dtype = static_cast<uint8_t>(DType::BF16); }, "plan.executables[1].bindings[18].buffer: buffers[25] has elements of type bf16, and a EdgeInput needs f32"},
    {"edgeIndex", [](Mutable &m) { m.binding(Kind::EdgeInput).index = 1; }, "plan.executables[1].bindings[18].index: 1 is not below the number of edges, 1"},
    {"edgeInputOffset", [](Mutable &m) { m.region(Reg::Channel).bytes += 64, m.buffer(Arriving).offset = 64; },
     "plan.executables[1].bindings: the EdgeInput of edges[0] begins at byte 64 of its ring, and messages at 0"},
    {"edgeInputOfAnother", [](Mutable &m) {
       Mutable::repeat(m.plan.edges, 0), m.plan.edges[1]->name = "other";
       Mutable::repeat(m.plan.executables[0]->bindings, 2), m.plan.executables[0]->bindings[3]->index = 1;
       Mutable::repeat(m.student.bindings, 18), m.student.bindings[19]->index = 1;
     }, "plan.executables[1].bindings: the EdgeInput of edges[1] lies in the ring of another end"},
    {"edgeGradientUnbound", [](Mutable &m) { m.plan.sections[0]->trains = m.plan.edges[0]->carries_gradient = true, m.plan.components[0]->frozen = false;
       Mutable::repeat(m.plan.executables[0]->programs, 0), m.plan.executables[0]->programs[2]->kind = Prog::Backward; },
     "plan.executables[0].bindings: there is no EdgeGradientInput for edges[0]"},
    {"edgeGradientWithoutBackward", [](Mutable &m) { m.plan.sections[0]->trains = m.plan.edges[0]->carries_gradient = true, m.plan.sections[0]->layout->stages = 2;
       Mutable::repeat(m.plan.executables, 0), m.plan.executables[2]->stage = 1, m.plan.executables[2]->bindings.pop_back();
       Mutable::repeat(m.plan.stations, 0), m.plan.stations[2]->executable = 2;
       fb::ExecutableT &teacher = *m.plan.executables[0];
       Mutable::repeat(teacher.regions, 1), teacher.regions[2]->kind = Reg::Channel, teacher.regions[2]->edge = 0, teacher.regions[2]->gradient = true;
       teacher.buffers.push_back(std::make_unique<fb::BufferT>(*teacher.buffers[2])), teacher.buffers[3]->region = 2, teacher.buffers[3]->offset = 0;
       Mutable::repeat(teacher.bindings, 2), teacher.bindings[3]->kind = Kind::EdgeGradientInput, teacher.bindings[3]->buffer = 3;
     }, "plan.executables[0].programs: there is no Backward program, and edges[0] carries a gradient"},
    {"gradientUnbound", [](Mutable &m) { m.dropBinding(Kind::Gradient, 1); }, "plan.executables[1].bindings: the trainable parameters[1] ('lm_head.bias') has no Gradient"},
    {"momentUnbound", [](Mutable &m) { m.dropBinding(Kind::Moment1, 0); }, "the trainable parameters[0] ('embed.weight') has no Moment1"},
    {"secondMomentUnbound", [](Mutable &m) { m.dropBinding(Kind::Moment2, 0); }, "the trainable parameters[0] ('embed.weight') has no Moment2"},
    {"valueUnbound", [](Mutable &m) { m.dropBinding(Kind::Value, 1); }, "plan.executables[1].bindings: parameters[1] has a Gradient and no Value"},
    {"gradientOfFixed", [](Mutable &m) { m.plan.parameters[1]->trainable = false; }, "plan.executables[1].bindings: parameters[1] has a Gradient and is not trainable"},
    {"bindingsOverlap", [](Mutable &m) { m.buffer(Bias).offset = 64; }, "plan.executables[1].bindings: two of them overlap at byte 64 of region 0"},
    {"splitField", [](Mutable &m) { m.binding(Kind::Field).split_dim = 0; },
     "plan.executables[1].bindings[0].split_dim: a Field is never split"},
    {"splitDim", [](Mutable &m) { m.binding(Kind::Value, 1).split_dim = 1; },
     "plan.executables[1].bindings[10].split_dim: 1 is not below the number of the parameter's dims, 1"},
    {"splitUnevenly", [](Mutable &m) { test::shareStudent(m.builder), Mutable::repeat(m.plan.ranks, 2), m.plan.stations[1]->ranks = m.plan.communicators.back()->ranks = {1, 2, 3};
       m.plan.sections[test::kStudent]->layout->tensor_parallel = 3, m.binding(Kind::Value, 1).split_dim = 0; },
     "plan.executables[1].bindings[10].split_dim: 16 elements cannot be split over 3 ranks"},
    {"splitOtherwise", [](Mutable &m) { m.binding(Kind::Gradient, 1).split_dim = 0; },
     "plan.executables[1].bindings[13].split_dim: is not that of an earlier binding of parameters[1]"},
    {"splitWhole", [](Mutable &m) { test::shareStudent(m.builder), m.binding(Kind::Value, 1).split_dim = 0; },
     "plan.executables[1].bindings[10].buffer: buffers[1] has 16 elements, and Value needs 8"},
    {"collectiveAlone", [](Mutable &m) { m.program(Prog::Prepare).calls[0]->kind = CallKind::AllGather; },
     "plan.executables[1].programs[0].calls[0].kernel: a collective needs several ranks, and there is 1 along the Tensor axis"},
    {"collectiveAxis", [](Mutable &m) { addCollective(m, Prog::Forward, "own_part"), m.program(Prog::Forward).calls.back()->axis = fb::MeshAxis::Expert; },
     "plan.executables[1].programs[2].calls[5].kernel: a collective needs several ranks, and there is 1 along the Expert axis"},
    {"collectiveByNameAlone", [](Mutable &m) { addCollective(m, Prog::Forward, "own_part"), m.program(Prog::Forward).calls.back()->kind = CallKind::Kernel; },
     "plan.executables[1].programs[2].calls[5].kind: Kernel, of a call that is OwnPart, in a plan with communicators"},
    {"collectiveWithoutCommunicators", [](Mutable &m) { addCollective(m, Prog::Forward, "own_part"), m.plan.communicators.clear(); },
     "plan.executables[1].programs[2].calls[5].kind: OwnPart, of a call that is OwnPart, in a plan without communicators"},
    {"collectiveOfMany", [](Mutable &m) { test::shareStudent(m.builder), m.program(Prog::Backward).calls[0]->kind = CallKind::AllReduce; },
     "calls[0]: a collective has one input and one output of the same element type"},
    {"collectiveConverts", [](Mutable &m) { test::shareStudent(m.builder), m.program(Prog::Norm).calls[0]->kind = CallKind::AllReduce; },
     "plan.executables[1].programs[5].calls[0]: a collective has one input and one output of the same element type, sums of f32"},
    {"communicatorOfOne", [](Mutable &m) { m.plan.communicators[0]->ranks = {1}; }, "plan.communicators[0].ranks: there are fewer than two"},
    {"communicatorRank", [](Mutable &m) { m.plan.communicators[0]->ranks = {1, 2}; }, "plan.communicators[0].ranks[1]: 2 is not below the number of ranks, 2"},
    {"communicatorAxis", [](Mutable &m) { m.plan.communicators[0]->axis = static_cast<fb::MeshAxis>(3); }, "plan.communicators[0].axis: 3 is not a known value"},
    {"communicatorTwice", [](Mutable &m) { Mutable::repeat(m.plan.communicators, 0); },
     "plan.communicators[1].ranks[0]: rank 0 is in a communicator of the Expert axis already"},
    {"communicatorOfNoStation", [](Mutable &m) { m.plan.communicators[0]->axis = fb::MeshAxis::Tensor; }, "plan.communicators[0].ranks: no station has these ranks"},
    {"communicatorMissing", [](Mutable &m) { test::shareStudent(m.builder), m.plan.communicators.pop_back(); },
     "plan.communicators: 0 of the tensor axis, and 1 groups of ranks share stations"},
    {"callKind", [](Mutable &m) { m.program(Prog::Forward).calls[0]->kind = static_cast<CallKind>(7); }, "calls[0].kind: 7 is not a known value"},
    {"collectiveInPrepare", [](Mutable &m) { addCollective(m, Prog::Prepare, "all_reduce"); },
     "plan.executables[1].programs[0].calls[1].kernel: a Prepare program does not run at all ranks of a station at the same time"},
    {"collectiveInCount", [](Mutable &m) { addCollective(m, Prog::Count, "own_part"); },
     "plan.executables[1].programs[1].calls[1].kernel: a Count program does not run at all ranks of a station at the same time"},
    {"collectiveDim", [](Mutable &m) { addCollective(m, Prog::Forward, "all_gather", {intsAttribute("dim", {9}), intsAttribute("count", {2})}); },
     "plan.executables[1].programs[2].calls[5].attributes: 'dim' is not there, or not one integer in [0, 2]"},
    {"collectiveWithoutDim", [](Mutable &m) { addCollective(m, Prog::Forward, "own_part"); },
     "plan.executables[1].programs[2].calls[5].attributes: 'dim' is not there, or not one integer in [0, 2]"},
    {"collectiveCount", [](Mutable &m) { addCollective(m, Prog::Forward, "own_part", {intsAttribute("dim", {0}), intsAttribute("count", {3})}); },
     "plan.executables[1].programs[2].calls[5].attributes: 'count' is not there, or not one integer in [2, 2]"},
    {"sumOfOne", [](Mutable &m) { test::addReplica(m.builder), m.plan.gradient_sums[0]->stations = {1}; },
     "plan.gradient_sums[0].stations: there are fewer than two"},
    {"sumStation", [](Mutable &m) { test::addReplica(m.builder), m.plan.gradient_sums[0]->stations = {1, 3}; },
     "plan.gradient_sums[0].stations[1]: 3 is not below the number of stations, 3"},
    {"sumStationTwice", [](Mutable &m) { test::addReplica(m.builder), m.plan.gradient_sums[0]->stations = {1, 1}; },
     "plan.gradient_sums[0].stations[1]: 1 does not ascend, or has not as many ranks"},
    {"sumWithoutGradient", [](Mutable &m) { test::addReplica(m.builder), m.plan.gradient_sums[0]->stations = {0, 1}; },
     "plan.gradient_sums[0].parameters[0]: stations[0] has no Gradient of it"},
    {"sumParameter", [](Mutable &m) { test::addReplica(m.builder), m.plan.gradient_sums[0]->parameters = {0, 4}; },
     "plan.gradient_sums[0].parameters[1]: 4 is not below the number of parameters, 4"},
    {"sumParameterTwice", [](Mutable &m) { test::addReplica(m.builder), Mutable::repeat(m.plan.gradient_sums, 0); },
     "plan.gradient_sums[1].parameters[0]: it is in an earlier sum, too"},
    {"sumDegree", [](Mutable &m) { test::addReplica(m.builder), m.plan.gradient_sums[0]->degrees = {1, 2}; },
     "plan.gradient_sums[0].degrees[0]: 1 is below 2"},
    {"sumDegreesTooMany", [](Mutable &m) { test::addReplica(m.builder), m.plan.gradient_sums[0]->degrees = {2, 2}; },
     "plan.gradient_sums[0].degrees[1]: 2: with those before it there are more than the 2 stations"},
    {"sumStaging", [](Mutable &m) { test::addReplica(m.builder), m.plan.gradient_sums[0]->staging_bytes = 4096; },
     "plan.gradient_sums[0].staging_bytes: 4096 is below 65536"},
    {"sumMissing", [](Mutable &m) { test::addReplica(m.builder), m.plan.gradient_sums[0]->parameters = {0}; },
     "plan.gradient_sums: 2 stations hold the gradient of parameters[1], and 0 add it up"},
    {"nodes", [](Mutable &m) { m.plan.machine->nodes = 3; }, "plan.machine.nodes: 3 is not in [0, 2]"},
    {"unevenNodes", [](Mutable &m) { test::addReplica(m.builder), m.plan.machine->nodes = 2; }, "plan.machine.nodes: 2 nodes do not have equally many of 3 devices"},
    {"spareBytes", [](Mutable &m) { test::addSpare(m.builder), m.plan.spares[0]->plan.resize(100); }, "plan.spares[0].plan: "},
    {"spareMeaning", [](Mutable &m) { m.training.clip_grad_norm = -1, test::addSpare(m.builder), m.training.clip_grad_norm = 1; },
     "plan.spares[0].plan: plan.training.clip_grad_norm: -1 is not a finite number"},
    {"spareOfSpare", [](Mutable &m) { test::addSpare(m.builder), test::addSpare(m.builder); }, "plan.spares[1].plan: plan.spares: a spare has none of its own"},
    {"spareTwice", [](Mutable &m) { test::addSpare(m.builder), Mutable::repeat(m.plan.spares, 0); },
     "plan.spares[1].plan: it is for 1 nodes, and this plan is for 2: spares are for one node less each"},
    {"spareOfAnotherWorkload", [](Mutable &m) { test::addSpare(m.builder), m.plan.workload_hash = 1; },
     "plan.spares[0].plan: it is of workload 0123456789abcdef, and this plan is of 0000000000000001"},
    {"spareWithoutNodes", [](Mutable &m) { test::addSpare(m.builder), m.plan.machine->nodes = 0; },
     "plan.spares[0].plan: it is for 1 nodes, and this plan is for 0"},
    {"normUnbound", [](Mutable &m) { m.dropBinding(Kind::NormSquares); }, "plan.executables[1].bindings: there is a Norm program and no NormSquares"},
    {"hyperUnbound", [](Mutable &m) { m.dropBinding(Kind::HyperParameters); }, "plan.executables[1].bindings: there is a Update program and no HyperParameters"},
    {"clipWithoutNorm", [](Mutable &m) { m.dropProgram(Prog::Norm); }, "training.clip_grad_norm is 1, and there is no Norm program"},
    {"lossUnbound", [](Mutable &m) { Mutable::repeat(m.plan.losses, 0); }, "plan.losses[1]: no executable binds its LossSum"},
    {"countUnbound", [](Mutable &m) { m.dropBinding(Kind::LossCount), m.dropProgram(Prog::Count); }, "plan.losses[0]: no executable binds its LossCount"},
    {"noLoss", [](Mutable &m) { m.plan.losses.clear(), m.dropBinding(Kind::LossSum), m.dropBinding(Kind::LossCount), m.dropBinding(Kind::LossScale),
                                m.program(Prog::Backward).calls[1]->inputs[2] = kNone; }, "plan.losses: there is none, and a section trains"},
    {"trainableUnbound", [](Mutable &m) { Mutable::repeat(m.plan.parameters, 1), m.plan.parameters[4]->name = "new"; }, "plan.parameters[4]: it is trainable, and no executable binds its Value"},

    // Dataflow.
    {"edgeOutputNotWritten", [](Mutable &m) { m.plan.executables[0]->programs[1]->calls.clear(); },
     "plan.executables[0].bindings[2]: the Evaluate program does not write buffers[2], the EdgeOutput"},
    {"writesRing", [](Mutable &m) { m.program(Prog::Forward).calls[2]->outputs[0] = Arriving; }, "programs[2].calls[2].outputs[0]: buffers[25] lies in a region of kind Channel, which a Forward program may not write"},
    {"edgeNotHeld", [](Mutable &m) { m.plan.edges[0]->held_until_backward = false; }, "programs[4].calls[0].inputs[1]: buffers[25] (add) is read at byte 0 of region 7 (Channel) before anything was written there"},
    {"countReadsEdge", [](Mutable &m) { m.program(Prog::Count).calls[0]->inputs[0] = Arriving; }, "programs[1].calls[0].inputs[0]: buffers[25]"},
    {"readBeforeWrite", [](Mutable &m) { m.program(Prog::Forward).calls.erase(m.program(Prog::Forward).calls.begin()); },
     "plan.executables[1].programs[2].calls[0].inputs[0]: buffers[21] (dropout) is read at byte 1792 of region 5 (Slot) before anything was written there"},
    {"workspaceDoesNotLast", [](Mutable &m) { m.program(Prog::Forward).calls[4]->inputs[2] = Scratch; }, "programs[2].calls[4].inputs[2]: buffers[24] (softmax_cross_entropy) is read at byte 0 of region 6 (Workspace)"},
    {"fieldNotGiven", [](Mutable &m) { m.program(Prog::Evaluate).fields = {0}; }, "programs[3].calls[4].inputs[1]: buffers[26] (softmax_cross_entropy) is read at byte 768 of region 5 (Slot)"},
    {"prepareMissing", [](Mutable &m) { m.dropProgram(Prog::Prepare); }, "buffers[3] (embedding) is read at byte 640 of region 0 (Parameters)"},
    {"scaleBeforeBackward", [](Mutable &m) { m.program(Prog::Forward).calls[4]->inputs[2] = LossScale; }, "programs[2].calls[4].inputs[2]: buffers[12]"},
    {"countLeavesNoSlot", [](Mutable &m) { m.program(Prog::Forward).calls[4]->inputs[2] = LossCount; }, "programs[2].calls[4].inputs[2]: buffers[20]"},
    {"evaluateAlone", [](Mutable &m) { m.program(Prog::Evaluate).calls.erase(m.program(Prog::Evaluate).calls.begin() + 3); }, "programs[3].calls[3].inputs[0]: buffers[23]"},
    {"accumulateUnwritten", [](Mutable &m) { m.program(Prog::Backward).calls[2]->outputs[0] = Scratch, m.program(Prog::Backward).calls.erase(m.program(Prog::Backward).calls.begin() + 1); m.program(Prog::Backward).calls[1]->inputs = {Flat}; },
     "programs[4].calls[1].outputs[0]: buffers[24] (matmul_grad_weight) is read at byte 0"},
    {"writesConstants", [](Mutable &m) { m.program(Prog::Forward).calls[4]->outputs[1] = Scale; }, "programs[2].calls[4].outputs[1]: buffers[11] lies in a region of kind Constants, which a Forward program may not write"},
    {"writesParameters", [](Mutable &m) { m.program(Prog::Forward).calls[4]->outputs[1] = Bias; }, "buffers[1] lies in a region of kind Parameters, which a Forward program may not write"},
    {"writesGradients", [](Mutable &m) { m.program(Prog::Forward).calls[4]->outputs[1] = BiasGradient; }, "region of kind Gradients, which a Forward program may not write"},
    {"writesMoments", [](Mutable &m) { m.program(Prog::Backward).calls[3]->outputs[0] = BiasMoment; }, "region of kind OptimizerState, which a Backward program may not write"},
    {"normWritesSlot", [](Mutable &m) { m.program(Prog::Norm).calls[0]->outputs[0] = LossSum; }, "region of kind Slot, which a Norm program may not write"},
    {"partialOverlap", [](Mutable &m) { m.buffer(Logits).offset = m.buffer(Hidden).offset + 64; }, "programs[2].calls[3].outputs[0]: buffers[23] overlaps the operand buffers[22] in part"},
    {"overlapInRoom", [](Mutable &m) { m.buffer(Hidden).offset = m.buffer(Tokens).offset + 576; }, // The tokens never take more.
     "programs[2].calls[0].outputs[0]: buffers[21] overlaps the operand buffers[15] in part"},
    {"sameBytesOtherShape", [](Mutable &m) { m.program(Prog::Forward).calls[2]->outputs[0] = Flat; },
     "programs[2].calls[2].outputs[0]: buffers[22] overlaps the operand buffers[21] in part, or has another shape"},
    {"resultsOverlap", [](Mutable &m) { m.program(Prog::Forward).calls[3]->outputs = {Logits, Logits}; }, "programs[2].calls[3].outputs[1]: buffers[23] overlaps the result buffers[23]"},
    {"sumNotWritten", [](Mutable &m) { m.program(Prog::Forward).calls[4]->outputs[0] = kNone; }, "plan.executables[1].bindings[2]: the Backward program does not write buffers[19], the LossSum"},
    {"sumInStep", [](Mutable &m) { m.binding(Kind::LossSum).buffer = LossScale; }, "Step"},
    {"gradientNotWritten", [](Mutable &m) { m.program(Prog::Backward).calls.pop_back(); },
     "plan.executables[1].programs: neither Backward nor WeightGradient writes buffers[5], the gradient of parameters[1] ('lm_head.bias')"},
    {"gradientWrittenInPart", [](Mutable &m) { m.program(Prog::Backward).calls[2]->outputs[0] = BiasGradient; },
     "neither Backward nor WeightGradient writes buffers[4], the gradient of parameters[0] ('embed.weight')"},
    {"countNotWritten", [](Mutable &m) { m.program(Prog::Count).calls.clear(); }, "plan.executables[1].bindings[3]: the Count program does not write buffers[20], the LossCount"},
    {"normNotWritten", [](Mutable &m) { m.program(Prog::Norm).calls.clear(); }, "plan.executables[1].bindings[6]: the Norm program does not write buffers[14], the NormSquares"},
};

class VerifierRule : public testing::TestWithParam<Rule> {};

TEST_P(VerifierRule, isReported) {
  Mutable m;
  GetParam().breakIt(m);
  auto plan = Plan::fromBytes(test::packUnverified(m.plan));
  ASSERT_FALSE(plan.isOk());
  EXPECT_EQ(plan.status().code(), StatusCode::InvalidInput);
  EXPECT_THAT(std::string(plan.status().message()), testing::HasSubstr(GetParam().message));
  EXPECT_THAT(std::string(plan.status().message()), testing::EndsWith("; make the plan again with maestro-plan"));
}

INSTANTIATE_TEST_SUITE_P(All, VerifierRule, testing::ValuesIn(kRules),
                         [](const auto &info) { return std::string(info.param.name); });

// What is right must stay right.

struct Variant {
  const char *name;
  void (*change)(Mutable &m);
};

const Variant kVariants[] = {
    {"unchanged", [](Mutable &) {}},
    {"withoutPrediction", [](Mutable &m) { m.plan.prediction.reset(); }},
    {"withoutDecisions", [](Mutable &m) { m.plan.decisions.clear(); }},
    {"withoutExplanation",
     [](Mutable &m) { m.plan.candidates.clear(), m.plan.limits.clear(), m.plan.quantities.clear(); }},
    {"negativeQuantity", [](Mutable &m) { m.plan.quantities[0]->value = -5, m.plan.quantities[0]->unit = ""; }},
    {"plainSgd",
     [](Mutable &m) {
       m.training.optimizer = fb::Optimizer::Sgd;
       for (uint32_t i : {0u, 1u})
         m.dropBinding(Kind::Moment1, i), m.dropBinding(Kind::Moment2, i);
     }},
    {"sgdWithMomentum",
     [](Mutable &m) {
       m.training.optimizer = fb::Optimizer::Sgd, m.training.momentum = 0.9, m.training.nesterov = true;
       for (uint32_t i : {0u, 1u})
         m.dropBinding(Kind::Moment2, i);
     }},
    {"constantRate", [](Mutable &m) { m.training.decay = fb::Decay::Constant, m.training.total_steps = 0; }},
    {"withoutEvaluateInVersion10", [](Mutable &m) { m.plan.version_minor = 0, m.dropProgram(Prog::Evaluate); }},
    {"studentTwice", [](Mutable &m) { test::addReplica(m.builder); }},
    {"studentSplit", [](Mutable &m) { test::splitStudent(m.builder); }},
    {"studentShared", [](Mutable &m) { test::shareStudent(m.builder); }},
    {"twoReplicas",
     [](Mutable &m) {
       m.plan.sections[0]->layout->data_parallel = 2;
       Mutable::repeat(m.plan.stations, 0);
       m.plan.stations[2]->replica = 1;
     }},
    {"exprOfAnotherExecutable",
     [](Mutable &m) { // Undefined for the teacher, which does not use it.
       auto &bounds = m.plan.executables[0]->bounds;
       m.builder.dim(fb::DimOp::Mul, m.builder.symbolNamed("images"), m.builder.constant(3));
       bounds.erase(bounds.begin() + 2);
     }},
    {"frozenValueAsStored",
     [](Mutable &m) {
       m.plan.parameters[3]->dtype = m.plan.executables[0]->buffers[0]->dtype = static_cast<uint8_t>(DType::BF16);
       m.plan.executables[0]->buffers[0]->bytes /= 2;
     }},
    {"machineWithoutNetwork", [](Mutable &m) { m.plan.machine->links.clear(), m.plan.machine->device_kinds.clear(); }},
    {"memoryNotStated", [](Mutable &m) { m.plan.machine->memory_bytes = 0; }},
    {"emptyAttribute", [](Mutable &m) { m.plan.attribute_lists[0]->items[0]->ints.clear(); }},
    {"namesInUtf8", [](Mutable &m) { m.plan.name = "modèle 模型 🎼"; }},
    {"parameterWithoutElements",
     [](Mutable &m) {
       m.plan.version_minor = 0, m.plan.parameters[3]->shape = {0, 8},
       m.plan.executables[0]->bindings.erase(m.plan.executables[0]->bindings.begin());
       m.plan.executables[0]->programs.clear();
     }},
};

class VerifierVariant : public testing::TestWithParam<Variant> {};

TEST_P(VerifierVariant, isAccepted) {
  Mutable m;
  GetParam().change(m);
  auto plan = Plan::fromBytes(test::packUnverified(m.plan));
  EXPECT_TRUE(plan.isOk()) << plan.status().message();
}

INSTANTIATE_TEST_SUITE_P(All, VerifierVariant, testing::ValuesIn(kVariants),
                         [](const auto &info) { return std::string(info.param.name); });

/// Writers may store fields that have their default value; empty vectors then lie at other addresses, too.
TEST(Verifier, acceptsStoredDefaults) {
  Mutable m;
  flatbuffers::FlatBufferBuilder buffer;
  buffer.ForceDefaults(true);
  fb::FinishPlanBuffer(buffer, fb::Plan::Pack(buffer, &m.plan));
  auto plan = Plan::fromBytes({buffer.GetBufferPointer(), buffer.GetSize()});
  EXPECT_TRUE(plan.isOk()) << plan.status().message();
}

/// Damage anywhere is either noticed or harmless; sanitizers see the rest.
TEST(Verifier, survivesEveryFlippedByte) {
  const std::vector<uint8_t> bytes = test::exampleBytes();
  size_t refused = 0;
  for (size_t position = 0; position < bytes.size(); ++position)
    for (uint8_t flip : {0x01, 0x80, 0xff}) {
      std::vector<uint8_t> damaged = bytes;
      damaged[position] ^= flip;
      refused += !Plan::fromBytes(damaged).isOk();
    }
  EXPECT_GT(refused, bytes.size());
}

/// A small file whose sections share lists, so that it names far more than it holds.
std::string messageOfSharing(size_t sections, size_t components, size_t scopes) {
  flatbuffers::FlatBufferBuilder buffer;
  auto sharedComponents = buffer.CreateVector(std::vector<uint32_t>(components, 0));
  auto scope = buffer.CreateString("scope");
  auto sharedScopes = buffer.CreateVector(std::vector(scopes, scope));
  auto layout = fb::CreateLayout(buffer);
  std::vector<flatbuffers::Offset<fb::Section>> list;
  for (size_t i = 0; i < sections; ++i)
    list.push_back(fb::CreateSection(buffer, buffer.CreateString(std::to_string(i)), sharedComponents, false, layout, 1,
                                     sharedScopes));
  PlanBuilder rest = test::exampleBuilder();
  fb::PlanT &plan = rest.plan();
  auto name = buffer.CreateString("shared");
  auto strings = buffer.CreateVectorOfStrings(std::vector<std::string>());
  auto empty = [&]<typename T>(T *) { return buffer.CreateVector(std::vector<flatbuffers::Offset<T>>()); };
  std::vector<flatbuffers::Offset<fb::Component>> component = {fb::CreateComponent(buffer, plan.components[0].get())};
  auto file = fb::CreatePlan(
      buffer, 1, 0, name, name, 0, empty((fb::Symbol *)nullptr), buffer.CreateVectorOfStructs(plan.exprs.data(), 0),
      empty((fb::Field *)nullptr), empty((fb::SourceFile *)nullptr), buffer.CreateVector(component),
      empty((fb::Parameter *)nullptr), strings, strings, empty((fb::AttributeList *)nullptr), buffer.CreateVector(list),
      empty((fb::Edge *)nullptr), empty((fb::Executable *)nullptr), empty((fb::Station *)nullptr),
      empty((fb::Rank *)nullptr), fb::CreateMachine(buffer, plan.machine.get()), empty((fb::Loss *)nullptr),
      fb::CreateTraining(buffer, plan.training.get()), 0, empty((fb::Decision *)nullptr));
  fb::FinishPlanBuffer(buffer, file);
  auto result = Plan::fromBytes({buffer.GetBufferPointer(), buffer.GetSize()});
  return result ? "" : std::string(result.status().message());
}

TEST(Verifier, sharedListsAreRefusedInTime) {
  EXPECT_THAT(messageOfSharing(1 << 12, 1 << 18, 0), testing::HasSubstr("checking it would not end"));
  EXPECT_THAT(messageOfSharing(1 << 14, 0, 1 << 18), testing::HasSubstr("4294967296 names do not fit"));
  EXPECT_THAT(messageOfSharing(2, 10, 10), testing::HasSubstr("they serve 0 of the sections' 2 stages"));
}

} // namespace
} // namespace maestro::plan
