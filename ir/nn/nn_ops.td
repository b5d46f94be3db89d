// The catalogue of `nn` operators; kernels/ implements the same names, operands and attributes.
//
// Conventions
// - Tensors are dense and row-major. `[B, …]` names dims in comments.
// - Elementwise operators broadcast as numpy does. Two symbolic dims broadcast only when they are
//   the same expression or one of them is the constant 1.
// - `axis` counts from 0 and is never negative in the IR.
// - Operators that reduce or normalise compute in f32 (f64 for f64) whatever the element type.
// - Integer division truncates towards zero and integer overflow wraps, as in C.
// - `X_grad` operators are the gradients of `X`: `dy` is the gradient of X's result.
// - Optional operands that are absent reach the kernel as absent inputs in their place.
#ifndef MAESTRO_NN_OPS
#define MAESTRO_NN_OPS

include "ir/nn/nn_dialect.td"
include "ir/nn/nn_interfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

/// `own` names the interface methods that the operator answers itself (their defaults: free functions
/// in ir/nn/nn.h). Every operator that is not elementwise states its factor rule.
class NN_Op<string mnemonic, list<Trait> traits = [], list<string> own = ["getFactorRule"]>
    : Op<NN_Dialect, mnemonic, !listconcat([
    Pure,
    DeclareOpInterfaceMethods<CostOpInterface, own>,
    DeclareOpInterfaceMethods<KernelOpInterface, own>,
    DeclareOpInterfaceMethods<ShardableOpInterface, own>], traits)>;

/// The result types follow from operands and attributes.
class NN_InferredOp<string mnemonic, list<Trait> traits = [], list<string> own = ["getFactorRule"]>
    : NN_Op<mnemonic, !listconcat([InferTypeOpAdaptor], traits), own> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

/// The result type is given by the builder and verified against operands and attributes.
class NN_TypedOp<string mnemonic, list<Trait> traits = [], list<string> own = ["getFactorRule"]>
    : NN_Op<mnemonic, traits, own> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

/// Element i of the result depends on the (broadcast) elements i of the operands alone. Such an
/// operator has the broadcast factor rule, costs 1 operation per element, and may overwrite an
/// operand of the result's type. Passes that fuse ask for this trait.
def NN_Elementwise : NativeOpTrait<"Elementwise"> { let cppNamespace = "::maestro::nn"; }

/// The result holds the elements of the only operand, each at least once, and no others.
def NN_Rearranges : NativeOpTrait<"Rearranges"> { let cppNamespace = "::maestro::nn"; }
/// The result holds elements of the operands, or a constant, and computes none.
def NN_MovesData : NativeOpTrait<"MovesData"> { let cppNamespace = "::maestro::nn"; }

/// Where a sum over devices, or over samples, may pass (linear.cpp knows the exceptions). Linear in all operands
/// together; in each of the first two alone; in the first alone, such as a dividend; in the second alone, such as a
/// gradient's `dy`.
def NN_Linear : NativeOpTrait<"Linear"> { let cppNamespace = "::maestro::nn"; }
def NN_Bilinear : NativeOpTrait<"Bilinear"> { let cppNamespace = "::maestro::nn"; }
def NN_LinearInFirst : NativeOpTrait<"LinearInFirst"> { let cppNamespace = "::maestro::nn"; }
def NN_LinearInSecond : NativeOpTrait<"LinearInSecond"> { let cppNamespace = "::maestro::nn"; }

/// Rounds each element of the result once and magnifies no operand's error: may be bf16 where all operands are.
def NN_RoundsOnce : NativeOpTrait<"RoundsOnce"> { let cppNamespace = "::maestro::nn"; }

def NN_Differentiable : DeclareOpInterfaceMethods<DifferentiableOpInterface>;

class NN_ElementwiseOp<string mnemonic, list<Trait> traits = []>
    : NN_InferredOp<mnemonic, !listconcat([NN_Elementwise], traits), []>;

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

class NN_UnaryOp<string mnemonic, string what, list<Trait> traits = []>
    : NN_ElementwiseOp<mnemonic, traits> {
  let summary = what;
  let arguments = (ins NN_TensorType:$x);
  let results = (outs NN_TensorType:$y);
}
class NN_DifferentiableUnaryOp<string mnemonic, string what, list<Trait> traits = []>
    : NN_UnaryOp<mnemonic, what, !listconcat([NN_Differentiable], traits)>;

