// Preparing elementwise operators: which of a name's kernels serves the element types, and how operands broadcast.
#include "kernels/cuda/elementwise.h"

#include "kernels/cuda/cast.h"
#include "kernels/cuda/prepare.h"

#include <algorithm>

namespace maestro::kernels::cuda {
namespace {

/// The kernels' stem: "gelu_tanh" for gelu with approximate = "tanh", "fmod" for mod with fmod.
std::string stemOf(const Call &call) {
  std::string_view name = call.spec.kernel;
  bool tangent = call.attributes().getText("approximate", "none") == "tanh";
  if (name == "gelu" && tangent)
    return "gelu_tanh";
  if (name == "gelu_grad" && tangent)
    return "gelu_tanh_grad";
  if (name == "mod" && call.attributes().getFlag("fmod"))
    return "fmod";
  if (name == "glu")
    return "glu_" + std::string(call.attributes().getText("activation", ""));
  return std::string(name);
}

struct NamedOp {
  std::string_view name;
  IntegerOp op;
};
constexpr NamedOp kIntegerOps[] = {
    {"neg", IntegerOp::Neg},         {"abs", IntegerOp::Abs},
    {"relu", IntegerOp::Relu},       {"sign", IntegerOp::Sign},
    {"not", IntegerOp::Not},         {"isnan", IntegerOp::IsNaN},
    {"isinf", IntegerOp::IsInf},     {"floor", IntegerOp::Same},
    {"ceil", IntegerOp::Same},       {"add", IntegerOp::Add},
    {"sub", IntegerOp::Sub},         {"mul", IntegerOp::Mul},
    {"div", IntegerOp::Div},         {"pow", IntegerOp::Pow},
    {"maximum", IntegerOp::Maximum}, {"minimum", IntegerOp::Minimum},
    {"mod", IntegerOp::Mod},         {"fmod", IntegerOp::Fmod},
    {"and", IntegerOp::And},         {"or", IntegerOp::Or},
    {"xor", IntegerOp::Xor},         {"equal", IntegerOp::Equal},
    {"less", IntegerOp::Less},       {"less_equal", IntegerOp::LessEqual},
    {"greater", IntegerOp::Greater}, {"greater_equal", IntegerOp::GreaterEqual},
};

bool compares(std::string_view name) {
  return name == "equal" || name.starts_with("less") || name.starts_with("greater");
}
bool tests(std::string_view name) { return name == "not" || name == "isnan" || name == "isinf"; }

Strided<2> broadcastPair(const Call &call) {
  auto shape = call.out(0).shape();
  return joinDims<2>(shape, {broadcastStrides(call.in(0).shape(), shape),
                             call.hasIn(1) ? broadcastStrides(call.in(1).shape(), shape) : Dims{}});
}

PreparedKernel prepareIntegers(const Call &call) {
  auto found = std::ranges::find(kIntegerOps, stemOf(call), &NamedOp::name);
  if (found == std::end(kIntegerOps))
    return unsupported();
  IntegerParams params{anyTensor(call.in(0)),  call.hasIn(1) ? anyTensor(call.in(1)) : AnyTensor{},
                       anyTensor(call.out(0)), found->op,
                       call.out(0).elements(), broadcastPair(call)};
  auto sequence = call.sequence();
  MAESTRO_TRY(
      sequence->add("integer_elements", blocksFor(params.count), params, [](IntegerParams &p, const Operands &o) {
        p.a.data = address(o.in(0));
        p.b.data = address(o.in(1));
        p.y.data = o.out(0);
      }));
  return prepared(std::move(sequence));
}

bool isWide(const TensorType &type) { return type.present && type.dtype == DType::F64; }

} // namespace

PreparedKernel prepareUnary(const Call &call) {
  if (!isFloat(call.in(0).dtype))
    return prepareIntegers(call);
  if (isWide(call.in(0)) || isWide(call.out(0)))
    return unsupported();
  std::string stem = stemOf(call);
  const char *fast = fastSuffix(call.in(0).dtype);
  bool any = !fast || call.out(0).dtype != call.in(0).dtype || tests(stem);
  int64_t count = call.out(0).elements();
  int64_t perThread = any ? 1 : 16 / static_cast<int64_t>(byteSize(call.in(0).dtype));
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(stem + "_" + (any ? "any" : fast), blocksFor((count + perThread - 1) / perThread),
                            UnaryParams{nullptr, nullptr, count, false, call.in(0).dtype, call.out(0).dtype},
                            [](UnaryParams &p, const Operands &o) {
                              p.x = o.in(0);
                              p.y = o.out(0);
                              p.packed = aligned(p.x) && aligned(p.y);
                            }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareBinary(const Call &call) {
  DType a = call.in(0).dtype, b = call.in(1).dtype, y = call.out(0).dtype;
  if (!isFloat(a) && !isFloat(b))
    return prepareIntegers(call);
  if (isWide(call.in(0)) || isWide(call.in(1)) || isWide(call.out(0)))
    return unsupported();
  std::string stem = stemOf(call);
  bool logical = stem == "and" || stem == "or" || stem == "xor";
  if (logical)
    return unsupported(); // Of floats: no graph has them.
  const char *fast = fastSuffix(a);
  bool any = !fast || b != a || y != a || compares(stem) || stem.ends_with("mod");
  int64_t count = call.out(0).elements();
  int64_t perThread = any ? 1 : 16 / static_cast<int64_t>(byteSize(a));
  BinaryParams params{nullptr, nullptr, nullptr, count, false, broadcastPair(call), a, b, y};
  bool packed = !any && packs(params.map, perThread);
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(stem + "_" + (any ? "any" : fast), blocksFor((count + perThread - 1) / perThread), params,
                            [packed](BinaryParams &p, const Operands &o) {
                              p.a = o.in(0);
                              p.b = o.in(1);
                              p.y = o.out(0);
                              p.packed = packed && aligned(p.a) && aligned(p.b) && aligned(p.y);
                            }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareGluGrad(const Call &call) {
  DType type = call.in(0).dtype;
  bool alike = true;
  for (size_t i = 0; i < 3; ++i) {
    if (!isFloat(call.in(i).dtype) || isWide(call.in(i)))
      return unsupported();
    alike &= call.in(i).dtype == type && call.out(i % 2).dtype == type;
  }
  if (isWide(call.out(0)) || isWide(call.out(1)))
    return unsupported();
  const char *fast = alike ? fastSuffix(type) : nullptr;
  int64_t count = call.out(0).elements(), perThread = fast ? 8 : 1;
  GluGradParams params{anyTensor(call.in(0)),
                       anyTensor(call.in(1)),
                       anyTensor(call.in(2)),
                       anyTensor(call.out(0)),
                       anyTensor(call.out(1)),
                       count,
                       false};
  std::string kernel = "glu_grad_" + std::string(call.attributes().getText("activation", "")) + "_";
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add(kernel + (fast ? fast : "any"), blocksFor((count + perThread - 1) / perThread), params,
                            [](GluGradParams &p, const Operands &o) {
                              p.dy.data = address(o.in(0));
                              p.gate.data = address(o.in(1));
                              p.up.data = address(o.in(2));
                              p.dgate.data = o.out(0);
                              p.dup.data = o.out(1);
                              p.packed = aligned(p.dy.data) && aligned(p.gate.data) && aligned(p.up.data) &&
                                         aligned(p.dgate.data) && aligned(p.dup.data);
                            }));
  return prepared(std::move(sequence));
}

PreparedKernel prepareWhere(const Call &call) {
  DType type = call.out(0).dtype;
  if (call.in(1).dtype != type || call.in(2).dtype != type)
    return unsupported();
  auto shape = call.out(0).shape();
  WhereParams params{
      anyTensor(call.in(0)),
      nullptr,
      nullptr,
      nullptr,
      call.out(0).elements(),
      joinDims<3>(shape, {broadcastStrides(call.in(0).shape(), shape), broadcastStrides(call.in(1).shape(), shape),
                          broadcastStrides(call.in(2).shape(), shape)})};
  auto sequence = call.sequence();
  MAESTRO_TRY(sequence->add("where_" + std::to_string(byteSize(type)), blocksFor(params.count), params,
                            [](WhereParams &p, const Operands &o) {
                              p.condition.data = address(o.in(0));
                              p.onTrue = o.in(1);
                              p.onFalse = o.in(2);
                              p.y = o.out(0);
                            }));
  return prepared(std::move(sequence));
}

CastKernel castKernel(DType from, DType to, bool adds) {
  if (const char *a = fastSuffix(from), *b = fastSuffix(to); a && b) {
    if (from == DType::F32)
      return {to == DType::F32 ? "cast_f32_f32" : "cast_f32_bf16", 8};
    return {to == DType::F32 ? "cast_bf16_f32" : "cast_bf16_bf16", 8};
  }
  return {isFloat(from) || (adds && isFloat(to)) ? "cast_double" : "cast_integer", 1};
}

PreparedKernel prepareCast(const Call &call) {
  bool adds = call.spec.kernel == "add_into";
  auto sequence = call.sequence();
  MAESTRO_TRY(addCast(
      *sequence, call.in(0).dtype, call.out(0).dtype, call.out(0).elements(), adds,
      [](const Operands &o) { return o.in(0); }, [](const Operands &o) { return o.out(0); }));
  return prepared(std::move(sequence));
}

} // namespace maestro::kernels::cuda
