// What operators do and move, as polynomials of the dims. Trials emit the same layers many times over: each is asked
// once.
#pragma once

#include "ir/dim_expr.h"

#include "mlir/IR/Operation.h"

#include "llvm/ADT/Hashing.h"

#include <unordered_map>
#include <vector>

namespace maestro::planner {

/// The same of operators with equal attributes, operands and results; lives no longer than their context.
struct OperatorKey {
  explicit OperatorKey(mlir::Operation &op);
  bool operator==(const OperatorKey &) const = default;

  struct Hash {
    size_t operator()(const OperatorKey &key) const {
      return llvm::hash_combine_range(key.parts.begin(), key.parts.end());
    }
  };

  std::vector<const void *> parts;
};

template <typename Value> using OperatorMap = std::unordered_map<OperatorKey, Value, OperatorKey::Hash>;

struct OperatorWork {
  DimExpr flops, bytes; ///< nn::CostOpInterface; 0 where it has none.
};

/// Of any number of emissions in one context. One thread at a time.
class OperatorWorks {
public:
  const OperatorWork &of(mlir::Operation &op);

private:
  OperatorMap<OperatorWork> known;
};

} // namespace maestro::planner
