// What the samples of a data set measure. The planner knows no data format: whoever calls it brings a reader
// (tools/maestro_plan.cpp has the executor's).
#pragma once

#include "base/dtype.h"
#include "base/status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace maestro::planner {

/// What is asked of data: the fields that samples carry, in terms of dims.
struct DataQuestion {
  struct Dim {
    std::string name;
    bool sum = false; ///< Of a sample: rows; else a length.
    int64_t max = 1;
    int64_t multipleOf = 1;
  };
  struct Size {
    int64_t fixed = 0;
    int dim = -1; ///< DataQuestion.dims; -1: fixed
  };
  struct Field {
    std::string name;
    DType dtype = DType::F32;
    std::vector<Size> shape;
    bool optional = false;     ///< A sample may lack it,
    bool ownPositions = false; ///< or all do.
  };
  std::vector<Dim> dims;
  std::vector<Field> fields;
};

struct DataSizes {
  std::vector<int64_t> values; ///< samples × DataQuestion.dims, not empty; 0 where nothing tells.
  std::string what;            ///< "all 256 samples of 2 shards ('shards/*.tar')"
  bool isWhole = false;        ///< There are no other samples, and they are of sizes of their own.
};

/// Fails as a run over the data would.
using ReadSizes = std::function<Result<DataSizes>(const DataQuestion &)>;

} // namespace maestro::planner
