// Factor rules of recurrences: rows of the batch are independent; positions and the cell's blocks stay whole.
#include "ir/nn/rule_builder.h"

namespace maestro::nn {

/// The factors of rows and positions; what follows in a tensor has factors of its own.
namespace {
struct RowFactors {
  DimFactors batch, length;
};
} // namespace

static TensorFactors withBlocks(RuleBuilder &builder, const TensorFactors &leading, const DimExpr &blocks) {
  TensorFactors factors = leading;
  factors.push_back(builder.factor(blocks, FactorKind::Whole));
  return factors;
}

FactorRule RecurrenceOp::getFactorRule() {
  RuleBuilder builder(*this);
  RowFactors rows{builder.factor(builder.operandShape(0)[0]),
                  builder.factor(builder.operandShape(0)[1], FactorKind::Whole)};
  builder.operand(0) = withBlocks(builder, {rows.batch, rows.length}, builder.operandShape(0)[2]);
  builder.operand(1) = builder.factors(builder.operandShape(1), FactorKind::Whole);
  builder.operand(2) = withBlocks(builder, {rows.batch}, builder.operandShape(2)[1]);
  unsigned next = 3;
  if (getBias())
    builder.operand(next) = builder.factors(builder.operandShape(next), FactorKind::Whole), ++next;
  if (getLengths())
    builder.operand(next) = {rows.batch};
  for (unsigned i : {0u, 1u})
    builder.result(i) = withBlocks(builder, {rows.batch, rows.length}, builder.resultShape(i)[2]);
  return builder.take();
}

FactorRule RecurrenceGradOp::getFactorRule() {
  RuleBuilder builder(*this);
  RowFactors rows{builder.factor(builder.operandShape(0)[0]),
                  builder.factor(builder.operandShape(0)[1], FactorKind::Whole)};
  for (unsigned i : {0u, 3u, 4u})
    builder.operand(i) = withBlocks(builder, {rows.batch, rows.length}, builder.operandShape(i)[2]);
  builder.operand(1) = builder.factors(builder.operandShape(1), FactorKind::Whole);
  builder.operand(2) = withBlocks(builder, {rows.batch}, builder.operandShape(2)[1]);
  if (getLengths())
    builder.operand(5) = {rows.batch};
  builder.result(0) = withBlocks(builder, {rows.batch, rows.length}, builder.resultShape(0)[2]);
  builder.result(1) = builder.operand(2);
  return builder.take();
}

} // namespace maestro::nn