def NN_NegOp : NN_DifferentiableUnaryOp<"neg", "−x", [NN_Linear, NN_RoundsOnce]>;
def NN_AbsOp : NN_DifferentiableUnaryOp<"abs", "|x|; gradient dy·sign(x)", [NN_RoundsOnce]>;
def NN_ExpOp : NN_DifferentiableUnaryOp<"exp", "eˣ">;
def NN_LogOp : NN_DifferentiableUnaryOp<"log", "ln x">;
def NN_SqrtOp : NN_DifferentiableUnaryOp<"sqrt", "√x">;
def NN_RsqrtOp : NN_DifferentiableUnaryOp<"rsqrt", "1/√x">;
def NN_ReciprocalOp : NN_DifferentiableUnaryOp<"reciprocal", "1/x">;
def NN_SinOp : NN_DifferentiableUnaryOp<"sin", "sin x">;
def NN_CosOp : NN_DifferentiableUnaryOp<"cos", "cos x">;
def NN_AsinOp : NN_DifferentiableUnaryOp<"asin", "arcsin x">;
def NN_AcosOp : NN_DifferentiableUnaryOp<"acos", "arccos x">;
def NN_AtanOp : NN_DifferentiableUnaryOp<"atan", "arctan x">;
def NN_TanhOp : NN_DifferentiableUnaryOp<"tanh", "tanh x; gradient from the result", [NN_RoundsOnce]>;
def NN_SigmoidOp : NN_DifferentiableUnaryOp<"sigmoid", "1/(1+e⁻ˣ); gradient from the result", [NN_RoundsOnce]>;
def NN_ErfOp : NN_DifferentiableUnaryOp<"erf", "Gauss error function">;
def NN_ReluOp : NN_DifferentiableUnaryOp<"relu", "max(x, 0); gradient from the result, 0 at 0", [NN_RoundsOnce]>;
def NN_SiluOp : NN_DifferentiableUnaryOp<"silu", "x·sigmoid(x)", [NN_RoundsOnce]>;
def NN_SoftplusOp : NN_DifferentiableUnaryOp<"softplus", "ln(1+eˣ)">;
def NN_FloorOp : NN_UnaryOp<"floor", "Largest integer not above x">;
def NN_CeilOp : NN_UnaryOp<"ceil", "Smallest integer not below x">;
def NN_RoundOp : NN_UnaryOp<"round", "Nearest integer, halves to even">;
def NN_SignOp : NN_UnaryOp<"sign", "−1, 0 or 1">;
/// What exporters leave of `x.detach()`. Has no kernel: --maestro-differentiate takes it away.
def NN_DetachOp : NN_UnaryOp<"detach", "x, which no gradient passes">;
def NN_NotOp : NN_UnaryOp<"not", "Logical negation of i1"> { let hasFolder = 1; }

class NN_PredicateOp<string mnemonic, string what> : NN_ElementwiseOp<mnemonic> {
  let summary = what;
  let arguments = (ins NN_TensorType:$x);
  let results = (outs NN_TensorType:$y); // i1, the operand's shape.
}
def NN_IsNaNOp : NN_PredicateOp<"isnan", "Whether x is not a number (i1)">;
def NN_IsInfOp : NN_PredicateOp<"isinf", "Whether x is ±infinity (i1)">;

def NN_GeluOp : NN_ElementwiseOp<"gelu", [NN_Differentiable, NN_RoundsOnce]> {
  let summary = "x·Φ(x); approximate=\"tanh\": ½x(1+tanh(√(2/π)(x+0.044715x³)))";
  let arguments = (ins NN_TensorType:$x, DefaultValuedAttr<StrAttr, "\"none\"">:$approximate);
  let results = (outs NN_TensorType:$y);
}

/// Fused derivatives of unary operators: result dx = dy · f′, from the operand x or the result y.
class NN_UnaryGradOp<string mnemonic, string what> : NN_ElementwiseOp<mnemonic, [NN_LinearInSecond]> {
  let summary = what;
  let arguments = (ins NN_TensorType:$saved, NN_TensorType:$dy);
  let results = (outs NN_TensorType:$dx);
}
def NN_TanhGradOp : NN_UnaryGradOp<"tanh_grad", "dy·(1−y²), saved = y">;
def NN_SigmoidGradOp : NN_UnaryGradOp<"sigmoid_grad", "dy·y·(1−y), saved = y">;
def NN_ReluGradOp : NN_UnaryGradOp<"relu_grad", "dy where y > 0, else 0, saved = y">;
def NN_SiluGradOp : NN_UnaryGradOp<"silu_grad", "dy·s(x)(1+x(1−s(x))), saved = x">;
def NN_GeluGradOp : NN_UnaryGradOp<"gelu_grad", "dy·gelu′(x), saved = x; approximate as gelu"> {
  let arguments = (ins NN_TensorType:$saved, NN_TensorType:$dy,
                       DefaultValuedAttr<StrAttr, "\"none\"">:$approximate);
}

def NN_GluOp : NN_ElementwiseOp<"glu", [NN_Differentiable, NN_LinearInSecond, NN_RoundsOnce]> {
  let summary = "activation(gate) · up, of one shape: a gated linear unit without its products";
  let description = "activation: \"silu\", \"gelu\" or \"gelu_tanh\" (gelu with approximate = \"tanh\").";
  let arguments = (ins NN_TensorType:$gate, NN_TensorType:$up, StrAttr:$activation);
  let results = (outs NN_TensorType:$y);
}

def NN_GluGradOp : NN_InferredOp<"glu_grad", [NN_LinearInFirst], ["getFactorRule", "getFlops", "canReuse"]> {
  let summary = "dgate = dy·up·activation′(gate) and dup = dy·activation(gate), all of one shape";
  let arguments = (ins NN_TensorType:$dy, NN_TensorType:$gate, NN_TensorType:$up, StrAttr:$activation);
  let results = (outs NN_TensorType:$dgate, NN_TensorType:$dup);
}

class NN_BinaryOp<string mnemonic, string what, list<Trait> traits = []>
    : NN_ElementwiseOp<mnemonic, traits> {
  let summary = what;
  let arguments = (ins NN_TensorType:$lhs, NN_TensorType:$rhs);
  let results = (outs NN_TensorType:$result); // The broadcast shape.
}
class NN_DifferentiableBinaryOp<string mnemonic, string what, list<Trait> traits = []>
    : NN_BinaryOp<mnemonic, what, !listconcat([NN_Differentiable], traits)>;

