// Factor rules of gathering and scattering. What indices address must be whole.
#include "ir/nn/rule_builder.h"

namespace maestro::nn {

/// gather of `data` at `indices`, dim by dim: the factors of all three tensors.
namespace {
struct GatherFactors {
  TensorFactors data, indices, result;
};
} // namespace

static GatherFactors gatherFactors(RuleBuilder &builder, llvm::ArrayRef<DimExpr> data, llvm::ArrayRef<DimExpr> indices,
                                   unsigned axis, FactorKind indexKind) {
  GatherFactors factors;
  factors.data = builder.factors(data);
  factors.data[axis] = builder.factor(data[axis], FactorKind::Whole);
  factors.indices = builder.factors(indices, indexKind);
  factors.result.append(factors.data.begin(), factors.data.begin() + axis);
  factors.result.append(factors.indices);
  factors.result.append(factors.data.begin() + axis + 1, factors.data.end());
  return factors;
}

FactorRule GatherOp::getFactorRule() {
  RuleBuilder builder(*this);
  GatherFactors factors =
      gatherFactors(builder, builder.operandShape(0), builder.operandShape(1), getAxis(), FactorKind::Parallel);
  builder.operand(0) = factors.data;
  builder.operand(1) = factors.indices;
  builder.result(0) = factors.result;
  return builder.take();
}

FactorRule GatherGradOp::getFactorRule() {
  RuleBuilder builder(*this);
  GatherFactors factors =
      gatherFactors(builder, builder.resultShape(0), builder.operandShape(0), getAxis(), FactorKind::ReduceSum);
  builder.operand(0) = factors.indices;
  builder.operand(1) = factors.result;
  builder.result(0) = factors.data;
  return builder.take();
}

//===----------------------------------------------------------------------===//
// Along one axis
//===----------------------------------------------------------------------===//

FactorRule GatherElementsOp::getFactorRule() {
  RuleBuilder builder(*this);
  for (unsigned dim = 0; dim < builder.operandShape(0).size(); ++dim) {
    const DimExpr &data = builder.operandShape(0)[dim], &index = builder.operandShape(1)[dim];
    bool split = dim != getAxis() && data == index;
    bool free = dim == getAxis(); // Positions along the axis are independent of each other.
    DimFactors factor = builder.factor(index, split || free ? FactorKind::Parallel : FactorKind::Whole);
    builder.operand(1)[dim] = builder.result(0)[dim] = factor;
    builder.operand(0)[dim] = split ? factor : builder.factor(data, FactorKind::Whole);
  }
  return builder.take();
}

FactorRule ScatterElementsOp::getFactorRule() {
  RuleBuilder builder(*this);
  for (unsigned dim = 0; dim < builder.operandShape(0).size(); ++dim) {
    const DimExpr &data = builder.operandShape(0)[dim], &index = builder.operandShape(1)[dim];
    bool split = dim != getAxis() && data == index;
    FactorKind kind = split ? FactorKind::Parallel : FactorKind::Whole;
    builder.operand(0)[dim] = builder.result(0)[dim] = builder.factor(data, kind);
    builder.operand(1)[dim] = builder.operand(2)[dim] = split ? builder.operand(0)[dim] : builder.factor(index, kind);
  }
  return builder.take();
}

//===----------------------------------------------------------------------===//
// With index vectors
//===----------------------------------------------------------------------===//

/// gather_nd of `data` at `indices`.
static GatherFactors gatherNDFactors(RuleBuilder &builder, llvm::ArrayRef<DimExpr> data,
                                     llvm::ArrayRef<DimExpr> indices, unsigned batchDims, FactorKind indexKind) {
  GatherFactors factors;
  unsigned depth = static_cast<unsigned>(indices.back().asConstant().value_or(0));
  factors.data = builder.factors(data.take_front(batchDims));
  factors.indices = factors.data;
  factors.data.append(builder.factors(data.slice(batchDims, depth), FactorKind::Whole));
  factors.data.append(builder.factors(data.drop_front(batchDims + depth)));
  factors.indices.append(builder.factors(indices.drop_front(batchDims).drop_back(1), indexKind));
  factors.result = factors.indices;
  factors.result.append(factors.data.begin() + batchDims + depth, factors.data.end());
  factors.indices.push_back(builder.factor(indices.back(), FactorKind::Whole));
  return factors;
}

FactorRule GatherNDOp::getFactorRule() {
  RuleBuilder builder(*this);
  GatherFactors factors =
      gatherNDFactors(builder, builder.operandShape(0), builder.operandShape(1), getBatchDims(), FactorKind::Parallel);
  builder.operand(0) = factors.data;
  builder.operand(1) = factors.indices;
  builder.result(0) = factors.result;
  return builder.take();
}

FactorRule GatherNDGradOp::getFactorRule() {
  RuleBuilder builder(*this);
  GatherFactors factors =
      gatherNDFactors(builder, builder.resultShape(0), builder.operandShape(0), getBatchDims(), FactorKind::ReduceSum);
  builder.operand(0) = factors.indices;
  builder.operand(1) = factors.result;
  builder.result(0) = factors.data;
  return builder.take();
}

FactorRule ScatterNDOp::getFactorRule() {
  RuleBuilder builder(*this);
  GatherFactors factors =
      gatherNDFactors(builder, builder.operandShape(0), builder.operandShape(1), 0, FactorKind::Whole);
  builder.operand(0) = builder.result(0) = factors.data;
  builder.operand(1) = factors.indices;
  builder.operand(2) = factors.result;
  return builder.take();
}

// Which element of `source` goes where depends on the whole mask.
FactorRule MaskedScatterOp::getFactorRule() {
  RuleBuilder builder(*this);
  builder.operand(0) = builder.factors(builder.operandShape(0), FactorKind::Whole);
  builder.operand(1) = builder.result(0) = builder.operand(0);
  builder.operand(2) = builder.factors(builder.operandShape(2), FactorKind::Whole);
  return builder.take();
}

FactorRule MaskedScatterGradOp::getFactorRule() {
  RuleBuilder builder(*this);
  builder.operand(0) = builder.factors(builder.operandShape(0), FactorKind::Whole);
  builder.operand(1) = builder.operand(0);
  builder.result(0) = builder.factors(builder.resultShape(0), FactorKind::Whole);
  return builder.take();
}

} // namespace maestro::nn
