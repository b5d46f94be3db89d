// Models exported in bf16 or f16.
//
// In which precision a component computes is the workload's to say (`precision`), whatever it was exported in. A graph
// whose weights are 16 bits wide is therefore rewritten to f32 as a whole; lowering it again, where bf16 is asked for,
// is a pass. A graph with f32 weights that casts here and there is left as its author wrote it.
//
//   func.func @m(%w: !nn.tensor<[4, 8], bf16> {nn.parameter = "m/w"}, %x: !nn.tensor<[n, 4], bf16> {nn.field = "x"}) {
//     %y = nn.matmul %x, %w : … -> !nn.tensor<[n, 8], bf16>
//
// becomes
//
//   func.func @m(%w: !nn.tensor<[4, 8], bf16> {nn.parameter = "m/w"}, %x: !nn.tensor<[n, 4], f32> {nn.field = "x"}) {
//     %0 = nn.cast %w : (!nn.tensor<[4, 8], bf16>) -> !nn.tensor<[4, 8], f32>
//     %y = nn.matmul %x, %0 : … -> !nn.tensor<[n, 8], f32>
//
// Parameters stay as the file has them, so that a frozen component's need no more memory. Where values change or are
// saved, the linker makes the argument f32, too.
#pragma once

#include "base/dtype.h"
#include "ir/nn/nn.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace maestro::planner {

bool isHalfPrecision(nn::TensorType type);
/// `type` in f32 where it is bf16 or f16.
nn::TensorType widened(nn::TensorType type);

/// Rewrites `function` where a parameter is bf16 or f16; returns which, or nothing.
std::optional<DType> widenHalfPrecision(mlir::func::FuncOp function);

} // namespace maestro::planner