def NN_AddOp : NN_DifferentiableBinaryOp<"add", "lhs + rhs", [NN_Linear, NN_RoundsOnce]> { let hasFolder = 1; }
def NN_SubOp : NN_DifferentiableBinaryOp<"sub", "lhs − rhs", [NN_Linear, NN_RoundsOnce]> { let hasFolder = 1; }
def NN_MulOp : NN_DifferentiableBinaryOp<"mul", "lhs · rhs", [NN_Bilinear, NN_RoundsOnce]> { let hasFolder = 1; }
def NN_DivOp : NN_DifferentiableBinaryOp<"div", "lhs ÷ rhs; integers truncate, division by 0 gives 0", [NN_LinearInFirst]> { let hasFolder = 1; }
def NN_PowOp : NN_DifferentiableBinaryOp<"pow", "lhs to the power rhs; the result has lhs's element type">;
def NN_MaximumOp : NN_DifferentiableBinaryOp<"maximum", "Larger; ties share the gradient equally", [NN_RoundsOnce]>;
def NN_MinimumOp : NN_DifferentiableBinaryOp<"minimum", "Smaller; ties share the gradient equally", [NN_RoundsOnce]>;
def NN_ModOp : NN_DifferentiableBinaryOp<"mod", "Remainder with the divisor's sign, or the dividend's (fmod = 1)"> {
  let arguments = (ins NN_TensorType:$lhs, NN_TensorType:$rhs,
                       DefaultValuedAttr<BoolAttr, "false">:$fmod);
}
def NN_AndOp : NN_BinaryOp<"and", "Logical and of i1">;
def NN_OrOp : NN_BinaryOp<"or", "Logical or of i1">;
def NN_XorOp : NN_BinaryOp<"xor", "Logical exclusive or of i1">;

/// Comparisons yield i1.
class NN_CompareOp<string mnemonic, string what> : NN_BinaryOp<mnemonic, what>;
def NN_EqualOp : NN_CompareOp<"equal", "lhs = rhs">;
def NN_LessOp : NN_CompareOp<"less", "lhs < rhs">;
def NN_LessEqualOp : NN_CompareOp<"less_equal", "lhs ≤ rhs">;
def NN_GreaterOp : NN_CompareOp<"greater", "lhs > rhs">;
def NN_GreaterEqualOp : NN_CompareOp<"greater_equal", "lhs ≥ rhs">;

def NN_WhereOp : NN_InferredOp<"where", [NN_Elementwise, NN_Differentiable, NN_RoundsOnce], ["isLinearIn"]> {
  let summary = "onTrue where condition (i1), else onFalse; all three broadcast";
  let arguments = (ins NN_TensorType:$condition, NN_TensorType:$onTrue, NN_TensorType:$onFalse);
  let results = (outs NN_TensorType:$result);
}

def NN_CastOp : NN_TypedOp<"cast", [NN_Elementwise, NN_Differentiable, NN_Linear], []> {
  let summary = "Element type conversion; float to integer truncates, anything to i1 is ≠ 0";
  let arguments = (ins NN_TensorType:$x);
  let results = (outs NN_TensorType:$y);
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

def NN_ConstantOp : NN_TypedOp<"constant", [],
    ["getFactorRule", "getKernelName"]> {
  let summary = "A small constant of fixed shape, values row-major in `value` (a DenseElementsAttr)";
  let description = "No kernel: its bytes lie in the plan. Large initializers are function arguments.";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs NN_TensorType:$result);
  let assemblyFormat = "$value attr-dict `:` qualified(type($result))";
}

def NN_FillOp : NN_TypedOp<"fill"> {
  let summary = "Every element is `value`";
  let arguments = (ins F64Attr:$value);
  let results = (outs NN_TensorType:$result);
}

def NN_IotaOp : NN_TypedOp<"iota"> {
  let summary = "[n]: start[0] + i·step[0], symbolic integers";
  let arguments = (ins NN_DimsAttr:$start, NN_DimsAttr:$step);
  let results = (outs NN_TensorType:$result);
}

def NN_DimValuesOp : NN_TypedOp<"dim_values"> {
  let summary = "The symbolic integers `values` as a tensor [n], or [] for one value";
  let arguments = (ins NN_DimsAttr:$values);
  let results = (outs NN_TensorType:$result);
}

//===----------------------------------------------------------------------===//
// Moving data
//===----------------------------------------------------------------------===//

def NN_ReshapeOp : NN_TypedOp<"reshape", [NN_Differentiable, NN_Rearranges, NN_MovesData, NN_Linear],
    ["getFactorRule", "getKernelName"]> {
  let summary = "The same elements in another shape; a view, no kernel";
  let arguments = (ins NN_TensorType:$x);
  let results = (outs NN_TensorType:$y);
  let hasFolder = 1;
}

def NN_TransposeOp : NN_InferredOp<"transpose", [NN_Differentiable, NN_Rearranges, NN_MovesData, NN_Linear]> {
  let summary = "Dim i of the result is dim permutation[i] of the operand";
  let arguments = (ins NN_TensorType:$x, DenseI64ArrayAttr:$permutation);
  let results = (outs NN_TensorType:$y);
  let hasFolder = 1;
}

def NN_BroadcastToOp : NN_TypedOp<"broadcast_to", [NN_Differentiable, NN_Rearranges, NN_MovesData, NN_Linear]> {
  let summary = "Broadcasts to the result's shape as numpy does";
  let arguments = (ins NN_TensorType:$x);
  let results = (outs NN_TensorType:$y);
  let hasFolder = 1;
}

def NN_ConcatOp : NN_InferredOp<"concat", [NN_Differentiable, NN_MovesData, NN_Linear]> {
  let summary = "Joins operands along `axis`";
  let arguments = (ins Variadic<NN_TensorType>:$inputs, I64Attr:$axis);
  let results = (outs NN_TensorType:$result);
}

def NN_SliceOp : NN_TypedOp<"slice", [NN_Differentiable, NN_MovesData, NN_Linear],
    ["getFactorRule", "getBytes"]> {
  let summary = "y[i…] = x[offsets + i·steps …]; sizes come from the result type; steps may be negative";
  let arguments = (ins NN_TensorType:$x, NN_DimsAttr:$offsets, DenseI64ArrayAttr:$steps);
  let results = (outs NN_TensorType:$y);
}

