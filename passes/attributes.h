// The names of the attributes by which a module says what its functions' arguments and results are.
// The importer writes those of @graph; the passes write the others; the planner reads them all.
//
// clang-format off
// Arguments
//   nn.parameter  = "student/lm_head.weight"   a parameter or buffer; with nn.trainable if it learns
//   nn.field      = "input_ids"                a data field
//   nn.special    = "rng_state" | "sample_ids" what dropout needs
//   nn.loss_scale = "loss"                     f32 []: weight ÷ global count of it (+ nn.term)
//   nn.saved      = 3                          what @forward, or @backward, returned with the same number
//   nn.edge       = "vision_to_language"       in a section: what arrives over this edge;
//                                              with nn.carries_gradient where its gradient is sent back
//   nn.edge_gradient = "vision_to_language"    in @step, @backward: the gradient that arrives for it
//   nn.split = 1                               of a parameter: this dim is split over the section's tensor
//                                              devices, and the type is one device's part
// Results
//   nn.loss = "loss", nn.role = "sum"|"count"  f32 []: Σ over counted positions of this micro-batch,
//                                              and their number; decompose-loss turns the role
//                                              "mean" into these
//   nn.term = 1, nn.weight = 0.5               a loss that is a weighted sum of several means has one
//                                              sum and one count per term; absent: term 0, weight 1
//   nn.floor = 1.0                             of a count: the sum is divided by max(count over the batch, 1)
//   nn.gradient   = "student/lm_head.weight"   the gradient of Σ_k scale_k · sum_k
//   nn.over_data = "partial"                   what a gradient is over replicas; otherwise the operator
//                                              behind which that is unknown, in words
//   nn.saved      = 3                          see above
//   nn.edge, nn.edge_gradient                  what leaves over an edge, forward and backward
//   nn.output     = "logits"                   any other output of the model
// Module, or section
//   nn.dims = {batch = {combine = "sum", max = 16 : i64}, …}
//                                              how each symbol combines over samples; its bound; `own`: counts
//                                              the samples' own rows; `unpadded = "why"`: only samples of
//                                              equal length share a micro-batch
//   nn.recompute = "selective"|"full"          of a section: what its backward computes again (base/recompute.h)
//   nn.lighter_layers = 2, nn.layers = 12      with it: of so many layers of the section the last two have the next lighter one
//   nn.lighter_evenly                          with that: two that lie evenly among them, instead
//   nn.split_backward                          of a section: its weight gradients are a program of their own
//   nn.loss_chunks = 8                         of a section: what is behind its heads is done over so many chunks of rows
//   nn.tensor = 2                              of a section: devices that share its MLP blocks
//   nn.indivisible = [5]                       of a section: inner sizes of blocks that they cannot share
//   nn.stash = "…"                             what crosses from @forward to @backward, in words
// Operators
//   nn.atom = 3                                of a section that computes whole layers again, or some of them otherwise: the layer
//                                              that it belongs to (section_atoms.h)
//   nn.chunked                                 of a chunk of rows (chunk_losses.cpp)
// clang-format on
#pragma once

#include "llvm/ADT/StringRef.h"

namespace maestro::attributes {

inline constexpr llvm::StringLiteral kParameter = "nn.parameter";
inline constexpr llvm::StringLiteral kTrainable = "nn.trainable";
inline constexpr llvm::StringLiteral kField = "nn.field";
/// On a field's argument: it is not in the data, but 1 at the positions that a sample has and 0 where it is padded.
inline constexpr llvm::StringLiteral kOwnPositions = "nn.own_positions";
/// On a field's argument: the value with which samples are padded (f64); absent: 0.
inline constexpr llvm::StringLiteral kPad = "nn.pad";
/// In an entry of nn.dims: micro-batches hold samples of equal length only, and why: where padding would show, "" for
/// the user's wish.
inline constexpr llvm::StringLiteral kUnpadded = "unpadded";
inline constexpr llvm::StringLiteral kSpecial = "nn.special";
inline constexpr llvm::StringLiteral kLossScale = "nn.loss_scale";
inline constexpr llvm::StringLiteral kSaved = "nn.saved";
inline constexpr llvm::StringLiteral kLoss = "nn.loss";
inline constexpr llvm::StringLiteral kRole = "nn.role";
inline constexpr llvm::StringLiteral kTerm = "nn.term";
inline constexpr llvm::StringLiteral kWeight = "nn.weight";
inline constexpr llvm::StringLiteral kFloor = "nn.floor";
inline constexpr llvm::StringLiteral kGradient = "nn.gradient";
inline constexpr llvm::StringLiteral kOutput = "nn.output";
inline constexpr llvm::StringLiteral kDims = "nn.dims";
inline constexpr llvm::StringLiteral kEdge = "nn.edge";
inline constexpr llvm::StringLiteral kCarriesGradient = "nn.carries_gradient";
inline constexpr llvm::StringLiteral kEdgeGradient = "nn.edge_gradient";
inline constexpr llvm::StringLiteral kRecompute = "nn.recompute";
inline constexpr llvm::StringLiteral kLighterLayers = "nn.lighter_layers";
inline constexpr llvm::StringLiteral kLighterEvenly = "nn.lighter_evenly";
inline constexpr llvm::StringLiteral kLayers = "nn.layers";
inline constexpr llvm::StringLiteral kSplitBackward = "nn.split_backward";
inline constexpr llvm::StringLiteral kLossChunks = "nn.loss_chunks";
inline constexpr llvm::StringLiteral kAtom = "nn.atom";
inline constexpr llvm::StringLiteral kChunked = "nn.chunked";
inline constexpr llvm::StringLiteral kStash = "nn.stash";
inline constexpr llvm::StringLiteral kSplit = "nn.split";
inline constexpr llvm::StringLiteral kOverData = "nn.over_data";
inline constexpr llvm::StringLiteral kTensor = "nn.tensor";
inline constexpr llvm::StringLiteral kIndivisible = "nn.indivisible";

/// Functions of a module, by phase.
inline constexpr llvm::StringLiteral kGraphFunction = "graph";
inline constexpr llvm::StringLiteral kStepFunction = "step";
inline constexpr llvm::StringLiteral kCountFunction = "count";
inline constexpr llvm::StringLiteral kForwardFunction = "forward";
inline constexpr llvm::StringLiteral kEvaluateFunction = "evaluate";
inline constexpr llvm::StringLiteral kBackwardFunction = "backward";
inline constexpr llvm::StringLiteral kWeightGradientFunction = "weight_gradient";

} // namespace maestro::attributes
