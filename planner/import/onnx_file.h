// Reads an ONNX file as untrusted input and answers where its weights lie. Weights themselves are
// never read: planning needs shapes only.
//
// What holds after readOnnxFile(): the graph exists, IR and operator set versions are known, names are
// defined once and before their use (nodes are sorted if they were not), no cycle, every initializer's
// data has the size that its shape says, and external data exists where a file inside the model's own
// folder is named.
#pragma once

#include "base/dtype.h"
#include "base/status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace onnx {
class GraphProto;
class ModelProto;
class TensorProto;
} // namespace onnx

namespace maestro::planner {

/// Where a tensor's little-endian bytes lie.
struct TensorSource {
  std::string file; ///< Path as opened: the .onnx file itself or its external data file.
  uint64_t offset = 0;
  uint64_t length = 0;
};

class OnnxFile {
public:
  OnnxFile(std::string path, std::unique_ptr<onnx::ModelProto> model, uint64_t fileBytes);
  OnnxFile(OnnxFile &&) noexcept;
  OnnxFile &operator=(OnnxFile &&) noexcept;
  ~OnnxFile();

  const std::string &path() const { return pathText; }
  const onnx::ModelProto &model() const { return *proto; }
  const onnx::GraphProto &graph() const;
  /// The version of the default domain's operator set.
  int64_t opset() const { return opsetVersion; }

  /// Where `tensor`'s bytes lie; nothing when its values stand in typed fields (int64_data …).
  Result<std::optional<TensorSource>> locate(const onnx::TensorProto &tensor) const;

private:
  friend Result<OnnxFile> parseOnnx(std::span<const uint8_t> bytes, const std::string &path);
  std::string pathText;
  std::unique_ptr<onnx::ModelProto> proto;
  uint64_t fileBytes;
  int64_t opsetVersion = 0;
};

/// Reads and checks the file at `path`.
Result<OnnxFile> readOnnxFile(const std::string &path);

/// The same for bytes in memory; external data is looked for beside `path`.
Result<OnnxFile> parseOnnx(std::span<const uint8_t> bytes, const std::string &path);

/// The element type; nothing for types that Maestro has no tensors of (strings, complex, 4 bits …).
std::optional<DType> dtypeFromOnnx(int32_t dataType);
/// "FLOAT8E4M3FN" …, for messages.
std::string onnxTypeName(int32_t dataType);

/// Product of a TensorProto's dims; fails on negative dims and on overflow.
Result<uint64_t> elementCount(const onnx::TensorProto &tensor);

} // namespace maestro::planner
