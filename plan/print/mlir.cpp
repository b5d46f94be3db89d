// Generic MLIR: regions and buffers as operations, one kernel call a line.
//
//   mlir-opt --allow-unregistered-dialect plan.mlir
//
// Operands of a call are its inputs, then its outputs (buffers are memory, not values); absent ones are
// %none, and `inputs` says how many there are.
#include "base/dtype.h"
#include "plan/dims.h"
#include "plan/print/formats.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace maestro::plan {
namespace {

/// A string literal.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char character : text) {
    auto byte = static_cast<uint8_t>(character);
    if (byte == '"' || byte == '\\' || byte < 0x20 || byte == 0x7f)
      result += fmt::format("\\{:02X}", byte);
    else
      result += character;
  }
  return result + "\"";
}

std::string floatLiteral(double value) {
  if (!std::isfinite(value)) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return fmt::format("0x{:016X} : f64", bits);
  }
  std::string text = fmt::format("{:e}", value);
  if (text.find('.') == text.npos)
    text.insert(text.find('e'), ".0");
  return text + " : f64";
}

const char *elementType(uint8_t dtype) {
  constexpr const char *kNames[] = {"f32", "f64", "bf16", "f16", "i64", "i32", "i16", "i8", "ui8", "i1"};
  static_assert(std::size(kNames) == kDTypeCount);
  return kNames[dtype];
}

template <typename T, typename Text> std::string join(const flatbuffers::Vector<T> &values, Text text) {
  std::string result;
  for (T value : values)
    result += (result.empty() ? "" : ", ") + text(value);
  return result;
}

class Mlir {
public:
  Mlir(const Plan &plan, const Selection &selection) : plan(plan), selection(selection), dims(*plan) {}

  std::string take() {
    line(R"("builtin.module"() ({{)");
    ++depth;
    line(R"(%none = "plan.none"() : () -> none)");
    for (const fb::Symbol *symbol : *plan->symbols())
      line(R"("plan.symbol"() {{name = {}, combine = "{}", sample_max = {} : i64, multiple_of = {} : i64}} : () -> ())",
           quoted(symbol->name()->string_view()), fb::EnumNameCombine(symbol->combine()), symbol->sample_max(),
           symbol->multiple_of());
    for (uint32_t i = 0; i < plan->executables()->size(); ++i)
      if (selection.hasExecutable(i))
        executable(*plan->executables()->Get(i));
    --depth;
    line(R"(}}) {{plan.name = {}, plan.producer = {}}} : () -> ())", quoted(plan->name()->string_view()),
         quoted(plan->producer()->string_view()));
    return std::move(text);
  }

private:
  template <typename... Args> void line(fmt::format_string<Args...> format, Args &&...args) {
    text.append(2 * depth, ' ');
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
    text += '\n';
  }

  void executable(const fb::Executable &executable) {
    line(R"("plan.executable"() ({{)");
    ++depth;
    for (const fb::Region *region : *executable.regions())
      line(R"("plan.region"() {{kind = "{}", bytes = {} : ui64, copies = {} : i64}} : () -> ())",
           fb::EnumNameRegionKind(region->kind()), region->bytes(), region->copies());
    for (const fb::Bound *bound : *executable.bounds())
      line(R"("plan.bound"() {{symbol = {}, value = {} : i64}} : () -> ())",
           quoted(plan->symbols()->Get(bound->symbol())->name()->string_view()), bound->value());
    for (uint32_t i = 0; i < executable.buffers()->size(); ++i)
      buffer(executable, i);
    for (const fb::Binding *binding : *executable.bindings())
      line(R"("plan.binding"({}) {{kind = "{}", to = {}}} : ({}) -> ())", bufferName(binding->buffer()),
           fb::EnumNameBindingKind(binding->kind()), quoted(bindingTarget(*binding)),
           bufferType(executable, binding->buffer()));
    for (const fb::Program *program : *executable.programs())
      this->program(executable, *program);
    --depth;
    line(R"(}}) {{name = {}, section = {}, stage = {} : i64, samples = {} : i64, peak_bytes = {} : ui64}} : () -> ())",
         quoted(executable.name()->string_view()),
         quoted(plan->sections()->Get(executable.section())->name()->string_view()), executable.stage(),
         executable.samples(), executable.peak_bytes());
  }

  std::string bindingTarget(const fb::Binding &binding) const {
    switch (binding.kind()) {
    case fb::BindingKind::Field:
      return plan->fields()->Get(binding.index())->name()->str();
    case fb::BindingKind::LossSum:
    case fb::BindingKind::LossCount:
    case fb::BindingKind::LossScale:
      return plan->losses()->Get(binding.index())->name()->str();
    case fb::BindingKind::Value:
    case fb::BindingKind::Gradient:
    case fb::BindingKind::Moment1:
    case fb::BindingKind::Moment2: {
      const fb::Parameter &parameter = *plan->parameters()->Get(binding.index());
      return plan->components()->Get(parameter.component())->name()->str() + "." + parameter.name()->str();
    }
    case fb::BindingKind::EdgeInput:
    case fb::BindingKind::EdgeOutput:
    case fb::BindingKind::EdgeGradientInput:
    case fb::BindingKind::EdgeGradientOutput:
      return plan->edges()->Get(binding.index())->name()->str();
    default:
      return "";
    }
  }