def NN_SliceGradOp : NN_TypedOp<"slice_grad", [NN_Linear]> {
  let summary = "Zeros of the result's shape with dy at offsets + i·steps";
  let arguments = (ins NN_TensorType:$dy, NN_DimsAttr:$offsets, DenseI64ArrayAttr:$steps);
  let results = (outs NN_TensorType:$dx);
}

def NN_PadOp : NN_TypedOp<"pad", [NN_Differentiable, NN_MovesData], ["getFactorRule", "isLinearIn"]> {
  let summary = "Adds low[i] elements before and high[i] after along dim i";
  let description = "mode: constant (`value`), reflect, edge, wrap; `low`, `high` ≥ 0. Only constant has a gradient.";
  let arguments = (ins NN_TensorType:$x, NN_DimsAttr:$low, NN_DimsAttr:$high,
                       DefaultValuedAttr<F64Attr, "0.0">:$value,
                       DefaultValuedAttr<StrAttr, "\"constant\"">:$mode);
  let results = (outs NN_TensorType:$y);
}

//===----------------------------------------------------------------------===//
// Gathering and scattering
//===----------------------------------------------------------------------===//

def NN_GatherOp : NN_InferredOp<"gather", [NN_Differentiable, NN_LinearInFirst],
    ["getFactorRule", "getBytes"]> {
  let summary = "data[…, indices, …] along `axis`; an embedding is axis 0; negative indices count from the end";
  let arguments = (ins NN_TensorType:$data, NN_TensorType:$indices, I64Attr:$axis);
  let results = (outs NN_TensorType:$result); // data[:axis] + indices' shape + data[axis+1:]
}

def NN_GatherGradOp : NN_TypedOp<"gather_grad", [NN_LinearInSecond],
    ["getFactorRule", "canAccumulate"]> {
  let summary = "Adds dy's slices into zeros of the result's shape, in index order (deterministic)";
  let arguments = (ins NN_TensorType:$indices, NN_TensorType:$dy, I64Attr:$axis);
  let results = (outs NN_TensorType:$ddata);
}

def NN_GatherElementsOp : NN_InferredOp<"gather_elements", [NN_Differentiable, NN_LinearInFirst],
    ["getFactorRule", "getBytes"]> {
  let summary = "y[i][j] = data[indices[i][j]][j] for axis 0 (ONNX GatherElements)";
  let arguments = (ins NN_TensorType:$data, NN_TensorType:$indices, I64Attr:$axis);
  let results = (outs NN_TensorType:$result);
}

def NN_ScatterElementsOp : NN_InferredOp<"scatter_elements", [NN_Differentiable], ["getFactorRule", "isLinearIn"]> {
  let summary = "A copy of data with updates at indices along axis (ONNX ScatterElements)";
  let description = "reduction: none, add, mul, min, max. All but mul have gradients.";
  let arguments = (ins NN_TensorType:$data, NN_TensorType:$indices, NN_TensorType:$updates, I64Attr:$axis,
                       DefaultValuedAttr<StrAttr, "\"none\"">:$reduction);
  let results = (outs NN_TensorType:$result);
}

def NN_GatherNDOp : NN_InferredOp<"gather_nd", [NN_Differentiable, NN_LinearInFirst],
    ["getFactorRule", "getBytes"]> {
  let summary = "ONNX GatherND: the last dim of indices addresses data after batch_dims leading dims";
  let arguments = (ins NN_TensorType:$data, NN_TensorType:$indices,
                       DefaultValuedAttr<I64Attr, "0">:$batch_dims);
  let results = (outs NN_TensorType:$result);
}

def NN_GatherNDGradOp : NN_TypedOp<"gather_nd_grad", [NN_LinearInSecond]> {
  let summary = "Adds dy into zeros of the result's shape at indices";
  let arguments = (ins NN_TensorType:$indices, NN_TensorType:$dy,
                       DefaultValuedAttr<I64Attr, "0">:$batch_dims);
  let results = (outs NN_TensorType:$ddata);
}

def NN_ScatterNDOp : NN_InferredOp<"scatter_nd", [NN_Differentiable], ["getFactorRule", "isLinearIn"]> {
  let summary = "ONNX ScatterND: a copy of data with updates at indices; reduction none, add, mul, min, max";
  let arguments = (ins NN_TensorType:$data, NN_TensorType:$indices, NN_TensorType:$updates,
                       DefaultValuedAttr<StrAttr, "\"none\"">:$reduction);
  let results = (outs NN_TensorType:$result);
}

def NN_MaskedScatterOp : NN_InferredOp<"masked_scatter", [NN_Differentiable]> {
  let summary = "x with its elements where mask (i1, x's shape) replaced by source's elements in order";
  let description = "As torch.masked_scatter, but surplus elements of source are an error as too few are: the next sample would take them.";
  let arguments = (ins NN_TensorType:$x, NN_TensorType:$mask, NN_TensorType:$source);
  let results = (outs NN_TensorType:$y);
}

def NN_MaskedScatterGradOp : NN_TypedOp<"masked_scatter_grad", [NN_LinearInSecond]> {
  let summary = "The gradient for source: dy's masked elements in order, zeros after them";
  let arguments = (ins NN_TensorType:$mask, NN_TensorType:$dy);
  let results = (outs NN_TensorType:$dsource);
}

//===----------------------------------------------------------------------===//
// Reductions, and what runs along an axis
//===----------------------------------------------------------------------===//

