// Reading and building the functions that passes/attributes.h describes.
#pragma once

#include "passes/attributes.h"

#include "ir/nn/nn.h"
#include "ir/section/section.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/DenseSet.h"

#include <map>
#include <optional>
#include <string>

namespace maestro {

/// The function of that name, or null.
mlir::func::FuncOp findFunction(mlir::ModuleOp module, llvm::StringRef name);

/// The text of an argument's or a result's attribute; empty when absent.
llvm::StringRef argumentText(mlir::func::FuncOp function, unsigned index, llvm::StringRef attribute);
llvm::StringRef resultText(mlir::func::FuncOp function, unsigned index, llvm::StringRef attribute);

/// A result that carries nn.loss.
struct LossResult {
  unsigned index = 0; ///< of the result
  std::string name;
  std::string role; ///< "mean", "sum" or "count"
  int64_t term = 0;
  double weight = 1.0;
  double floor = 0.0; ///< Of a count: the sum is divided by no less than this.
};
llvm::SmallVector<LossResult> lossResults(mlir::func::FuncOp function);
/// nn.loss, and nn.term, nn.weight and nn.floor where they differ from their defaults.
mlir::DictionaryAttr lossAttributes(mlir::MLIRContext *context, const LossResult &loss);

/// One result of a function under construction.
struct FunctionResult {
  mlir::Value value;
  mlir::DictionaryAttr attributes;
};

/// Replaces the function's return values, type and result attributes.
void setResults(mlir::func::FuncOp function, llvm::ArrayRef<FunctionResult> results);
/// The operands of the function's return.
mlir::OperandRange returnedValues(mlir::func::FuncOp function);
/// The operations that `values` are computed by.
llvm::DenseSet<mlir::Operation *> backwardSlice(llvm::ArrayRef<mlir::Value> values);
/// Operations that no result needs.
void eraseDeadOperations(mlir::func::FuncOp function);

/// How symbols combine over samples, from the module's nn.dims.
class DimTable {
public:
  /// From the module, or the one that it is in. Fails, saying so, on an nn.dims of another form.
  /// Without nn.dims: the leading symbol of a data field sums, the others are padded.
  static mlir::FailureOr<DimTable> of(mlir::ModuleOp module);

  bool sums(llvm::StringRef symbol) const;
  /// The symbol that counts the samples' own rows (the entry marked `own`), or the only one that sums; "" if neither.
  std::string own() const;
  /// The largest value for one sample; nothing when undeclared.
  std::optional<int64_t> bound(llvm::StringRef symbol) const;
  /// Whether the expression contains a symbol that sums, and which.
  std::optional<std::string> summedSymbol(const DimExpr &expr) const;
  /// Whether the expression's value for a batch is the sum of its values for the samples: every
  /// term contains exactly one summed symbol, once, and no padded one.
  bool isAdditive(const DimExpr &expr) const;

private:
  struct Entry {
    bool sums = false;
    bool own = false;
    std::optional<int64_t> bound;
  };
  std::map<std::string, Entry, std::less<>> entries;
};

/// What a value or an operator is computed from.
struct Origin {
  bool parameter = false, data = false, trains = false;
  /// Work of the model; what follows from data alone or from parameters alone, each section computes for itself.
  bool isModel() const { return parameter && data; }
};

/// The origins of a function's operations, which are added in their order.
class Origins {
public:
  Origin add(mlir::Operation *op);
  Origin of(mlir::Operation *op) const { return known.lookup(op); }
  Origin of(mlir::Value value) const;

private:
  llvm::DenseMap<mlir::Operation *, Origin> known;
};

/// An argument that `value` is computed from and that has one of the attributes; null where there is none.
mlir::BlockArgument dependsOn(mlir::Value value, llvm::ArrayRef<llvm::StringRef> attributes);

/// The trainable or frozen parameter, if any, that `value` is computed from.
struct ParameterUse {
  mlir::BlockArgument argument;
  std::string name;
};
std::optional<ParameterUse> dependsOnParameter(mlir::Value value, bool trainableOnly);

/// For messages: `nn.matmul (node_MatMul_12 in model.layers.0.mlp)`.
std::string describe(mlir::Operation *op);

} // namespace maestro
