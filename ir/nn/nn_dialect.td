// The `nn` dialect: coarse tensor operators in symbolic shapes (level 1 of the IR, ir/README.md).
#ifndef MAESTRO_NN_DIALECT
#define MAESTRO_NN_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def NN_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::maestro::nn";
  let summary = "Coarse tensor operators in symbolic shapes";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 0;
}

def NN_TensorType : TypeDef<NN_Dialect, "Tensor"> {
  let mnemonic = "tensor";
  let summary = "A dense row-major tensor whose dims are expressions of named symbols";
  let description = [{
    `!nn.tensor<[batch, 4*images, 768], f32>`; a scalar is `!nn.tensor<[], f32>`. Dims are canonical
    polynomials (ir/dim_expr.h), so that equal dims are equal types. Element types: f32 f64 bf16 f16
    i64 i32 i16 i8 ui8 i1. Rank at most 8; constant dims are not negative.
  }];
  let parameters = (ins ArrayRefParameter<"::maestro::DimExpr">:$shape, "::mlir::Type":$elementType);
  let builders = [
    TypeBuilderWithInferredContext<(ins "::llvm::ArrayRef<::maestro::DimExpr>":$shape,
                                        "::mlir::Type":$elementType), [{
      return $_get(elementType.getContext(), shape, elementType);
    }]>,
  ];
  let extraClassDeclaration = [{
    static constexpr int64_t kMaxRank = 8;
    int64_t getRank() const { return static_cast<int64_t>(getShape().size()); }
    const ::maestro::DimExpr &getDim(int64_t index) const { return getShape()[index]; }
    bool isFloat() const { return ::mlir::isa<::mlir::FloatType>(getElementType()); }
    bool isBool() const { return getElementType().isInteger(1); }
    /// f32 for f32, bf16 and f16; f64 for f64: what sums, statistics and losses are kept in.
    ::mlir::Type getAccumulatorType() const;
    ::maestro::DimExpr getNumElements() const;
    /// Bytes in memory: i1 takes one byte.
    ::maestro::DimExpr getByteSize() const;
    TensorType withShape(::llvm::ArrayRef<::maestro::DimExpr> shape) const;
    TensorType withElementType(::mlir::Type elementType) const;
  }];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def NN_DimsAttr : AttrDef<NN_Dialect, "Dims"> {
  let mnemonic = "dims";
  let summary = "A list of symbolic integers: `#nn.dims<[batch, seq - 1, 64]>`";
  let parameters = (ins ArrayRefParameter<"::maestro::DimExpr">:$values);
  let hasCustomAssemblyFormat = 1;
}

#endif // MAESTRO_NN_DIALECT