def NN_CumsumOp : NN_InferredOp<"cumsum", [NN_Differentiable, NN_Linear]> {
  let summary = "Running sum along axis";
  let arguments = (ins NN_TensorType:$x, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "false">:$exclusive,
                       DefaultValuedAttr<BoolAttr, "false">:$reverse);
  let results = (outs NN_TensorType:$y);
}

def NN_TopKOp : NN_TypedOp<"top_k", [NN_Differentiable]> {
  let summary = "The k largest (or smallest) along axis, sorted, ties by lower index; k from the result type";
  let arguments = (ins NN_TensorType:$x, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "true">:$largest);
  let results = (outs NN_TensorType:$values, NN_TensorType:$indices);
}

def NN_ArgMaxOp : NN_InferredOp<"arg_max"> {
  let summary = "Index (i64) of the first largest element along axis; the dim stays as 1";
  let arguments = (ins NN_TensorType:$x, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "false">:$select_last);
  let results = (outs NN_TensorType:$y);
}

def NN_ArgMinOp : NN_InferredOp<"arg_min"> {
  let summary = "Index (i64) of the first smallest element along axis; the dim stays as 1";
  let arguments = (ins NN_TensorType:$x, I64Attr:$axis, DefaultValuedAttr<BoolAttr, "false">:$select_last);
  let results = (outs NN_TensorType:$y);
}

class NN_ReduceOp<string mnemonic, string what, list<Trait> traits = [], list<string> own = []>
    : NN_InferredOp<mnemonic, traits, !listconcat(["getFactorRule", "getFlops"], own)> {
  let summary = what;
  let arguments = (ins NN_TensorType:$x, DenseI64ArrayAttr:$axes,
                       DefaultValuedAttr<BoolAttr, "false">:$keepdims);
  let results = (outs NN_TensorType:$y);
}
def NN_ReduceSumOp : NN_ReduceOp<"reduce_sum", "Sum over axes", [NN_Differentiable, NN_Linear], ["canAccumulate"]>;
def NN_ReduceMeanOp : NN_ReduceOp<"reduce_mean", "Mean over axes", [NN_Differentiable]>;
def NN_ReduceMaxOp : NN_ReduceOp<"reduce_max", "Largest over axes; ties share the gradient", [NN_Differentiable]>;
def NN_ReduceMinOp : NN_ReduceOp<"reduce_min", "Smallest over axes; ties share the gradient", [NN_Differentiable]>;
def NN_ReduceProdOp : NN_ReduceOp<"reduce_prod", "Product over axes", [NN_Differentiable]>;

//===----------------------------------------------------------------------===//
// Products: matrices and convolutions
//===----------------------------------------------------------------------===//

def NN_MatmulOp : NN_InferredOp<"matmul", [NN_Differentiable, NN_Bilinear],
    ["getFactorRule", "getFlops", "canAccumulate"]> {
  let summary = "a[…, m, k] · b[…, k, n] (+ bias[n]), leading dims broadcast";
  let description = [{
    Ranks are at least 2. transpose_a / transpose_b: that operand's last two dims are swapped in
    memory ([…, k, m], […, n, k]). Accumulates in f32. `f32_result`: bf16 operands give an f32
    result (weight gradients). A gradient of a 2-D weight flattens the leading dims by reshapes.
  }];
  let arguments = (ins NN_TensorType:$a, NN_TensorType:$b, Optional<NN_TensorType>:$bias,
                       DefaultValuedAttr<BoolAttr, "false">:$transpose_a,
                       DefaultValuedAttr<BoolAttr, "false">:$transpose_b,
                       DefaultValuedAttr<BoolAttr, "false">:$f32_result);
  let results = (outs NN_TensorType:$result);
}

/// Products that end programs' additions, which --maestro-fuse-additions makes; its kernel is matmul's.
def NN_MatmulAddOp : NN_InferredOp<"matmul_add", [], ["getFactorRule", "getFlops", "getKernelName", "canReuse"]> {
  let summary = "matmul's a · b (+ bias[n]) + addend, rounded once";
  let description = "addend has the result's type: a's element type, or f32 for bf16 operands. The result may overwrite it.";
  let arguments = (ins NN_TensorType:$a, NN_TensorType:$b, NN_TensorType:$addend, Optional<NN_TensorType>:$bias,
                       DefaultValuedAttr<BoolAttr, "false">:$transpose_a,
                       DefaultValuedAttr<BoolAttr, "false">:$transpose_b);
  let results = (outs NN_TensorType:$result);
}

def NN_ConvOp : NN_InferredOp<"conv", [NN_Differentiable, NN_Bilinear],
    ["getFactorRule", "getFlops"]> {
  let summary = "x[N, C, spatial…] with w[M, C/group, kernel…] (+ bias[M]) -> [N, M, spatial…]";
  let description = "1 to 3 spatial dims; strides, dilations one each; pads: all low ends, then all high ends.";
  let arguments = (ins NN_TensorType:$x, NN_TensorType:$w, Optional<NN_TensorType>:$bias,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                       DenseI64ArrayAttr:$dilations, DefaultValuedAttr<I64Attr, "1">:$group);
  let results = (outs NN_TensorType:$y);
}

def NN_ConvGradInputOp : NN_TypedOp<"conv_grad_input", [NN_Differentiable, NN_Bilinear],
    ["getFactorRule", "getFlops"]> {
  let summary = "Gradient of conv for x (also the transposed convolution of ONNX)";
  let arguments = (ins NN_TensorType:$dy, NN_TensorType:$w, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations,
                       DefaultValuedAttr<I64Attr, "1">:$group);
  let results = (outs NN_TensorType:$dx);
}

