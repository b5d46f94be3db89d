// A pass that writes down what operators answer to their interfaces, for tests and curious readers.
#pragma once

#include "mlir/Pass/Pass.h"

#include <memory>

namespace maestro {

/// --maestro-annotate-answers: each `nn` operator gets nn.factors, nn.flops, nn.bytes, nn.kernel and, where
/// there is something to say, nn.reuse (operand->result), nn.accumulate (results) and nn.saves (alternatives).
std::unique_ptr<mlir::Pass> createAnnotateAnswersPass();
void registerAnnotateAnswersPass();

} // namespace maestro
