// Which data a run reads, for whoever goes on with it later.
#pragma once

#include "base/status.h"
#include "executor/data/data_files.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace maestro::data {

struct ShardIdentity {
  std::string path;
  uint64_t bytes = 0;
  double weight = 0; ///< Of its source in a mixture; 0: there is none.
};

struct DataIdentity {
  bool synthetic = false;
  bool shuffled = false;
  std::vector<ShardIdentity> shards; ///< In the order in which they are read.
};

/// Names and sizes of shards, whose files exist; of a folder, those of its arrays.
Result<DataIdentity> identify(const DataFiles &files, bool shuffled);

/// What differs, in words that name it; empty where nothing does. Shards may have moved to another
/// folder: their names, sizes and order count.
std::string differenceOf(const DataIdentity &before, const DataIdentity &now);

/// Whether the first `count` shards are the same.
bool beginAlike(const DataIdentity &before, const DataIdentity &now, uint64_t count);

} // namespace maestro::data
