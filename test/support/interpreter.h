// Runs functions in the `nn` dialect, operator by operator, on a kernel library: the oracle of
// tests that compare what two functions compute (a gradient and a difference quotient, a graph
// before and after a pass, an ONNX node and its expected output). Slow and obvious; it knows
// operators only through their interfaces.
#pragma once

#include "base/status.h"
#include "kernels/kernel.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace maestro::test {

/// A tensor that owns its elements (shared between copies: treat a tensor that was passed on as
/// immutable).
class Tensor {
public:
  Tensor() = default;
  Tensor(DType dtype, std::span<const int64_t> shape); ///< zeros

  const kernels::TensorType &type() const { return tensorType; }
  int64_t size() const { return tensorType.elements(); }
  void *data() { return bytes.get(); }
  const void *data() const { return bytes.get(); }

  /// Elements as doubles, whatever their type.
  double at(int64_t index) const;
  void set(int64_t index, double value);
  Tensor clone() const;
  /// The same elements in another shape.
  Tensor reshaped(std::span<const int64_t> shape) const;

private:
  kernels::TensorType tensorType;
  std::shared_ptr<std::byte> bytes;
};

/// The value of each symbol.
using Symbols = std::map<std::string, int64_t, std::less<>>;

class Interpreter {
public:
  /// `library` must outlive the interpreter.
  Interpreter(const kernels::Library &library, Symbols symbols) : library(library), symbols(std::move(symbols)) {}

  /// The function's results. Fails, naming the operation, where an argument's shape is not what its
  /// type says, a dim has no value, or the library lacks or refuses a kernel.
  Result<std::vector<Tensor>> run(mlir::func::FuncOp function, std::span<const Tensor> arguments) const;

  /// The type of tensors of an `nn.tensor` type under the symbols.
  Result<kernels::TensorType> typeOf(mlir::Type type) const;

private:
  Status runOperation(mlir::Operation &op, std::map<void *, Tensor> &values) const;
  Status runKernel(mlir::Operation &op, std::string_view kernel, std::map<void *, Tensor> &values) const;
  Result<std::vector<kernels::Attribute>> attributesOf(mlir::Operation &op) const;

  const kernels::Library &library;
  Symbols symbols;
};

} // namespace maestro::test