  static std::string bufferName(uint32_t buffer) { return buffer == kNone ? "%none" : fmt::format("%b{}", buffer); }

  std::string bufferType(const fb::Executable &executable, uint32_t index) const {
    if (index == kNone)
      return "none";
    const fb::Buffer &buffer = *executable.buffers()->Get(index);
    std::string type = "tensor<";
    for (uint32_t expr : *buffer.shape()) {
      const fb::DimExpr &dim = *plan->exprs()->Get(expr);
      type += dim.op() == fb::DimOp::Constant ? fmt::format("{}x", dim.a()) : "?x";
    }
    return type + elementType(buffer.dtype()) + ">";
  }

  void buffer(const fb::Executable &executable, uint32_t index) {
    const fb::Buffer &buffer = *executable.buffers()->Get(index);
    std::string shape = join(*buffer.shape(), [&](uint32_t expr) { return quoted(dims.text(expr)); });
    line(R"({} = "plan.buffer"() {{{}region = "{}", offset = {} : ui64, bytes = {} : ui64, shape = [{}]{}}} : () -> {})",
         bufferName(index), buffer.name() ? "name = " + quoted(buffer.name()->string_view()) + ", " : "",
         fb::EnumNameRegionKind(executable.regions()->Get(buffer.region())->kind()), buffer.offset(), buffer.bytes(),
         shape, buffer.constant() ? ", constant = \"0x" + hex(*buffer.constant()) + "\"" : "",
         bufferType(executable, index));
  }

  static std::string hex(const flatbuffers::Vector<uint8_t> &bytes) {
    std::string digits;
    for (uint8_t byte : bytes)
      fmt::format_to(std::back_inserter(digits), "{:02x}", byte);
    return digits;
  }

  void program(const fb::Executable &executable, const fb::Program &program) {
    line(R"("plan.program"() ({{)");
    ++depth;
    for (const fb::Call *call : *program.calls())
      this->call(executable, *call);
    --depth;
    line(R"(}}) {{kind = "{}", fields = [{}], flops = {}, memory_bytes = {}}} : () -> ())",
         fb::EnumNameProgramKind(program.kind()),
         join(*program.fields(), [&](uint32_t field) { return quoted(plan->fields()->Get(field)->name()->string_view()); }),
         quoted(dims.text(program.flops())), quoted(dims.text(program.memory_bytes())));
  }

  void call(const fb::Executable &executable, const fb::Call &call) {
    std::string operands, types;
    for (const auto *vector : {call.inputs(), call.outputs()})
      for (uint32_t buffer : *vector) {
        operands += (operands.empty() ? "" : ", ") + bufferName(buffer);
        types += (types.empty() ? "" : ", ") + bufferType(executable, buffer);
      }
    std::string scope = call.scope() == kNone ? "" : ", scope = " + quoted(plan->scopes()->Get(call.scope())->string_view());
    line(R"("plan.call"({}) {{kernel = {}, inputs = {} : i64{}{}}} : ({}) -> ())", operands,
         quoted(plan->kernels()->Get(call.kernel())->string_view()), call.inputs()->size(), attributes(call), scope, types);
  }

  std::string attributes(const fb::Call &call) const {
    if (call.attributes() == kNone)
      return "";
    std::string result;
    for (const fb::Attribute *item : *plan->attribute_lists()->Get(call.attributes())->items())
      result += (result.empty() ? "" : ", ") + quoted(item->name()->string_view()) + " = " + value(*item);
    return ", attributes = {" + result + "}";
  }

  std::string value(const fb::Attribute &attribute) const {
    if (attribute.floats())
      return "[" + join(*attribute.floats(), floatLiteral) + "]";
    if (attribute.text())
      return quoted(attribute.text()->string_view());
    if (attribute.exprs())
      return "[" + join(*attribute.exprs(), [&](uint32_t expr) { return quoted(dims.text(expr)); }) + "]";
    if (attribute.ints())
      return "[" + join(*attribute.ints(), [](int64_t number) { return fmt::format("{} : i64", number); }) + "]";
    return "[]";
  }

  const Plan &plan;
  const Selection &selection;
  DimTable dims;
  std::string text;
  size_t depth = 0;
};

} // namespace

std::string printMlir(const Plan &plan, const Selection &selection) { return Mlir(plan, selection).take(); }

} // namespace maestro::plan
