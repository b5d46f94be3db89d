#include "kernels/signature.h"

#include "kernels/signature_checker.h"

namespace maestro::kernels {

Status checkSignature(const CallSpec &spec) {
  Checker checker(spec);
  for (const TensorType &type : spec.inputs)
    MAESTRO_TRY(checker.sane(type));
  for (const TensorType &type : spec.outputs)
    MAESTRO_TRY(checker.sane(type));
  for (auto rules : {elementwiseRules(), movementRules(), productRules(), trainingRules()})
    if (auto rule = std::ranges::find(rules, spec.kernel, &SignatureRule::name); rule != rules.end())
      return rule->check(checker);
  return Status();
}

bool mayOverwrite(std::string_view kernel, size_t operand) {
  if (std::ranges::find(elementwiseRules(), kernel, &SignatureRule::name) != elementwiseRules().end())
    return true; // An element of the result from the operands' elements there; what is broadcast has another shape.
  for (std::string_view byRow : {"softmax", "log_softmax", "softmax_grad", "log_softmax_grad"})
    if (kernel == byRow)
      return true;
  for (std::string_view loss : {"cross_entropy_grad", "kl_divergence_grad"})
    if (kernel == loss)
      return operand == 0;
  if (kernel == "matmul")
    return operand == 3; // What products are added to.
  for (std::string_view optimizer : {"adam", "adamw", "sgd", "muon", "adafactor", "average"})
    if (kernel == optimizer)
      return true; // Each over its own, element by element; the scalars have another shape.
  return false;
}

} // namespace maestro::kernels
