// Discardable attributes by which an operator's gradient differs from the usual one. They change
// nothing of its value.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace maestro::nn {

/// Of nn.maximum and nn.minimum: rhs is a bound of lhs, and where the two are equal the gradient is
/// the bound's alone, as in torch.clamp. Without it ties share the gradient equally, as in
/// torch.maximum.
inline constexpr llvm::StringLiteral kClamps = "nn.clamps";
/// Of nn.gather: what is looked up there passes no gradient on, as with PyTorch's padding_idx.
inline constexpr llvm::StringLiteral kPaddingIndex = "nn.padding_index";

} // namespace maestro::nn
