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

} // namespace maestro::kernels
