// Reverse-mode differentiation of one block of `nn` operators: the core of differentiate.cpp, and
// of whatever later differentiates a part of a graph (a section whose results' gradients arrive
// over an edge).
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"
#include "mlir/Support/LLVM.h"

namespace maestro {

/// A value of the block, and the gradient that arrives there from outside.
struct IncomingGradient {
  mlir::Value value;
  mlir::Value gradient;
};

/// Builds, at `builder`'s insertion point, the gradients of Σ ⟨value, gradient⟩ over `incoming` for
/// the values `wanted` (arguments of the block or results inside it). One entry per wanted value,
/// each of its type; null where no gradient arrives. The block's operations must dominate the
/// insertion point.
///
/// Only what lies between a wanted value and an incoming gradient is differentiated: frozen parts
/// upstream stay forward-only. Fails on an operator without a gradient on the way, named with its
/// location.
///
/// A wanted value of 16-bit type whose contributions are f32 sums gets their f32 sum, rounded once;
/// such a rounding just before a cast back to f32 is left out (see ir/nn/gradients.h).
mlir::FailureOr<llvm::SmallVector<mlir::Value>> differentiate(mlir::OpBuilder &builder, mlir::Block &block,
                                                              mlir::ValueRange wanted,
                                                              llvm::ArrayRef<IncomingGradient> incoming);

} // namespace maestro
