// The interfaces of `nn` operators. Everything after import is driven by them: adding an operator
// means one entry in nn_ops.td and these answers, in one place.
//
// Worked example 1, `nn.matmul` (A[i,k] · B[k,j]):
//   shape     [i, j]
//   gradient  dA = dC · Bᵀ needs B; dB = Aᵀ · dC needs A: saves {A, B}
//   sharding  (i,k),(k,j)->(i,j), k is a reduction: splitting k leaves the result partial
//   cost      2·i·j·k floating point operations
//   kernel    "matmul" with transpose flags
// Worked example 2, `nn.softmax` along the last dim:
//   shape     that of the operand
//   gradient  dX = Y ⊙ (dY − Σ dY ⊙ Y): saves the result, not the operand
//   sharding  (…, v)->(…, v), v may not be split
//   cost      5 per element
//   kernel    "softmax"; the result may reuse the operand's memory
#ifndef MAESTRO_NN_INTERFACES
#define MAESTRO_NN_INTERFACES

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::maestro::nn";
  let description = [{
    How gradients flow through an operator. Gradient operators are `nn` operators too.
    An operator without this interface passes no gradient; differentiation refuses it (by name and
    location) when a gradient would have to pass.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the operands' gradients. `resultGradients[i]` is null where no gradient arrives;
      `needed[i]` says which operands want one. Fills `operandGradients` (null where none is needed
      or the gradient is zero), each with exactly its operand's type. What the gradient uses
      (operands, results, neither) is what a forward task must save.
    }], "::llvm::LogicalResult", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$resultGradients,
           "::llvm::ArrayRef<bool>":$needed,
           "::llvm::SmallVectorImpl<::mlir::Value> &":$operandGradients)>,
    InterfaceMethod<[{
      Alternative ways to provide what the gradient uses, best first; see SaveAlternative.
    }], "::llvm::SmallVector<::maestro::nn::SaveAlternative>", "getSaveAlternatives", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::maestro::nn::defaultSaveAlternatives($_op);
      }]>,
  ];
}

def ShardableOpInterface : OpInterface<"ShardableOpInterface"> {
  let cppNamespace = "::maestro::nn";
  let description = [{
    One factor rule per operator: each dim of each operand and result is a product of factors, and
    splitting a factor splits every dim that carries it. A factor that only operands carry is a
    reduction: splitting it leaves the result `partial`. From the states split, replicated and
    partial, collectives follow. The check that a loss decomposes over samples is the same
    propagation, for the factor that carries the samples.
  }];
  let methods = [
    InterfaceMethod<"The rule for this operation's shapes; see FactorRule.",
      "::maestro::nn::FactorRule", "getFactorRule", (ins), "", [{
        return ::maestro::nn::elementwiseFactorRule($_op);
      }]>,
    InterfaceMethod<[{
      Whether the results are linear in the marked operands together: where these are partial sums over
      devices (or samples), and the others the same on all, the results are partial sums, too.
    }], "bool", "isLinearIn", (ins "::llvm::ArrayRef<bool>":$operands), "", [{
        return ::maestro::nn::defaultIsLinearIn($_op, operands);
      }]>,
  ];
}

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::maestro::nn";
  let description = "What one execution costs, as expressions of the symbolic dims.";
  let methods = [
    InterfaceMethod<"Floating point operations (a multiply-add counts two).",
      "::maestro::DimExpr", "getFlops", (ins), "", [{
        return ::maestro::nn::defaultFlops($_op);
      }]>,
    InterfaceMethod<"Bytes read and written from memory, operands and results once each.",
      "::maestro::DimExpr", "getBytes", (ins), "", [{
        return ::maestro::nn::defaultBytes($_op);
      }]>,
  ];
}

def KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::maestro::nn";
  let description = [{
    Which kernel runs an operator. By default the kernel has the mnemonic's name, takes operands and
    results in order, and gets every attribute by its name (booleans and unit attributes as 0/1,
    `#nn.dims` as symbolic integers, types not at all).
  }];
  let methods = [
    InterfaceMethod<"The kernel's name; empty for operators that compute nothing (views).",
      "::llvm::StringRef", "getKernelName", (ins), "", [{
        return $_op->getName().stripDialect();
      }]>,
    InterfaceMethod<"Whether result `result` may be written over operand `operand`.",
      "bool", "canReuse", (ins "unsigned":$operand, "unsigned":$result), "", [{
        return ::maestro::nn::defaultCanReuse($_op, operand, result);
      }]>,
    InterfaceMethod<"Whether the kernel can add to result `result` instead of overwriting it.",
      "bool", "canAccumulate", (ins "unsigned":$result), "", [{
        return false;
      }]>,
  ];
}

#endif // MAESTRO_NN_INTERFACES