def NN_ConvGradWeightOp : NN_TypedOp<"conv_grad_weight", [NN_Bilinear],
    ["getFactorRule", "getFlops", "canAccumulate"]> {
  let summary = "Gradient of conv for w";
  let arguments = (ins NN_TensorType:$x, NN_TensorType:$dy, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations,
                       DefaultValuedAttr<I64Attr, "1">:$group);
  let results = (outs NN_TensorType:$dw);
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

class NN_PoolOp<string mnemonic, string what, list<Trait> traits>
    : NN_InferredOp<mnemonic, traits, ["getFactorRule", "getFlops"]> {
  let summary = what;
  let arguments = (ins NN_TensorType:$x, DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations,
                       DefaultValuedAttr<BoolAttr, "false">:$ceil_mode,
                       DefaultValuedAttr<BoolAttr, "false">:$count_include_pad);
  let results = (outs NN_TensorType:$y);
}
def NN_MaxPoolOp : NN_PoolOp<"max_pool", "Largest in each window of x[N, C, spatial…]",
    [NN_Differentiable]>;
def NN_AvgPoolOp : NN_PoolOp<"avg_pool", "Mean of each window; padding counts with count_include_pad",
    [NN_Differentiable]>;

class NN_PoolGradOp<string mnemonic, string what, dag operands> : NN_TypedOp<mnemonic> {
  let summary = what;
  let arguments = !con(operands, (ins DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations,
                       DefaultValuedAttr<BoolAttr, "false">:$ceil_mode,
                       DefaultValuedAttr<BoolAttr, "false">:$count_include_pad));
  let results = (outs NN_TensorType:$dx);
}
def NN_MaxPoolGradOp : NN_PoolGradOp<"max_pool_grad", "dy at each window's first largest element",
    (ins NN_TensorType:$x, NN_TensorType:$dy)>;
def NN_AvgPoolGradOp : NN_PoolGradOp<"avg_pool_grad", "dy spread evenly over each window",
    (ins NN_TensorType:$dy)>;

//===----------------------------------------------------------------------===//
// Normalisation: softmax and norms
//===----------------------------------------------------------------------===//

class NN_SoftmaxLikeOp<string mnemonic, string what> : NN_InferredOp<mnemonic, [NN_Differentiable],
    ["getFactorRule", "getFlops", "canReuse"]> {
  let summary = what;
  let arguments = (ins NN_TensorType:$x, I64Attr:$axis);
  let results = (outs NN_TensorType:$y);
}
def NN_SoftmaxOp : NN_SoftmaxLikeOp<"softmax", "eˣ ÷ Σ eˣ along axis; gradient from the result">;
def NN_LogSoftmaxOp : NN_SoftmaxLikeOp<"log_softmax", "x − ln Σ eˣ along axis; gradient from the result">;

class NN_SoftmaxLikeGradOp<string mnemonic, string what> : NN_InferredOp<mnemonic, [NN_LinearInSecond],
    ["getFactorRule", "getFlops", "canReuse"]> {
  let summary = what;
  let arguments = (ins NN_TensorType:$y, NN_TensorType:$dy, I64Attr:$axis);
  let results = (outs NN_TensorType:$dx);
}
def NN_SoftmaxGradOp : NN_SoftmaxLikeGradOp<"softmax_grad", "y·(dy − Σ dy·y)">;
def NN_LogSoftmaxGradOp : NN_SoftmaxLikeGradOp<"log_softmax_grad", "dy − eʸ·Σ dy">;

def NN_LayerNormOp : NN_InferredOp<"layer_norm", [AttrSizedOperandSegments, NN_Differentiable],
    ["getFactorRule", "getFlops"]> {
  let summary = "(x − mean)·rstd·scale + bias over the dims from `axis` on";
  let description = [{
    scale, bias: the shape of the normalised dims. mean, rstd: f32 (f64 for f64), the shape of the
    dims before `axis`. rstd = 1/√(variance + epsilon). `bf16_result`: y of an x in f32 is bf16.
  }];
  let arguments = (ins NN_TensorType:$x, Optional<NN_TensorType>:$scale, Optional<NN_TensorType>:$bias,
                       I64Attr:$axis, F64Attr:$epsilon, DefaultValuedAttr<BoolAttr, "false">:$bf16_result);
  let results = (outs NN_TensorType:$y, NN_TensorType:$mean, NN_TensorType:$rstd);
  let assemblyFormat = [{
    $x (`scale` $scale^)? (`bias` $bias^)? attr-dict `:` functional-type(operands, results)
  }];
}

def NN_LayerNormGradOp : NN_InferredOp<"layer_norm_grad", [NN_LinearInFirst],
    ["getFactorRule", "getFlops", "canAccumulate"]> {
  let summary = "dx, and dscale and dbias (f32, f64 for f64; dbias = Σ dy) of layer_norm; dy may be bf16 where x is f32";
  let arguments = (ins NN_TensorType:$dy, NN_TensorType:$x, NN_TensorType:$mean, NN_TensorType:$rstd,
                       Optional<NN_TensorType>:$scale, I64Attr:$axis);
  let results = (outs NN_TensorType:$dx, NN_TensorType:$dscale, NN_TensorType:$dbias);
}

def NN_RmsNormOp : NN_InferredOp<"rms_norm", [NN_Differentiable],
    ["getFactorRule", "getFlops"]> {
  let summary = "x·rstd·scale over the dims from `axis` on, rstd = 1/√(mean(x²) + epsilon); bf16_result as layer_norm";
  let arguments = (ins NN_TensorType:$x, Optional<NN_TensorType>:$scale, I64Attr:$axis, F64Attr:$epsilon,
                       DefaultValuedAttr<BoolAttr, "false">:$bf16_result);
  let results = (outs NN_TensorType:$y, NN_TensorType:$rstd);
}

def NN_RmsNormGradOp : NN_InferredOp<"rms_norm_grad", [NN_LinearInFirst],
    ["getFactorRule", "getFlops", "canAccumulate"]> {
  let summary = "dx and dscale (f32, f64 for f64) of rms_norm; dy may be bf16 where x is f32";
  let arguments = (ins NN_TensorType:$dy, NN_TensorType:$x, NN_TensorType:$rstd,
                       Optional<NN_TensorType>:$scale, I64Attr:$axis);
  let results = (outs NN_TensorType:$dx, NN_TensorType:$dscale);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

def NN_RopeOp : NN_InferredOp<"rope", [NN_Differentiable, NN_LinearInFirst, NN_RoundsOnce]> {
  let summary = "Rotary embedding: x·cos + rotate(x)·sin, cos and sin broadcast to x";
  let description = [{
    x […, D], D even; rotate(x) = [−x₂, x₁] of the halves x₁, x₂ of the last dim, or of neighbouring
    pairs with `interleaved`. `adjoint` applies the transposed map: x·cos + rotateᵀ(x·sin), which
    is the gradient for x.
  }];
  let arguments = (ins NN_TensorType:$x, NN_TensorType:$cos, NN_TensorType:$sin,
                       DefaultValuedAttr<BoolAttr, "false">:$interleaved,
                       DefaultValuedAttr<BoolAttr, "false">:$adjoint);
  let results = (outs NN_TensorType:$y);
}

def NN_AttentionOp : NN_InferredOp<"attention", [NN_Differentiable],
    ["getFactorRule", "getFlops"]> {
  let summary = "softmax(cap(q·kᵀ·scale) + mask)·v, without keeping the scores";
  let description = [{
    q [B, H, S, D], k [B, Hk, T, D], v [B, Hk, T, Dv] -> o [B, H, S, Dv]; H is a multiple of Hk
    (query head h reads key head h ÷ (H ÷ Hk)). `sequence_major`: dims 1 and 2 of q, k, v and o are
    swapped ([B, S, H, D]). mask broadcasts to [B, H, S, T]: i1 (false: not attended) or float
    (added). softcap c > 0: cap(s) = c·tanh(s/c). `causal`: position i of S attends j ≤ i + causal_offset
    (an i64 attribute, 0 by default).
    lse [B, H, S] (f32, f64 for f64): ln Σ eˢᶜᵒʳᵉ, −∞ where nothing is attended; o is 0 there.
  }];
  let arguments = (ins NN_TensorType:$q, NN_TensorType:$k, NN_TensorType:$v, Optional<NN_TensorType>:$mask,
                       F64Attr:$scale, DefaultValuedAttr<F64Attr, "0.0">:$softcap,
                       DefaultValuedAttr<BoolAttr, "false">:$causal,
                       DefaultValuedAttr<I64Attr, "0">:$causal_offset,
                       DefaultValuedAttr<BoolAttr, "false">:$sequence_major);
  let results = (outs NN_TensorType:$o, NN_TensorType:$lse);
  let hasFolder = 1;
}

def NN_AttentionGradOp : NN_InferredOp<"attention_grad", [NN_LinearInFirst],
    ["getFactorRule", "getFlops"]> {
  let summary = "dq, dk, dv of attention; scores are recomputed from lse; the mask gets no gradient";
  let arguments = (ins NN_TensorType:$grad, NN_TensorType:$q, NN_TensorType:$k, NN_TensorType:$v,
                       NN_TensorType:$o, NN_TensorType:$lse, Optional<NN_TensorType>:$mask,
                       F64Attr:$scale, DefaultValuedAttr<F64Attr, "0.0">:$softcap,
                       DefaultValuedAttr<BoolAttr, "false">:$causal,
                       DefaultValuedAttr<I64Attr, "0">:$causal_offset,
                       DefaultValuedAttr<BoolAttr, "false">:$sequence_major);
  let results = (outs NN_TensorType:$dq, NN_TensorType:$dk, NN_TensorType:$dv);
}

//===----------------------------------------------------------------------===//
// Recurrences: the part of LSTM, GRU and RNN that goes from position to position. What they make of all inputs at once
// is a matmul before, the gradient of the weight one behind.
//===----------------------------------------------------------------------===//

def NN_RecurrenceOp : NN_InferredOp<"recurrence", [AttrSizedOperandSegments, NN_Differentiable],
    ["getFactorRule", "getFlops"]> {
  let summary = "h of a recurrent cell at every position, from x and from h at the position before";
  let description = [{
    x [B, T, G·H], weight [G·H, H], initial [B, S·H] -> states [B, T, S·H], gates [B, T, K·H];
    base/recurrent_cell.h has G, S and K. With h, c the states before (`initial` at the first position;
    the position after with `reverse`), W by blocks of H rows, σ = sigmoid:
      lstm      i, o, f = σ(x + W·h), g = tanh(x + W·h); c = f·c + i·g, h = o·tanh c
      gru       z, r = σ(x + W·h), q = W·h + bias, n = tanh(x + r·q); h = (1 − z)·n + z·h
      rnn_tanh  h = tanh(x + W·h); rnn_relu likewise
    bias [H] is gru's alone. Where lengths [B] (integers) is given, positions from a row's length on keep the
    states that they find.
  }];
  let arguments = (ins NN_TensorType:$x, NN_TensorType:$weight, NN_TensorType:$initial, Optional<NN_TensorType>:$bias,
                       Optional<NN_TensorType>:$lengths, StrAttr:$cell, DefaultValuedAttr<BoolAttr, "false">:$reverse);
  let results = (outs NN_TensorType:$states, NN_TensorType:$gates);
  let assemblyFormat = [{
    $x `,` $weight `,` $initial (`bias` $bias^)? (`lengths` $lengths^)? attr-dict `:` functional-type(operands, results)
  }];
}

def NN_RecurrenceGradOp : NN_InferredOp<"recurrence_grad", [NN_LinearInFirst],
    ["getFactorRule", "getFlops"]> {
  let summary = "dx and dinitial of recurrence; dx is the gradient of W·h, too, but for gru's n, where that is r·dx";
  let arguments = (ins NN_TensorType:$dstates, NN_TensorType:$weight, NN_TensorType:$initial, NN_TensorType:$states,
                       NN_TensorType:$gates, Optional<NN_TensorType>:$lengths, StrAttr:$cell,
                       DefaultValuedAttr<BoolAttr, "false">:$reverse);
  let results = (outs NN_TensorType:$dx, NN_TensorType:$dinitial);
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

def NN_DropoutOp : NN_InferredOp<"dropout", [NN_Differentiable, NN_LinearInFirst, NN_RoundsOnce],
    ["getFactorRule", "getFlops"]> {
  let summary = "x·keep ÷ (1 − ratio), keep by counter-based random numbers";
  let description = [{
    x [rows, …]; state [2] i64: seed, step; sample_ids [samples] i64 with rows a multiple of samples
    (row r belongs to sample r ÷ (rows ÷ samples)). Element (r, i₁, i₂ …) is dropped when the Philox
    number with key (seed, stream) and counter (step, sample id, row within the sample and Σ iₖ·strides[k])
    is below ratio: independent of padding, order and layout. `strides` (one per dim after the
    first) come from the dims' upper bounds. The gradient is the same operator on dy.
  }];
  let arguments = (ins NN_TensorType:$x, NN_TensorType:$state, NN_TensorType:$sample_ids,
                       F64Attr:$ratio, I64Attr:$stream, DenseI64ArrayAttr:$strides);
  let results = (outs NN_TensorType:$y);
}

//===----------------------------------------------------------------------===//
// Losses: per position; sums and counts are reduce_sum
//===----------------------------------------------------------------------===//

def NN_CrossEntropyOp : NN_InferredOp<"cross_entropy", [NN_Differentiable],
    ["getFactorRule", "getFlops"]> {
  let summary = "−log softmax(logits)[label] per position, 0 where label = ignore_index";
  let description = [{
    logits […, V], labels […] integers in [0, V) or ignore_index. loss, lse […]: f32 (f64 for f64).
  }];
  let arguments = (ins NN_TensorType:$logits, NN_TensorType:$labels,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs NN_TensorType:$loss, NN_TensorType:$lse);
}

def NN_CrossEntropyGradOp : NN_InferredOp<"cross_entropy_grad", [],
    ["getFactorRule", "getFlops", "canReuse"]> {
  let summary = "dlogits = (softmax − onehot)·dloss; dloss broadcasts to the labels' shape; may overwrite logits";
  let arguments = (ins NN_TensorType:$logits, NN_TensorType:$labels, NN_TensorType:$lse,
                       NN_TensorType:$dloss, DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs NN_TensorType:$dlogits);
}

def NN_KlDivergenceOp : NN_InferredOp<"kl_divergence", [NN_Differentiable],
    ["getFactorRule", "getFlops"]> {
  let summary = "Σ_v p_t (log p_t − log p_s) per position, both softmaxed at `temperature` (no T² factor)";
  let description = "student, teacher […, V]; loss, lse_student, lse_teacher […]: f32 (f64 for f64).";
  let arguments = (ins NN_TensorType:$student, NN_TensorType:$teacher, F64Attr:$temperature);
  let results = (outs NN_TensorType:$loss, NN_TensorType:$lse_student, NN_TensorType:$lse_teacher);
}

def NN_KlDivergenceGradOp : NN_InferredOp<"kl_divergence_grad", [],
    ["getFactorRule", "getFlops", "canReuse"]> {
  let summary = "dstudent = (p_s − p_t)/T·dloss; dloss broadcasts to the positions' shape; may overwrite student";
  let description = "The teacher's gradient (rare: a trained teacher) is decomposed before differentiation.";
  let arguments = (ins NN_TensorType:$student, NN_TensorType:$teacher, NN_TensorType:$lse_student,
                       NN_TensorType:$lse_teacher, NN_TensorType:$dloss, F64Attr:$temperature);
  let results = (outs NN_TensorType:$dstudent);
}

//===----------------------------------------------------------------------===//
// Collectives: between the devices that share a section's work along a mesh axis. No graph contains them;
// passes/shard.cpp inserts them where states of tensors do not fit, and the executor runs them.
//===----------------------------------------------------------------------===//

def NN_AllReduceOp : NN_InferredOp<"all_reduce", [NN_Linear], ["getFactorRule", "canReuse"]> {
  let summary = "The sum of x (f32) over the axis's devices, in their order; every one has the result";
  let arguments = (ins NN_TensorType:$x, StrAttr:$axis);
  let results = (outs NN_TensorType:$y);
}

def NN_AllGatherOp : NN_InferredOp<"all_gather", [NN_Linear]> {
  let summary = "The axis's `count` devices' parts along `dim`, one after the other; every one has the result";
  let arguments = (ins NN_TensorType:$x, StrAttr:$axis, I64Attr:$dim, I64Attr:$count);
  let results = (outs NN_TensorType:$y);
}

def NN_OwnPartOp : NN_InferredOp<"own_part", [NN_Linear]> {
  let summary = "Of `count` equal parts of x along `dim` that of this device; nothing is sent";
  let arguments = (ins NN_TensorType:$x, StrAttr:$axis, I64Attr:$dim, I64Attr:$count);
  let results = (outs NN_TensorType:$y);
}

#endif // MAESTRO_NN_OPS
