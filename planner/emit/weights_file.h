// `weights: FILE.safetensors` of a workload's component: where in that file each parameter's value lies.
//
//   8 bytes: length n of the header, little-endian │ n bytes of JSON │ the tensors' bytes, one after the other
//
// Only the header is read. The plan then points into the file, and the executor reads the values.
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
  uint64_t offset = 0; ///< In the file.
  uint64_t bytes = 0;
};

class WeightsFile {
public:
  /// Reads and checks the header. Errors name the file and the tensor.
  static Result<WeightsFile> open(const std::string &path);
  /// Parses a header, whose tensors' bytes begin at `dataOffset` and are `dataBytes`.
  static Result<WeightsFile> parse(std::string_view json, uint64_t dataOffset, uint64_t dataBytes);

  /// The tensor of that name, or of the name that __metadata__ ties it to; null when there is none.
  const StoredTensor *find(const std::string &name) const;
  const std::map<std::string, StoredTensor> &all() const { return tensors; }
  const std::map<std::string, std::string> &ties() const { return metadata; }

private:
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Points every parameter of a component with a weights file into it, whatever the model itself holds. A parameter or
/// persistent buffer that the file lacks is refused, and so are other shapes and types that cannot be converted;
/// tensors that the model does not have are said in a warning.
Status applyWeightFiles(const Workload &workload, GraphSummary &graph);

} // namespace maestro::planner
