// The `plan` dialect: the tables of a plan file as operations (level 3 of the IR, ir/README.md). Enumerations have the
// names and numbers of plan/plan.fbs.
#ifndef MAESTRO_PLAN_DIALECT
#define MAESTRO_PLAN_DIALECT

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::maestro::plan_ir";
  let summary = "Per-rank programs, memory, sections and stations of a plan file";
  let useDefaultAttributePrinterParser = 1;
}

def Plan_ExprAttr : AttrDef<Plan_Dialect, "Expr"> {
  let mnemonic = "expr";
  let summary = "A symbolic integer as a plan holds it: a tree that nothing simplifies";
  let description = [{
    `4*(batch*seq)`, `min(seq, 16) + 1`, `seq ceildiv 2`. Trees differ where the plan's nodes differ: `a*b*c` is
    `(a*b)*c`. A reference to a node of the table (`plan.dim`) is written as the expression that the node computes, or
    as `node(12)` where that is long, or names another node already.
  }];
  let parameters = (ins "::maestro::plan_ir::ExprOp":$op, "int64_t":$value, "::mlir::StringAttr":$symbol,
                        "::mlir::Attribute":$lhs, "::mlir::Attribute":$rhs);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    /// The value of a constant, or the number of a node.
    static ExprAttr constant(::mlir::MLIRContext *context, int64_t value);
    static ExprAttr node(::mlir::MLIRContext *context, int64_t number);
    static ExprAttr symbol(::mlir::MLIRContext *context, ::llvm::StringRef name);
    static ExprAttr binary(ExprOp op, ExprAttr lhs, ExprAttr rhs);
    ExprAttr left() const { return ::mlir::cast<ExprAttr>(getLhs()); }
    ExprAttr right() const { return ::mlir::cast<ExprAttr>(getRhs()); }
  }];
}

class Plan_Enum<string name, list<string> cases>
    : I32EnumAttr<name, "", !foreach(number, !range(!size(cases)), I32EnumAttrCase<cases[number], number>)> {
  let cppNamespace = "::maestro::plan_ir";
}

def Plan_Combine : Plan_Enum<"Combine", ["Sum", "Max"]>;
def Plan_ParameterKind : Plan_Enum<"ParameterKind", ["Parameter", "Buffer", "NonPersistentBuffer"]>;
def Plan_Initializer : Plan_Enum<"Initializer", ["None", "Normal", "Ones", "Zeros", "Uniform"]>;
def Plan_RegionKind : Plan_Enum<"RegionKind", ["Parameters", "Gradients", "OptimizerState", "Constants", "Step", "Slot",
                                               "Workspace", "Channel"]>;
def Plan_ProgramKind : Plan_Enum<"ProgramKind", ["Count", "Forward", "Backward", "Norm", "Update", "Evaluate", "Prepare", "WeightGradient"]>;
def Plan_BindingKind : Plan_Enum<"BindingKind", ["Field", "LossSum", "LossCount", "LossScale", "HyperParameters",
                                                 "NormSquares", "RandomState", "SampleIds", "Value", "Gradient",
                                                 "Moment1", "Moment2", "EdgeInput", "EdgeOutput", "EdgeGradientInput",
                                                 "EdgeGradientOutput"]>;
def Plan_Optimizer : Plan_Enum<"Optimizer", ["AdamW", "Adam", "Sgd"]>;
def Plan_CandidateKind : Plan_Enum<"CandidateKind", ["Layout", "Alternative", "WhatIf"]>;
def Plan_LimitKind : Plan_Enum<"LimitKind", ["Time", "Memory"]>;
def Plan_Decay : Plan_Enum<"Decay", ["Constant", "Linear", "Cosine"]>;

#endif // MAESTRO_PLAN_DIALECT
