// Operators on elements and generators.
#include "kernels/glu.h"
#include "kernels/shape.h"
#include "kernels/signature_checker.h"

namespace maestro::kernels {
namespace {

Status checkUnary(const Checker &c) {
  MAESTRO_TRY(c.counts(1, 1, 1, 1));
  return c.sameShape(c.out(0), c.in(0), "the result");
}

/// The result has exactly the shape that its operands broadcast to.
Status checkBroadcast(const Checker &c, size_t operands) {
  MAESTRO_TRY(c.counts(operands, operands, 1, 1));
  auto shape = c.out(0).shape();
  int rank = 0;
  for (size_t i = 0; i < operands; ++i) {
    MAESTRO_TRY(c.broadcasts(c.in(i).shape(), shape, "an operand"));
    rank = std::max(rank, c.in(i).rank);
  }
  for (int d = 0; d < c.out(0).rank; ++d) {
    int64_t widest = 1;
    for (size_t i = 0; i < operands; ++i)
      if (int at = d - (c.out(0).rank - c.in(i).rank); at >= 0 && c.in(i).dims[at] != 1)
        widest = c.in(i).dims[at];
    if (widest != shape[d])
      return c.fail(fmt::format("dim {} of the result is {}, its operands give {}", d, shape[d], widest));
  }
  return rank == c.out(0).rank ? Status() : c.fail("the result has more dims than its operands");
}
Status checkBinary(const Checker &c) { return checkBroadcast(c, 2); }
Status checkWhere(const Checker &c) { return checkBroadcast(c, 3); }

Status checkGlu(const Checker &c) {
  bool backward = c.spec.kernel == "glu_grad";
  MAESTRO_TRY(backward ? c.counts(3, 3, 2, 2) : c.counts(2, 2, 1, 1));
  for (size_t i = 1; i < c.spec.inputs.size(); ++i)
    MAESTRO_TRY(c.sameShape(c.in(i), c.in(0), "an operand"));
  for (size_t i = 0; i < c.spec.outputs.size(); ++i)
    MAESTRO_TRY(c.sameShape(c.out(i), c.in(0), "a result"));
  auto name = c.attributes.getText("activation", "");
  if (!gluActivationFromName(name))
    return c.fail(fmt::format("there is no activation '{}'", name));
  return Status();
}

Status checkGenerator(const Checker &c) {
  MAESTRO_TRY(c.counts(0, 0, 1, 1));
  if (c.spec.kernel == "dim_values")
    return c.listHas("values", static_cast<size_t>(c.out(0).elements()));
  return Status();
}

} // namespace

std::span<const SignatureRule> elementwiseRules() {
  static constexpr SignatureRule kRules[] = {
      {"neg", checkUnary},
      {"abs", checkUnary},
      {"exp", checkUnary},
      {"log", checkUnary},
      {"sqrt", checkUnary},
      {"rsqrt", checkUnary},
      {"reciprocal", checkUnary},
      {"sin", checkUnary},
      {"cos", checkUnary},
      {"asin", checkUnary},
      {"acos", checkUnary},
      {"atan", checkUnary},
      {"tanh", checkUnary},
      {"sigmoid", checkUnary},
      {"erf", checkUnary},
      {"relu", checkUnary},
      {"silu", checkUnary},
      {"softplus", checkUnary},
      {"floor", checkUnary},
      {"ceil", checkUnary},
      {"round", checkUnary},
      {"sign", checkUnary},
      {"not", checkUnary},
      {"isnan", checkUnary},
      {"isinf", checkUnary},
      {"gelu", checkUnary},
      {"cast", checkUnary},
      {"copy", checkUnary},
      {"add_into", checkUnary},
      {"tanh_grad", checkBinary},
      {"sigmoid_grad", checkBinary},
      {"relu_grad", checkBinary},
      {"silu_grad", checkBinary},
      {"gelu_grad", checkBinary},
      {"add", checkBinary},
      {"sub", checkBinary},
      {"mul", checkBinary},
      {"div", checkBinary},
      {"pow", checkBinary},
      {"maximum", checkBinary},
      {"minimum", checkBinary},
      {"mod", checkBinary},
      {"and", checkBinary},
      {"or", checkBinary},
      {"xor", checkBinary},
      {"equal", checkBinary},
      {"less", checkBinary},
      {"less_equal", checkBinary},
      {"greater", checkBinary},
      {"greater_equal", checkBinary},
      {"glu", checkGlu},
      {"glu_grad", checkGlu},
      {"where", checkWhere},
      {"fill", checkGenerator},
      {"iota", checkGenerator},
      {"dim_values", checkGenerator},
  };
  return kRules;
}

} // namespace maestro::kernels
