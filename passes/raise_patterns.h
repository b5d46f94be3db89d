// The pattern sets of the raising passes, one per file passes/raise_*.cpp.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace maestro {

void addRaiseGatherPatterns(mlir::RewritePatternSet &patterns);
void addRaiseProductPatterns(mlir::RewritePatternSet &patterns);
void addRaiseNormPatterns(mlir::RewritePatternSet &patterns);
void addRaiseActivationPatterns(mlir::RewritePatternSet &patterns);
void addRaiseGluPatterns(mlir::RewritePatternSet &patterns);
void addRaiseRopePatterns(mlir::RewritePatternSet &patterns);
void addRaiseMaskPatterns(mlir::RewritePatternSet &patterns);
void addRaiseAttentionPatterns(mlir::RewritePatternSet &patterns);
void addRaiseCausalPatterns(mlir::RewritePatternSet &patterns);
void addRaiseSequenceMajorPatterns(mlir::RewritePatternSet &patterns);

} // namespace maestro
