// Small ONNX models for tests, written as text in ONNX's own syntax.
#pragma once

#include "planner/import/importer.h"

#include <string>

namespace maestro::planner {

/// The bytes of the model that `text` describes. Ends the test program when the text is wrong.
std::string modelBytes(const std::string &text);

/// The same with its f32 initializers in f16, which the text cannot say.
std::string withHalfWeights(const std::string &text);

/// What importing it yields: the function as MLIR text, or "error: …".
std::string imported(const std::string &text);
std::string importedBytes(const std::string &bytes, const std::string &path = "model.onnx");

} // namespace maestro::planner
