// What the samples of a data set measure, from the headers of a bounded number of them: for planning.
#pragma once

#include "base/status.h"
#include "executor/data/data_files.h"
#include "executor/data/field.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace maestro::data {

/// Of how many samples headers are read, in how many shards.
struct SizesLimit {
  uint64_t samples = 4096;
  uint64_t shards = 64;
};

/// What a field is like in the samples that were looked at.
struct FieldFindings {
  std::string name;
  uint64_t samples = 0; ///< That have it.
  DType dtype = DType::F32;
  std::vector<std::pair<int64_t, int64_t>> sizes; ///< By dim: least and largest; of the smallest rank.
};

struct DatasetSizes {
  /// Samples × symbols, as Batcher::measure() has them; in the order of the data. Of a mixture they are as a run reads
  /// them: sources in turn by weight, a shorter one again and again.
  std::vector<int64_t> values;
  uint64_t samples = 0;  ///< That were looked at.
  uint64_t shards = 0;   ///< That were read in,
  uint64_t among = 0;    ///< of so many.
  bool isWhole = false;  ///< All samples that there are,
  bool areAlike = false; ///< or one, as which all are.
  std::vector<FieldFindings> fields = {};
  std::vector<std::string> unread = {}; ///< Fields that nothing asks for.
};

/// A line a field, for people: its name, type, sizes, and how many samples lack it; then what nothing reads.
std::string describeFields(const DatasetSizes &sizes);

/// The first samples of each of some shards that are spread evenly over the data set; no value is read but single
/// numbers stored as text. A compressed shard cannot be read in part, so that it is the last one. The checks, and their
/// messages, are those of a run: of whatever comes into sight. Of tokens and arrays, all samples of a source are as its
/// first. InvalidInput where there is no sample.
Result<DatasetSizes> readDatasetSizes(const DataFiles &files, const std::vector<SymbolSpec> &symbols,
                                      const std::vector<FieldSpec> &fields, const SizesLimit &limit = {});

} // namespace maestro::data
