// Locates external tensor data. A model is untrusted: its data must be a regular file inside the
// model's own folder, reached without symbolic links.
#pragma once

#include "planner/import/onnx_file.h"

namespace maestro::planner {

/// Where the external data of `tensor` lies. `bytes` is the length that its shape needs. Fails when the
/// location is missing, absolute, leaves the folder, is a symbolic link, or is too short (with sizes).
Result<TensorSource> locateExternalData(const onnx::TensorProto &tensor, const std::string &modelPath, uint64_t bytes);

} // namespace maestro::planner
