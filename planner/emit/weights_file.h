// `weights:` of a workload's component: where in its files each parameter's value lies. What a path may name stands in
// base/weights_location.h: a safetensors file, the index of several, a folder.
//
//   8 bytes: length n of the header, little-endian │ n bytes of JSON │ the tensors' bytes, one after the other
//
// Only headers are read. The plan then points into the files, and the executor reads the values.
#pragma once

#include "base/dtype.h"
#include "base/status.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::planner {

struct GraphSummary;
struct Workload;

struct StoredTensor {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::string file;    ///< Path of the file that holds it; empty where a header was parsed by itself.
  uint64_t offset = 0; ///< In the file.
  uint64_t bytes = 0;
};

class WeightsFile {
public:
  /// Reads and checks the headers of the component's files at `path`. Errors name the file and the tensor.
  static Result<WeightsFile> open(const std::string &path, std::string_view component = {});
  /// Parses a header, whose tensors' bytes begin at `dataOffset` and are `dataBytes`.
  static Result<WeightsFile> parse(std::string_view json, uint64_t dataOffset, uint64_t dataBytes);

  /// The tensor of that name, or of the name that __metadata__ ties it to; null when there is none.
  const StoredTensor *find(const std::string &name) const;
  const std::map<std::string, StoredTensor> &all() const { return tensors; }
  const std::map<std::string, std::string> &ties() const { return metadata; }

private:
  static Result<WeightsFile> openOne(const std::string &path);
  static Result<WeightsFile> openIndex(const std::string &path);

  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// The files that a component's weights at `path` consist of, its index among them. Fails as WeightsFile::open() would,
/// but reads no header.
Result<std::vector<std::string>> filesOfWeights(const std::string &path, std::string_view component = {});

/// Points every parameter of a component with weights into them, whatever the model itself holds. A parameter or
/// persistent buffer that they lack is refused, and so are other shapes and types that cannot be converted; tensors
/// that the model does not have are said in a warning. A buffer that is not persistent keeps the graph's value where
/// they lack it; where the graph has none, either, it is refused, and without weights, which a run may still bring,
/// warned of.
Status applyWeightFiles(const Workload &workload, GraphSummary &graph);

} // namespace maestro::planner
