// Factor rules of dropout: rows belong to samples; what is dropped depends on the position in the sample.
#include "ir/nn/rule_builder.h"

namespace maestro::nn {

FactorRule DropoutOp::getFactorRule() {
  RuleBuilder builder(*this);
  const DimExpr &rows = builder.operandShape(0)[0], &samples = builder.operandShape(2)[0];
  std::optional<DimExpr> rowsPerSample = rows.exactQuotient(samples);
  TensorFactors x = builder.factors(builder.operandShape(0), FactorKind::Whole);
  if (rowsPerSample) {
    builder.operand(2)[0] = builder.factor(samples);
    x[0] = builder.operand(2)[0];
    x[0].append(builder.factor(*rowsPerSample, FactorKind::Whole));
  } else {
    builder.operand(2)[0] = builder.factor(samples, FactorKind::Whole);
  }
  builder.operand(1) = builder.factors(builder.operandShape(1), FactorKind::Whole);
  builder.operand(0) = builder.result(0) = x;
  return builder.take();
}

} // namespace maestro::nn
