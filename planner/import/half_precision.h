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
//
// A number that the exporter rounded to 16 bits (a factor, the scale of an attention) would stay rounded. While the
// graph is imported casts of such numbers are therefore not folded, and a rounded one becomes what the text of its call
// says.
#pragma once

#include "base/dtype.h"
#include "ir/nn/nn.h"
#include "planner/import/node_context.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace maestro::planner {

inline bool isHalfPrecision(DType type) { return type == DType::BF16 || type == DType::F16; }
bool isHalfPrecision(nn::TensorType type);
/// `type` in f32 where it is bf16 or f16.
nn::TensorType widened(nn::TensorType type);

/// Whether `function`, of which nodes are still to be imported, will be widened in the end; told by markWidening().
bool willWiden(mlir::func::FuncOp function);
void markWidening(mlir::func::FuncOp function);

/// In a function that will be widened, a 16-bit scalar becomes the number again that `readers`' calls have, where their
/// texts say: one that is written there, the root of an attention's scale, or 1/⁴√d, the root of its usual scale, of a
/// d among `headSizes`.
void restoreRounded(ImportedValue &value, const std::vector<const onnx::NodeProto *> &readers,
                    const std::vector<int64_t> &headSizes, mlir::func::FuncOp function, Emitter &emitter);

/// Scalars that the exporter rounded, and that stay so.
std::vector<nn::ConstantOp> roundedScalars(mlir::func::FuncOp function);

/// Rewrites `function` where a parameter is bf16 or f16; returns which, or nothing.
std::optional<DType> widenHalfPrecision(mlir::func::FuncOp function);

} // namespace maestro::planner
