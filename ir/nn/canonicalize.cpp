// Folders: operators that do nothing, undo each other, or join. Each returns a value of exactly the result's type.
#include "ir/nn/nn.h"

namespace maestro::nn {

using mlir::OpFoldResult;
using mlir::Value;

/// `value` where it can stand for a result of type `type`.
static OpFoldResult sameType(Value value, mlir::Type type) {
  return value.getType() == type ? OpFoldResult(value) : OpFoldResult();
}

OpFoldResult CastOp::fold(FoldAdaptor) { return sameType(getX(), getType()); }
OpFoldResult BroadcastToOp::fold(FoldAdaptor) { return sameType(getX(), getType()); }

OpFoldResult NotOp::fold(FoldAdaptor) {
  auto inner = getX().getDefiningOp<NotOp>();
  return inner ? OpFoldResult(inner.getX()) : OpFoldResult();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getX().getType() == getType())
    return getX();
  auto inner = getX().getDefiningOp<ReshapeOp>();
  if (!inner)
    return {};
  getXMutable().assign(inner.getX());
  return getResult();
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  llvm::ArrayRef<int64_t> permutation = getPermutation();
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())))
    return getX();
  auto inner = getX().getDefiningOp<TransposeOp>();
  if (!inner)
    return {};
  llvm::SmallVector<int64_t> joined;
  for (int64_t dim : permutation)
    joined.push_back(inner.getPermutation()[dim]);
  setPermutation(joined);
  getXMutable().assign(inner.getX());
  return getResult();
}

/// Keys or values before exporters repeated them for grouped queries: [B, Hk, T, D] -> [B, Hk, 1, T, D] ->
/// broadcast [B, Hk, n, T, D] -> [B, Hk·n, T, D]. Null for anything else.
static Value beforeRepetition(Value heads) {
  auto merge = heads.getDefiningOp<ReshapeOp>();
  auto repeat = merge ? merge.getX().getDefiningOp<BroadcastToOp>() : nullptr;
  auto insert = repeat ? repeat.getX().getDefiningOp<ReshapeOp>() : nullptr;
  if (!insert)
    return {};
  llvm::ArrayRef<DimExpr> own = typeOf(insert.getX()).getShape(), many = typeOf(repeat).getShape();
  if (own.size() != 4 || many.size() != 5)
    return {};
  bool inserts = typeOf(insert).getShape() == llvm::ArrayRef{own[0], own[1], DimExpr(1), own[2], own[3]};
  bool repeats = many == llvm::ArrayRef{own[0], own[1], many[2], own[2], own[3]};
  bool merges = typeOf(heads).getShape() == llvm::ArrayRef{own[0], own[1] * many[2], own[2], own[3]};
  return inserts && repeats && merges ? insert.getX() : Value();
}

/// A query head reads its key head: nobody has to repeat it.
llvm::LogicalResult AttentionOp::fold(FoldAdaptor, llvm::SmallVectorImpl<OpFoldResult> &) {
  Value k = beforeRepetition(getK()), v = beforeRepetition(getV());
  if (getSequenceMajor() || !k || !v || !(typeOf(k).getDim(1) == typeOf(v).getDim(1)))
    return mlir::failure();
  getKMutable().assign(k);
  getVMutable().assign(v);
  return mlir::success();
}

//===----------------------------------------------------------------------===//
// Neutral elements
//===----------------------------------------------------------------------===//

OpFoldResult AddOp::fold(FoldAdaptor) {
  if (constantValue(getRhs()) == 0.0)
    return sameType(getLhs(), getType());
  if (constantValue(getLhs()) == 0.0)
    return sameType(getRhs(), getType());
  return {};
}

OpFoldResult SubOp::fold(FoldAdaptor) {
  return constantValue(getRhs()) == 0.0 ? sameType(getLhs(), getType()) : OpFoldResult();
}

OpFoldResult MulOp::fold(FoldAdaptor) {
  if (constantValue(getRhs()) == 1.0)
    return sameType(getLhs(), getType());
  if (constantValue(getLhs()) == 1.0)
    return sameType(getRhs(), getType());
  return {};
}

OpFoldResult DivOp::fold(FoldAdaptor) {
  return constantValue(getRhs()) == 1.0 ? sameType(getLhs(), getType()) : OpFoldResult();
}

} // namespace maestro::nn
