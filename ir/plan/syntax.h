// How the dialect's operations write what MLIR has no words for: symbolic integers, numbers with all their digits,
// buffers, a kernel's attributes. Internal to ir/plan.
#pragma once

#include "ir/plan/plan_dialect.h"

namespace maestro::plan_ir {

// The operation that printers are given, as operations' formats do, is not looked at.

/// `4*(batch*seq)`
mlir::ParseResult parseExpr(mlir::AsmParser &parser, ExprAttr &expr);
void printExpr(mlir::AsmPrinter &printer, mlir::Operation *, ExprAttr expr);
/// `[batch, 16]`
mlir::ParseResult parseExprs(mlir::AsmParser &parser, mlir::ArrayAttr &exprs);
void printExprs(mlir::AsmPrinter &printer, mlir::Operation *, mlir::ArrayAttr exprs);
/// `1.0e-03`: the fewest digits that give the number back; `inf`, `nan(0x7FF8000000000000)`.
mlir::ParseResult parseNumber(mlir::AsmParser &parser, mlir::FloatAttr &number);
void printNumber(mlir::AsmPrinter &printer, mlir::Operation *, mlir::FloatAttr number);
/// `r2`, `b12`, `(b12, none)`
mlir::ParseResult parseRegionRef(mlir::AsmParser &parser, mlir::IntegerAttr &number);
void printRegionRef(mlir::AsmPrinter &printer, mlir::Operation *, mlir::IntegerAttr number);
mlir::ParseResult parseBufferRef(mlir::AsmParser &parser, mlir::IntegerAttr &number);
void printBufferRef(mlir::AsmPrinter &printer, mlir::Operation *, mlir::IntegerAttr number);
mlir::ParseResult parseBufferRefs(mlir::AsmParser &parser, mlir::DenseI64ArrayAttr &buffers);
void printBufferRefs(mlir::AsmPrinter &printer, mlir::Operation *, mlir::DenseI64ArrayAttr buffers);
/// `{axes = [0, 1], eps = f64[1.0e-05], mode = "mean", shape = dims[batch, 16]}`
mlir::ParseResult parseCallAttributes(mlir::AsmParser &parser, mlir::ArrayAttr &names, mlir::ArrayAttr &values);
void printCallAttributes(mlir::AsmPrinter &printer, mlir::Operation *, mlir::ArrayAttr names, mlir::ArrayAttr values);

} // namespace maestro::plan_ir
