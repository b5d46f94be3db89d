// How an operator may be split over devices, as one rule per operator.
//
// Each dim of each operand and result is a product of factors. Splitting a factor splits every dim that carries
// it. matmul: `(i,k),(k,j)->(i,j) reduce k`; softmax over the last dim: `(i,j)->(i,j) whole j`; the reshape
// [batch, seq, 768] -> [batch*seq, 12, 64]: `(i,j,k*l)->(i*j,k,l)`, where only the first factor of a product
// can be split into contiguous blocks. An absent optional operand has no entry.
#pragma once

#include "ir/dim_expr.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace maestro::nn {

/// What splitting a factor does.
enum class FactorKind {
  Parallel,  ///< Every device computes its part of the results.
  ReduceSum, ///< The results that lack the factor are partial sums.
  ReduceMax, ///< … partial maxima,
  ReduceMin, ///< … or minima.
  Whole,     ///< Must not be split: every device needs all of it.
};

struct Factor {
  DimExpr size; ///< 1 in a rule that was parsed: text carries no sizes.
  FactorKind kind = FactorKind::Parallel;
};

/// Factors of one dim, slowest varying first; none for a dim of size 1 (broadcast, kept after a reduction).
using DimFactors = llvm::SmallVector<unsigned, 2>;
using TensorFactors = llvm::SmallVector<DimFactors, 4>;

struct FactorRule {
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<TensorFactors> operandDims; ///< [operand][dim]: indices into `factors`
  llvm::SmallVector<TensorFactors> resultDims;  ///< [result][dim]

  unsigned addFactor(const DimExpr &size, FactorKind kind = FactorKind::Parallel);
  /// The factor that is alone in this dim; nothing for products and dims of size 1.
  static std::optional<unsigned> soleFactor(const TensorFactors &tensor, size_t dim);

  /// `(i,k),(k,j)->(i,j) reduce k`. Factors are named i, j, k … in order of appearance; `1` is a dim without
  /// factors, `()` a scalar. Kinds other than parallel follow: reduce, reduce_max, reduce_min, whole.
  std::string str() const;
  /// The inverse of str() but for sizes; nothing for malformed text.
  static std::optional<FactorRule> parse(llvm::StringRef text);
};

} // namespace maestro::nn
