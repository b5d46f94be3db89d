// Takes the weights out of a serialized ONNX model before it is parsed, so that reading a model never
// costs more memory than its graph, and so that a plan can name the place of every weight in the file.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <span>
#include <string>

namespace maestro::planner {

/// Key of the entry that stripWeights() adds to a TensorProto's external_data: "offset:length" of the
/// tensor's little-endian bytes inside the model file.
inline constexpr const char *kInlineDataKey = "maestro.inline";

/// Tensor data up to this many bytes stays in the parsed model (constants are read from there).
inline constexpr uint64_t kKeptTensorBytes = 64 << 10;

/// Copies the wire format of a ModelProto. Every initializer's and every attribute tensor's bytes
/// (raw_data, packed float_data and double_data) get a kInlineDataKey entry; those above
/// kKeptTensorBytes are left out of the copy. Touches payloads of other fields only to copy them.
/// Fails on truncated or malformed wire format, naming the byte.
Result<std::string> stripWeights(std::span<const uint8_t> file);

} // namespace maestro::planner
